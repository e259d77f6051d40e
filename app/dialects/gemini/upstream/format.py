"""Google's generateContent for upstreams: the Gemini API and Vertex AI."""

from ....framing.json_array import JsonArrayDecoder
from ...upstream_format import UpstreamFormat
from .parser import Parser
from .request import (
    IGNORED,
    Quirks,
    find_hosted_tool,
    find_limit,
    render_extra,
    render_request,
)

DIALECT = UpstreamFormat(
    path="models/{model}:streamGenerateContent?alt=sse",
    decoder=JsonArrayDecoder,
    parser=Parser,
    render_request=render_request,
    quirks=Quirks,
    models_path="models?pageSize=1000",  # 50 otherwise
    ignored=IGNORED,
    render_extra=render_extra,
    find_limit=find_limit,
    find_hosted_tool=find_hosted_tool,
)
