"""OpenAI Responses for upstreams."""

from ....framing.lenient import LenientDecoder
from ... import embeddings_calls, forwarded
from ...upstream_format import (
    OPENAI_HEADERS,
    OptionNames,
    Passthrough,
    ResumableAnswer,
    UpstreamFormat,
)
from ...writing.token_counts import CountCall, send_some
from .. import NAME
from . import request
from .parser import Parser
from .passthrough import add_system, finish, pass_on, restore_items
from .rules import NAMES

_COUNTED = (
    "input instructions tools tool_choice parallel_tool_calls text reasoning truncation"
    " previous_response_id conversation personality"
)

_OPTIONS = OptionNames(
    refused={
        "another model": "models fallbacks plugins route preset",
        "another destination": "provider mcp_servers tools.mcp extra_* data_sources webhook*",
        "another account": "api_key organization project",
        "another bill": "service_tier background",
        "what is stored": "previous_response_id conversation prompt container container_id"
        " file_id file_ids vector_store_ids tools.file_search"
        " tools.code_interpreter tools.shell tools.collections_search",
        "another account or other requests": OPENAI_HEADERS,
    },
    safe=(
        "temperature top_p top_k top_logprobs max_output_tokens seed reasoning text include"
        " truncation tool_choice parallel_tool_calls tools.function tools.custom"
        " stream_options.include_obfuscation safety_identifier user metadata prompt_cache_key"
        " prompt_cache_options prompt_cache_retention header.x-client-request-id"
    ),
    standard=(
        "input instructions max_output_tokens temperature top_p top_logprobs text reasoning include"
        " truncation tool_choice parallel_tool_calls max_tool_calls prompt_cache_* metadata user"
        " safety_identifier client_metadata context_management store"
        " stream_options.include_obfuscation tools.function tools.custom tools.namespace"
        " tools.tool_search tools.local_shell tools.apply_patch tools.computer*"
    ),
)

DIALECT = UpstreamFormat(
    path="responses",
    decoder=LenientDecoder,
    parser=Parser,
    render_request=request.render_request,
    tool_names=NAMES,
    quirks=request.Quirks,
    ignored=request.IGNORED,
    client_format=NAME,
    passthrough={NAME: Passthrough(pass_on, finish, add_system, restore_items)},
    render_extra=request.render_extra,
    options=_OPTIONS,
    limit="max_output_tokens",
    # "Background mode" of OpenAI's guides; a stream can be read on for 5 minutes.
    resume=ResumableAnswer(
        fields={"background": True, "store": True},
        cursor="sequence_number",
        query="starting_after",
        first=("type", "response.created"),
        repeated="include",
    ),
    token_count=CountCall("responses/input_tokens", send_some(_COUNTED), "input_tokens"),
    embeddings=embeddings_calls.OPENAI,
    forwarded=forwarded.OPENAI,
    effort_words=True,
)
