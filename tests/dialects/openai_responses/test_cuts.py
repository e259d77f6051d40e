"""What providers really sent, and what is specified, cut at any place: never complete."""

import json
from pathlib import Path
from typing import Any

import pytest

from app.errors import UpstreamError
from tests.dialects.streams import body_of, check, end_of, play, recordings

pytestmark = pytest.mark.proving

RECORDINGS = Path(__file__).parents[2] / "recordings" / "openai_responses"
CUT = UpstreamError("upstream_truncated", "the connection broke")
ENDS = ("response.completed", "response.incomplete", "response.done")


def is_complete(body: bytes, *, tail: bool) -> bool:
    """Return whether a body is a whole answer, by the rules and without the code under test."""
    *blocks, rest = body.decode(errors="replace").split("\n\n")
    for block in [*blocks, rest] if tail else blocks:
        data = "\n".join(line[6:] for line in block.split("\n") if line.startswith("data: "))
        try:
            kind = json.loads(data).get("type")
        except ValueError:
            continue
        if kind in ENDS or kind == "error":
            return bool(kind in ENDS)
    return False


def assert_no_cut_is_complete(body: bytes) -> None:
    near = {i + d for i, byte in enumerate(body) if byte == 0x0A for d in (-2, -1, 0, 1)}
    step = max(1, len(body) // 200)
    for size in sorted((near | set(range(0, len(body) + 1, step))) & set(range(len(body) + 1))):
        for cut in (None, CUT):
            found = play([body[:size]], dialect="openai_responses", cut=cut)
            check(found)
            status = end_of(found).status
            expected = is_complete(body[:size], tail=cut is None)
            assert (status == "completed") == expected, f"cut at {size}: {found[-1]}"


@pytest.mark.parametrize("row", recordings("openai_responses"))
def test_a_cut_answer_never_looks_complete(row: dict[str, Any]) -> None:
    assert_no_cut_is_complete(body_of(row))


@pytest.mark.parametrize("path", sorted(RECORDINGS.glob("*.sse")), ids=lambda path: str(path.name))
def test_a_cut_specified_answer_never_looks_complete(path: Path) -> None:
    assert_no_cut_is_complete(path.read_bytes())


def test_the_judge_of_cuts_is_right() -> None:
    end = b'data: {"type":"response.completed"}'

    assert is_complete(end, tail=True)
    assert not is_complete(end, tail=False)
    assert is_complete(end + b"\n\n", tail=False)
    assert not is_complete(end[:-1], tail=True)
    assert not is_complete(b'data: {"type":"error"}\n\n' + end + b"\n\n", tail=False)
