"""What Cohere really sent, cut at any byte, never looks complete without its last event."""

from typing import Any

import pytest

from app.errors import UpstreamError
from tests.dialects.streams import body_of, check, end_of, play, recordings

pytestmark = pytest.mark.proving

CUT = UpstreamError("upstream_truncated", "the connection broke")


@pytest.mark.parametrize("row", recordings("cohere"))
@pytest.mark.parametrize("cut", [None, CUT], ids=["closed", "broken"])
def test_a_cut_answer_never_looks_complete(row: dict[str, Any], cut: UpstreamError | None) -> None:
    body = body_of(row)
    marker = body.index(b"event: message-end")
    # A message that the end of input leaves whole counts, one of a broken connection does not.
    whole = body.index(b"\n\n", marker) + (0 if cut is None else 2)
    for size in {*range(0, len(body), 7), *range(marker - 50, len(body) + 1)}:
        found = play([body[:size]], dialect="cohere", cut=cut)
        check(found)
        complete = size >= whole and not row["truth"]["error"]
        assert (end_of(found).status == "completed") == complete, f"cut at {size}"
