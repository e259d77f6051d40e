"""Google's generateContent, at the Gemini API and on Vertex AI."""

from app.dialects.gemini.upstream.parser import Parser
from app.dialects.gemini.upstream.request import (
    IGNORED,
    Quirks,
    host,
    list_changes,
    place_extra,
    render_request,
)
from app.dialects.upstream_format import UpstreamFormat
from app.framing.json_array import JsonArrayDecoder

DIALECT = UpstreamFormat(
    path="models/{model}:streamGenerateContent?alt=sse",
    decoder=JsonArrayDecoder,
    parser=Parser,
    render_request=render_request,
    quirks=Quirks,
    models_path="models?pageSize=1000",  # 50 otherwise
    ignored=IGNORED,
    place_extra=place_extra,
    list_changes=list_changes,
    hosted=host,
)
