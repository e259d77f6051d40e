"""What providers really sent, cut at any place, never looks complete."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from app.errors import UpstreamError
from app.events import (
    StreamEnd,
)
from tests.dialects.streams import (
    body_of,
    check,
    end_of,
    play,
    recordings,
)

pytestmark = pytest.mark.proving

ALL = pytest.mark.parametrize("row", recordings("openai_chat"))
CUT = UpstreamError("upstream_truncated", "the connection broke")
EVERY_BYTE = 1_500
"""Up to this size a body is cut at every byte, beyond it near line ends and at samples."""


@ALL
def test_a_cut_answer_never_looks_complete(row: dict[str, Any]) -> None:
    body = body_of(row)
    for size in places(body):
        for cut in (None, CUT):
            found = play([body[:size]], cut=cut)
            status = end_of(found).status
            expected = is_complete(body[:size], tail=cut is None)
            assert (status == "completed") == expected, f"cut at {size}: {found[-1]}"


def test_every_place_of_a_short_answer_keeps_the_invariants() -> None:
    body = b"".join(
        b'data: {"choices":[{"index":%d,"delta":{"content":"\\ud83d\\ude00","tool_calls":'
        b'[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]},'
        b'"finish_reason":"stop"}]}\n\n' % choice
        for choice in (0, 1)
    )
    for size in range(len(body) + 1):
        check(play([body[:size]]))
        check(play([body[:size]], cut=CUT))


def places(body: bytes) -> Iterator[int]:
    """Yield the sizes at which to cut a body."""
    near = {i + d for i, byte in enumerate(body) if byte == 0x0A for d in (-2, -1, 0, 1)}
    step = 1 if len(body) <= EVERY_BYTE else len(body) // 100
    yield from sorted((near | set(range(0, len(body), step))) & set(range(len(body) + 1)))


def is_complete(body: bytes, *, tail: bool) -> bool:
    """Return whether a body is a whole answer, by the rules and without the code under test."""
    text = body.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n")
    *blocks, rest = text.split("\n\n")
    finished: dict[int, bool] = {}
    for block in [*blocks, rest] if tail else blocks:
        lines = block.split("\n")
        data = "\n".join(line[6:] for line in lines if line.startswith("data: "))
        if data == "[DONE]":
            return True
        if "event: error" in lines:
            return False
        try:
            chunk = json.loads(data)
        except ValueError:
            continue
        if chunk.get("error"):
            return False
        for choice in chunk["choices"]:
            number = choice["index"]
            finished[number] = finished.get(number, False) or bool(choice.get("finish_reason"))
    return bool(finished) and all(finished.values())


def test_the_judge_of_cuts_is_right() -> None:
    chunk = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}'

    assert is_complete(chunk, tail=True)
    assert not is_complete(chunk, tail=False)
    assert not is_complete(chunk[:-1], tail=True)
    assert not is_complete(chunk.replace(b'"stop"', b"null"), tail=True)
    assert isinstance(play([chunk])[-1], StreamEnd)
