"""The upstream format of cassettes: the relay's own events, one per line.

No provider speaks it, so it is not among the formats that settings can name.
"""

from typing import Any

from ....framing.ndjson import NdjsonDecoder
from ....requests import ChatRequest
from ...upstream_format import Quirks, RenderedRequest, UpstreamFormat
from .parser import Parser


class Decoder(NdjsonDecoder):
    """Decodes lines of any length: their file is bounded, and in memory already."""

    def __init__(self, *, max_line: int = 0, max_event: int = 0) -> None:
        super().__init__(max_line=2**62, max_event=2**62)


def render_request(request: ChatRequest, **_: Any) -> RenderedRequest:
    """Return an empty body: the answer is the recorded one for any request."""
    return RenderedRequest({})


FORMAT = UpstreamFormat(
    path="",
    decoder=Decoder,
    parser=Parser,
    render_request=render_request,
    quirks=Quirks,
    models_path=None,
)
