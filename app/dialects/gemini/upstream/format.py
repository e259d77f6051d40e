"""Google's generateContent for upstreams: the Gemini API and Vertex AI."""

from ....framing.json_array import JsonArrayDecoder
from ...upstream_format import UpstreamFormat
from . import request
from .parser import Parser

DIALECT = UpstreamFormat(
    path="models/{model}:streamGenerateContent?alt=sse",
    decoder=JsonArrayDecoder,
    parser=Parser,
    render_request=request.render_request,
    quirks=request.Quirks,
    models_path="models?pageSize=1000",  # 50 otherwise
    ignored=request.IGNORED,
    render_extra=request.render_extra,
    limit="generationConfig.maxOutputTokens",
    find_hosted_tool=request.find_hosted_tool,
)
