"""Amazon Bedrock's Converse for upstreams."""

from ....framing.eventstream import Decoder
from ... import embeddings_calls
from ...upstream_format import OptionNames, Quirks, UpstreamFormat, under
from ...writing.token_counts import CountCall
from . import request
from .parser import Parser
from .rules import NAMES

_OPTIONS = OptionNames(
    refused={
        "another model": "promptVariables promptRouter* additionalModelRequestFields.model*"
        " additionalModelRequestFields.fallbacks",
        "another destination": "additionalModelRequestFields.mcp_servers"
        " additionalModelRequestFields.inference_geo",
        "another bill": "performanceConfig serviceTier"
        " additionalModelRequestFields.speed additionalModelRequestFields.service_tier",
        "what is stored": "additionalModelRequestFields.container",
    },
    safe=(
        "inferenceConfig outputConfig toolConfig.toolChoice toolConfig.tools.toolSpec"
        " toolConfig.tools.cachePoint requestMetadata additionalModelResponseFieldPaths"
        + under(
            "additionalModelRequestFields",
            "enable_thinking frequency_penalty inferenceConfig.topK logit_bias min_p "
            "output_config presence_penalty reasoningConfig reasoning_config reasoning_effort "
            "repetition_penalty safety_mode seed thinking topK top_k",
        )
    ),
    keyed=True,
)

CONVERSE = UpstreamFormat(
    path="model/{model}/converse-stream",
    decoder=Decoder,
    parser=Parser,
    render_request=request.render_request,
    tool_names=NAMES,
    quirks=Quirks,
    headers={"accept": "application/vnd.amazon.eventstream"},
    models_path=None,
    ignored=request.IGNORED,
    render_extra=request.render_extra,
    options=_OPTIONS,
    limit="inferenceConfig.maxTokens",
    continues=request.continues,
    token_count=CountCall("model/{model}/count-tokens", request.render_count, "inputTokens"),
    embeddings=embeddings_calls.BEDROCK,
    provider="aws.bedrock",
)
