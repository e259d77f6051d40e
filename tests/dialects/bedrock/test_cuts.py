"""Answers cut at any place never look complete, unless their finish was read."""

import struct
from pathlib import Path
from typing import Any

import pytest

from app.errors import UpstreamError
from tests.dialects.streams import body_of, check, end_of, play, recordings

pytestmark = pytest.mark.proving

RECORDINGS = Path(__file__).parents[2] / "recordings" / "bedrock"
SPECS = sorted(RECORDINGS.glob("*.spec.eventstream"))
CUT = UpstreamError("upstream_truncated", "the connection broke")
EVERY_BYTE = 1_000
"""Up to this size a body is cut at every byte, beyond it near frames' borders and at samples."""


def borders(body: bytes) -> list[int]:
    """Return where frames end."""
    found = [0]
    while found[-1] < len(body):
        found.append(found[-1] + struct.unpack_from(">I", body, found[-1])[0])
    return found[1:]


def finished_at(body: bytes, marker: bytes) -> int:
    """Return the end of the first frame that holds a marker, more than the body if none does."""
    start = 0
    for end in borders(body):
        if marker in body[start:end]:
            return end
        start = end
    return len(body) + 1


def assert_cuts(body: bytes) -> None:
    ends = borders(body)
    near = {end + d for end in ends for d in (-1, 0, 1, 12)}
    step = 1 if len(body) <= EVERY_BYTE else len(body) // 100
    finish = finished_at(body, b"messageStop")
    failed = min(finished_at(body, b"exception"), finished_at(body, b":error-code"))
    for size in sorted((near | set(range(0, len(body), step))) & set(range(len(body) + 1))):
        for cut in (None, CUT):
            found = play([body[:size]], dialect="bedrock_converse", cut=cut)
            check(found)
            # A frame that is cut tells of a truncation, a lost connection by itself does not.
            whole = finish <= size < failed and (cut is not None or size in ends)
            assert (end_of(found).status == "completed") == whole, f"cut at {size}: {found[-1]}"


@pytest.mark.parametrize("row", recordings("bedrock_converse"))
def test_a_cut_recording_never_looks_complete(row: dict[str, Any]) -> None:
    assert_cuts(body_of(row))


@pytest.mark.parametrize("path", SPECS, ids=[path.name for path in SPECS])
def test_a_cut_body_never_looks_complete(path: Path) -> None:
    if path.name.startswith("converse-"):
        assert_cuts(path.read_bytes())
    else:
        assert_invoke_cuts(path.read_bytes())


@pytest.mark.parametrize("row", recordings("bedrock_anthropic"))
def test_claudes_own_events_are_whole_with_their_marker_only(row: dict[str, Any]) -> None:
    assert_invoke_cuts(body_of(row))


def assert_invoke_cuts(body: bytes) -> None:
    whole = end_of(play([body], dialect="bedrock_anthropic")).status == "completed"
    for size in range(len(body) + 1):
        for cut in (None, CUT):
            found = play([body[:size]], dialect="bedrock_anthropic", cut=cut)
            check(found)
            # The last frame holds `message_stop`.
            expected = whole and size == len(body)
            assert (end_of(found).status == "completed") == expected, f"cut at {size}"
