"""OpenAI Responses."""

from ....framing.lenient import LenientDecoder
from ...upstream_format import UpstreamFormat
from ..name import NAME
from .parser import Parser
from .passthrough import pass_on
from .quirks import Quirks
from .request import (
    IGNORED,
    list_changes,
    place_extra,
    render_request,
)

DIALECT = UpstreamFormat(
    path="responses",
    decoder=LenientDecoder,
    parser=Parser,
    render_request=render_request,
    quirks=Quirks,
    ignored=IGNORED,
    passes={NAME: pass_on},
    place_extra=place_extra,
    list_changes=list_changes,
)
