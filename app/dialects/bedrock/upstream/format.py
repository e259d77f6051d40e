"""Amazon Bedrock: Converse, and Claude's own format under `invoke`."""

from app.dialects.anthropic.upstream.bedrock_invoke import Decoder as InvokeDecoder
from app.dialects.anthropic.upstream.parser import Parser as AnthropicParser
from app.dialects.anthropic.upstream.passthrough import pass_on_bedrock
from app.dialects.anthropic.upstream.request import IGNORED as ANTHROPIC_IGNORED
from app.dialects.anthropic.upstream.request import Quirks as AnthropicQuirks
from app.dialects.anthropic.upstream.request import list_changes as list_anthropic_changes
from app.dialects.anthropic.upstream.request import place_extra as place_anthropic_extra
from app.dialects.anthropic.upstream.request import render_bedrock_request
from app.dialects.bedrock.upstream.parser import Parser
from app.dialects.bedrock.upstream.request import (
    IGNORED,
    Quirks,
    list_changes,
    place_extra,
    render_request,
)
from app.dialects.upstream_format import Dialect
from app.framing.eventstream import Decoder

CONVERSE = Dialect(
    path="model/{model}/converse-stream",
    decoder=Decoder,
    parser=Parser,
    render_request=render_request,
    quirks=Quirks,
    headers={"accept": "application/vnd.amazon.eventstream"},
    models_path=None,
    ignored=IGNORED,
    list_changes=list_changes,
    place_extra=place_extra,
)

INVOKE = Dialect(
    path="model/{model}/invoke-with-response-stream",
    decoder=InvokeDecoder,
    parser=AnthropicParser,
    render_request=render_bedrock_request,
    quirks=AnthropicQuirks,
    headers={"accept": "application/vnd.amazon.eventstream"},
    models_path=None,
    ignored=ANTHROPIC_IGNORED,
    list_changes=list_anthropic_changes,
    place_extra=place_anthropic_extra,
    passes={"anthropic": pass_on_bedrock},
)
