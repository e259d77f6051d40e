"""What Ollama really sent, cut at any byte, never looks complete without its last line."""

import json
from typing import Any

import pytest

from app.errors import UpstreamError
from tests.dialects.streams import body_of, check, end_of, play, recordings

pytestmark = pytest.mark.proving

CUT = UpstreamError("upstream_truncated", "the connection broke")


@pytest.mark.parametrize("row", recordings("ollama"))
@pytest.mark.parametrize("cut", [None, CUT], ids=["closed", "broken"])
def test_a_cut_answer_never_looks_complete(row: dict[str, Any], cut: UpstreamError | None) -> None:
    body = body_of(row)
    assert json.loads(body.splitlines()[-1])["done"]
    whole = len(body.rstrip(b"\n")) + (cut is not None)  # a broken line is never whole
    step = 1 if len(body) < 1000 else 7
    for size in {*range(0, len(body), step), *range(len(body) - 300, len(body) + 1)}:
        found = play([body[:size]], dialect="ollama", cut=cut)
        check(found)
        assert (end_of(found).status == "completed") == (size >= whole), f"cut at {size}"
