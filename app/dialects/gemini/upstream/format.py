"""Google's generateContent, of the Gemini API and Vertex AI, and its Interactions API."""

from ....framing.json_array import JsonArrayDecoder
from ....framing.lenient import LenientDecoder
from ...upstream_format import ResumableAnswer, UpstreamFormat
from ...writing.token_counts import CountCall
from . import request
from .embeddings import EMBEDDINGS
from .interactions import request as interactions
from .interactions.parser import Parser as InteractionsParser
from .parser import Parser

_MODELS = "models?pageSize=1000"  # 50 otherwise
_PROVIDER = "gcp.gemini"

DIALECT = UpstreamFormat(
    path="models/{model}:streamGenerateContent?alt=sse",
    decoder=JsonArrayDecoder,
    parser=Parser,
    render_request=request.render_request,
    quirks=request.Quirks,
    models_path=_MODELS,
    ignored=request.IGNORED,
    render_extra=request.render_extra,
    limit="generationConfig.maxOutputTokens",
    find_hosted_tool=request.find_hosted_tool,
    token_count=CountCall("models/{model}:countTokens", request.render_count, "totalTokens"),
    embeddings=EMBEDDINGS,
    provider=_PROVIDER,
    operation="generate_content",
)

INTERACTIONS = UpstreamFormat(
    path="interactions",
    decoder=LenientDecoder,
    parser=InteractionsParser,
    render_request=interactions.render_request,
    quirks=interactions.Quirks,
    models_path=_MODELS,
    ignored=interactions.IGNORED,
    render_extra=interactions.render_extra,
    limit="generation_config.max_output_tokens",
    find_hosted_tool=interactions.find_hosted_tool,
    # "Background execution" of the Gemini API's documentation.
    resume=ResumableAnswer(
        fields={"background": True, "store": True},
        cursor="event_id",
        query="last_event_id",
        first=("event_type", "interaction.created"),
    ),
    embeddings=EMBEDDINGS,
    provider=_PROVIDER,
)
