"""Anthropic Messages, at Anthropic's own API, on Vertex AI, and under Bedrock's `invoke`."""

from ....framing.lenient import LenientDecoder
from ... import embeddings_calls
from ...upstream_format import (
    OF_REQUESTS,
    OptionNames,
    Passthrough,
    UpstreamFormat,
    find_no_tool,
)
from ...writing.token_counts import CountCall, send_some
from .. import NAME, OLDEST_VERSION, VERSION
from . import request
from .bedrock_invoke import Decoder as BedrockDecoder
from .bedrock_invoke import render_count
from .parser import Parser
from .passthrough import add_system, mark_cache, pass_on, pass_on_bedrock, pass_on_vertex
from .rules import NAMES

_COUNTED = (
    "messages system tools tool_choice thinking output_config output_format cache_control"
    " context_management mcp_servers speed"
)

_STANDARD = (
    "messages system max_tokens temperature top_p stop_sequences metadata tool_choice thinking"
    " output_config output_format tools.custom tools.bash_* tools.text_editor_*"
    " tools.computer_* tools.memory_*"
)

_OPTIONS = OptionNames(
    refused={
        "another model": "fallbacks",
        "another destination": "mcp_servers tools.mcp* inference_geo",
        "another bill": "service_tier speed",
        "what is stored": "container file_id",
        "other requests": OF_REQUESTS,
        "another provider": "header.openai-*",
    },
    safe=f"{_STANDARD} top_k cache_control context_management compaction diagnostics"
    " header.x-client-request-id",
    standard=_STANDARD,
)

DIALECT = UpstreamFormat(
    path="v1/messages",
    decoder=LenientDecoder,
    parser=Parser,
    render_request=request.render_request,
    tool_names=NAMES,
    quirks=request.Quirks,
    headers={VERSION: OLDEST_VERSION},
    models_path="v1/models",
    ignored=request.IGNORED,
    client_format=NAME,
    find_hosted_tool=request.find_hosted_tool,
    render_extra=request.render_extra,
    options=_OPTIONS,
    passthrough={NAME: Passthrough(pass_on, request.finish_api, add_system, mark_cache=mark_cache)},
    continues=request.continues,
    token_count=CountCall("v1/messages/count_tokens", send_some(_COUNTED), "input_tokens"),
    provider="anthropic",
)

VERTEX = DIALECT._replace(
    path="{model}:streamRawPredict",
    render_request=request.render_vertex_request,
    headers={},
    models_path=None,
    passthrough={
        NAME: Passthrough(pass_on_vertex, request.finish_vertex, add_system, mark_cache=mark_cache)
    },
    token_count=CountCall(
        "count-tokens:rawPredict",
        send_some(f"anthropic_version anthropic_beta {_COUNTED}"),
        "input_tokens",
    ),
    provider="gcp.vertex_ai",
)

BEDROCK = DIALECT._replace(
    path="model/{model}/invoke-with-response-stream",
    decoder=BedrockDecoder,
    render_request=request.render_bedrock_request,
    headers={"accept": "application/vnd.amazon.eventstream"},
    models_path=None,
    find_hosted_tool=find_no_tool,
    passthrough={
        NAME: Passthrough(
            pass_on_bedrock, request.finish_bedrock, add_system, mark_cache=mark_cache
        )
    },
    token_count=CountCall("model/{model}/count-tokens", render_count, "inputTokens"),
    embeddings=embeddings_calls.BEDROCK,
    provider="aws.bedrock",
)
