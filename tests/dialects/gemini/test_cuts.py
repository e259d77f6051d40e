"""What Gemini really sent, cut at any place, never looks complete."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.errors import UpstreamError
from tests.dialects.streams import body_of, check, end_of, play, recordings

pytestmark = pytest.mark.proving

RECORDINGS = Path(__file__).parents[2] / "recordings" / "gemini"
SPECS = sorted(RECORDINGS.glob("*.spec.*[!n]"))
CUT = UpstreamError("upstream_truncated", "the connection broke")
EVERY_BYTE = 2_000
"""Up to this size a body is cut at every byte, beyond it near line ends and at samples."""


@pytest.mark.parametrize("row", recordings("gemini"))
def test_a_cut_answer_never_looks_complete(row: dict[str, Any]) -> None:
    judge(body_of(row))


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.name)
def test_a_cut_answer_of_a_specification_never_looks_complete(path: Path) -> None:
    judge(path.read_bytes())


def judge(body: bytes) -> None:
    for size in places(body):
        for cut in (None, CUT):
            found = play([body[:size]], dialect="gemini", cut=cut)
            check(found)
            status = end_of(found).status
            expected = is_complete(body[:size], tail=cut is None)
            assert (status == "completed") == expected, f"cut at {size}: {found[-1]}"


def places(body: bytes) -> Iterator[int]:
    """Yield the sizes at which to cut a body."""
    near = {i + d for i, byte in enumerate(body) if byte == 0x0A for d in (-2, -1, 0, 1)}
    step = 1 if len(body) <= EVERY_BYTE else len(body) // 100
    yield from sorted((near | set(range(0, len(body), step))) & set(range(len(body) + 1)))


def is_complete(body: bytes, *, tail: bool) -> bool:
    """Return whether a body is a whole answer, by the rules and without the code under test."""
    text = body.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n")
    chunks: list[Any] = []
    if text.startswith("["):
        try:
            chunks = json.loads(text)
        except ValueError:
            return False
    else:
        *blocks, rest = text.split("\n\n")
        for block in [*blocks, rest] if tail else blocks:
            data = re.sub("^data: ", "", block)
            try:
                chunks.append(json.loads(data))
            except ValueError:
                if block is rest and data.startswith("{"):
                    return False
    finished: dict[int, bool] = {}
    for chunk in chunks:
        if "error" in chunk:
            return False
        for candidate in chunk.get("candidates", ()):
            number = candidate.get("index", 0)
            says = any(
                part != {"text": ""} for part in candidate.get("content", {}).get("parts", ())
            )
            finished[number] = "finishReason" in candidate or (
                finished.get(number, False) and not says
            )
    return bool(finished) and all(finished.values())


def test_the_judge_of_cuts_is_right() -> None:
    chunk = b'data: {"candidates":[{"finishReason":"STOP"}]}'

    assert is_complete(chunk, tail=True)
    assert not is_complete(chunk, tail=False)
    assert not is_complete(chunk[:-1], tail=True)
    assert is_complete(b"[%b]" % chunk[6:], tail=False)
    assert not is_complete(b"[%b" % chunk[6:], tail=True)
    assert is_complete(chunk + b"\n\n", tail=True)
    assert not is_complete(chunk + b"\n\n" + chunk[:-1], tail=True)
    more = b'data: {"candidates":[{"content":{"parts":[{"text":"a"}]}}]}'
    assert not is_complete(chunk + b"\n\n" + more, tail=True)
