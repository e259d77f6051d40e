"""The relay's own events, one a line, as a cassette is replayed.

No provider speaks it, so it is not among the formats that settings can name.
"""

from typing import Any

from ....framing.ndjson import NdjsonDecoder
from ....requests import ChatRequest
from ...upstream_format import Quirks, RenderedRequest, UpstreamFormat
from .parser import Parser


class Decoder(NdjsonDecoder):
    """Lines of any length: the file that they are from is bounded, and was read already."""

    def __init__(self, *, max_line: int = 0, max_event: int = 0) -> None:
        super().__init__(max_line=2**62, max_event=2**62)


def render_request(request: ChatRequest, **_: Any) -> RenderedRequest:
    """Say nothing: whatever is asked, the answer is the recorded one."""
    return RenderedRequest({})


FORMAT = UpstreamFormat(
    path="",
    decoder=Decoder,
    parser=Parser,
    render_request=render_request,
    quirks=Quirks,
    models_path=None,
)
