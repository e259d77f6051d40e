"""What clients are shown under a stream: ids that are its own, and do not give it away."""

import base64
import binascii
import itertools
import re
from collections.abc import Iterator

import msgspec
import pytest

from app import events as e
from app.dialects.answering.ids import public_token
from app.dialects.client_format import ClientFormat
from app.dialects.client_formats import CLIENT_FORMATS
from tests.dialects import examples as ex

pytestmark = pytest.mark.pure

SECRET = "4fJ9qXw0V1cT8mYbR2nZkQ"  # noqa: S105  (of a stream that is none)
OTHERS = [client_format for client_format in CLIENT_FORMATS.values() if client_format.letter]
EVENTS: list[e.Event] = [
    e.StreamStart(f"st_{SECRET}", "m", 1700000000),
    e.StreamTarget("u", "m", 1),
    *ex.thought(0, "Hm.", signature="sig", format="anthropic.thinking"),
    e.TextStart(1),
    e.TextDelta(1, "Hi"),
    e.Source("https://a.example", title="A", block=1),
    e.TextEnd(1),
    *ex.text(2),
    e.ProviderTool(3, "web_search", {"query": "q"}),
    e.ProviderTool(3, "web_search", output=[{"type": "web_search_result"}]),
    e.Opaque("x", "y"),
    e.Media(4, "image/png", data="aaaa"),
    e.Media(5, "audio/wav", data="aaaa"),
    *ex.call(6, "seseragi_6", "f", "{}"),
    e.Opaque("x", "y", block=6),
    *ex.call(7, "seseragi_7", "g"),
    e.ChoiceEnd("tool_calls", "tool_calls"),
    e.StreamEnd("completed", "tool_calls"),
]


def shown(client_format: ClientFormat, stream: str) -> Iterator[bytes]:
    """All that a dialect says of the stream, but for the ids of frames."""
    start = msgspec.structs.replace(EVENTS[0], stream=stream)
    renderer = client_format.renderer(stream)
    told = [frame.data for event in [start, *EVENTS[1:]] for frame in renderer.feed(event)]
    whole = client_format.render_result(stream, [start, *EVENTS[1:]])
    yield from [*told, msgspec.json.encode(whole)]


@pytest.mark.parametrize("client_format", OTHERS, ids=lambda client_format: client_format.name)
def test_no_dialect_tells_the_id_that_reads_and_stops(client_format: ClientFormat) -> None:
    # A page that uses `useChat` learns the id of its own stream by the relay's own event.
    own = e.encode(EVENTS[0])
    for said in shown(client_format, f"st_{SECRET}"):
        assert SECRET.encode() not in said.replace(own, b"")


@pytest.mark.parametrize("client_format", OTHERS, ids=lambda client_format: client_format.name)
def test_ids_are_the_same_each_time_and_other_ones_for_each_stream(
    client_format: ClientFormat,
) -> None:
    first, again, other = (
        b"\n".join(shown(client_format, stream)) for stream in ("st_a", "st_a", "st_b")
    )

    assert first == again
    assert first != other


def words(client_format: ClientFormat, stream: str) -> set[str]:
    """What a dialect says of the stream that it does not say of every stream."""
    said, common = (
        set(re.findall(r"[\w-]+", b" ".join(shown(client_format, one)).decode()))
        for one in (stream, "st_b")
    )
    return said - common


def unpacked(word: str) -> bytes:
    """Read what clients keep unseen, which names the call that it belongs to."""
    try:
        return base64.urlsafe_b64decode(word + "=" * (-len(word) % 4))
    except binascii.Error:
        return b""


def test_each_dialect_has_ids_of_its_own() -> None:
    """Whoever was told an id of one cannot make that of another."""
    stream = f"st_{SECRET}"
    found = {
        client_format.name: words(client_format, stream) - {stream} for client_format in OTHERS
    }
    call, response = (public_token(stream, name) for name in ("call", "openai_responses"))

    for one, two in itertools.combinations(found.values(), 2):
        assert all(call in common or call.encode() in unpacked(common) for common in one & two)
    assert [f"resp_{response}"] == [word for word in found["openai_responses"] if response in word]


def test_tokens_are_letters_that_ids_may_have_and_too_many_to_guess() -> None:
    tokens = {public_token(f"st_{number}", "a") for number in range(1000)}

    assert 1000 == len(tokens)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{22}", token) for token in tokens)
