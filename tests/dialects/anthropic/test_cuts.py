"""Messages cut at any place never look complete, unless `message_stop` was there."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.errors import UpstreamError
from tests.dialects.streams import body_of, check, end_of, play, recordings

pytestmark = pytest.mark.proving

RECORDINGS = Path(__file__).parents[2] / "recordings" / "anthropic"
SPECS = sorted(RECORDINGS.glob("*.spec.sse"))
CUT = UpstreamError("upstream_truncated", "the connection broke")
EVERY_BYTE = 2_000
"""Up to this size a body is cut at every byte, beyond it near line ends and at samples."""
MARKER = b'{"type":"message_stop"'


def places(body: bytes) -> Iterator[int]:
    """Yield the sizes at which to cut a body."""
    near = {i + d for i, byte in enumerate(body) if byte == 0x0A for d in (-2, -1, 0, 1)}
    step = 1 if len(body) <= EVERY_BYTE else len(body) // 100
    yield from sorted((near | set(range(0, len(body), step))) & set(range(len(body) + 1)))


def is_complete(body: bytes, *, tail: bool) -> bool:
    """Return whether the marker came whole, and without `tail` the blank line after it too."""
    lines = body.replace(b"\r\n", b"\n")
    _, marker, rest = lines.partition(MARKER)
    ended = rest.lstrip(b" ").startswith(b"}")
    return bool(marker) and ended and (tail or b"\n\n" in rest or rest.endswith(b"\n\r"))


def assert_cuts(body: bytes) -> None:
    for size in places(body):
        for cut in (None, CUT):
            found = play([body[:size]], dialect="anthropic", cut=cut)
            check(found)
            status = end_of(found).status
            expected = is_complete(body[:size], tail=cut is None)
            assert (status == "completed") == expected, f"cut at {size}: {found[-1]}"


@pytest.mark.parametrize("row", recordings("anthropic"))
def test_a_cut_recording_never_looks_complete(row: dict[str, Any]) -> None:
    assert_cuts(body_of(row))


@pytest.mark.parametrize("path", SPECS, ids=[path.name for path in SPECS])
def test_a_cut_body_never_looks_complete(path: Path) -> None:
    assert_cuts(path.read_bytes())


def test_the_judge_of_cuts_is_right() -> None:
    stop = b'event: message_stop\ndata: {"type":"message_stop"  }  '

    assert is_complete(stop, tail=True)
    assert not is_complete(stop, tail=False)
    assert is_complete(stop + b"\n\n", tail=False)
    assert is_complete(stop + b"\r\n\r", tail=False)
    assert not is_complete(stop[:-3], tail=True)
    assert not is_complete(stop.replace(b"_stop", b"_delta"), tail=True)
