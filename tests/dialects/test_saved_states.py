"""The law of checkpoints: a renderer that was saved and restored at any event writes the same."""

from collections.abc import Sequence

import pytest

from app.api.checkpoints import Checkpoint
from app.dialects.answering.pieces import MERGED, Pieces
from app.dialects.client_format import NumberedWriter
from app.dialects.client_formats import CLIENT_FORMATS
from app.dialects.openai_responses.client.result import BACKGROUND, ECHO
from app.dialects.openai_responses.client.tool_mapping import CALLS
from app.events import Event, StreamEnd, StreamStart, StreamTarget
from tests.dialects.clients import STREAM
from tests.dialects.shapes import ANSWERS
from tests.dialects.streams import DIALECT_OF, body_of, play, recordings, specified_bodies

NAMES = [name for name, one in CLIENT_FORMATS.items() if one.letter]
LABELS = {
    "usage": "1",
    "protocol_version": "1.0",
    BACKGROUND: "1",
    ECHO: '{"instructions": "' + "be brief " * 50 + '", "metadata": {"a": "b"}}',
    CALLS: '{"patch": {"form": "custom", "name": "patch"}}',
}
HEAD: list[Event] = [
    StreamStart(STREAM, "m", 1_700_000_000, LABELS),
    StreamTarget("u", "m-1", 1, "up-1"),
]
END = StreamEnd("completed", "stop")


def new(name: str, *, after: int = 0) -> NumberedWriter:
    writer = CLIENT_FORMATS[name].writer(STREAM, after=after, retry_ms=0)
    assert isinstance(writer, NumberedWriter)
    return writer


def restored(name: str, checkpoint: Checkpoint) -> NumberedWriter:
    writer = new(name, after=checkpoint.frames)
    assert checkpoint.restore(writer)
    return writer


def check_law(name: str, events: Sequence[Event]) -> None:
    """Write a stream whole, through a restored state at every event, and from some states on.

    Events that a client has seen leave the same state if they are passed over.
    """
    whole, checkpoints = [], []
    writer = new(name)
    for number, event in enumerate(events, 1):
        whole.append(writer.feed(event).removeprefix(b"retry: 0\n"))
        checkpoints.append(Checkpoint.of(writer, number, plain=bool(number % 2)))

    through = []
    writer = new(name)
    for number, event in enumerate(events, 1):
        through.append(writer.feed(event).removeprefix(b"retry: 0\n"))
        writer = restored(name, Checkpoint.of(writer, number, plain=bool(number % 2)))
    assert whole == through

    passed = new(name, after=10**9)
    for number, event in enumerate(events, 1):
        assert b"" == passed.catch_up(event)
        assert checkpoints[number - 1].frames == passed.count
        if number % max(1, len(events) // 12) == 0:
            checkpoints.append(Checkpoint.of(passed, number))

    # The states do not change with the renderer, nor with others that went on from them.
    every = max(1, len(events) // 12)
    for checkpoint in [*checkpoints[: len(events) : every], *checkpoints[len(events) - 2 :]] * 2:
        writer = restored(name, checkpoint)
        rest = b"".join(writer.feed(event) for event in events[checkpoint.events :])
        assert b"".join(whole[checkpoint.events :]) == rest.removeprefix(b"retry: 0\n")


@pytest.mark.pure
@pytest.mark.parametrize("shape", ANSWERS)
@pytest.mark.parametrize("name", NAMES)
def test_a_restored_renderer_writes_the_same(name: str, shape: str) -> None:
    events = [event for event in ANSWERS[shape](20) if not isinstance(event, StreamEnd)]

    check_law(name, [*HEAD, *events, END])


@pytest.mark.proving
@pytest.mark.parametrize("row", recordings())
def test_a_recorded_stream_is_written_the_same(row):
    events = play([body_of(row)], dialect=DIALECT_OF[row["format"]], choices=4)
    for name in NAMES:
        check_law(name, [*HEAD, *events])


@pytest.mark.pure
@pytest.mark.parametrize(("dialect", "path"), specified_bodies())
def test_a_specified_stream_is_written_the_same(dialect, path):
    events = play([path.read_bytes()], dialect=dialect, choices=4)
    for name in NAMES:
        check_law(name, [*HEAD, *events])


@pytest.mark.pure
@pytest.mark.parametrize("unnumbered", [name for name in NAMES if CLIENT_FORMATS[name].post_writer])
def test_frames_without_ids_are_counted(unnumbered: str) -> None:
    post_writer = CLIENT_FORMATS[unnumbered].post_writer
    assert post_writer is not None
    renderer = CLIENT_FORMATS[unnumbered].renderer(STREAM)
    posted, read = post_writer(renderer, STREAM, letter="c", after=0, retry_ms=0), new(unnumbered)
    for event in [*HEAD, *ANSWERS["texts"](20), END]:
        posted.feed(event)
        read.feed(event)

        assert posted.count == read.count
    assert read.count > 20


@pytest.mark.pure
def test_a_long_text_is_shared_in_few_parts() -> None:
    pieces, states = Pieces(), []
    writer = NumberedWriter(pieces, STREAM, letter="p", after=0, retry_ms=0)  # type: ignore[arg-type]
    for number in range(MERGED**2 + MERGED + 1):
        pieces += [f"{number}a", "b" * 300]
        states.append(Checkpoint.of(writer, number, plain=False))

    assert 3 == len(pieces)
    assert pieces.text() == "".join(f"{number}a" + "b" * 300 for number in range(len(states)))
    # Each character is in one text a level, however many states refer to it.
    texts = {id(text): len(text) for state in states for text in state.shared}
    assert sum(texts.values()) <= 3 * len(pieces.text())
    assert all(len(state.state) < 300 for state in states)


@pytest.mark.pure
@pytest.mark.parametrize("kind", ["texts", "thoughts", "arguments", "calls"])
@pytest.mark.parametrize("name", NAMES)
def test_a_state_weighs_the_same_at_any_length(name: str, kind: str) -> None:
    sizes = []
    for size in (200, 4000):
        writer = new(name)
        writer.feed(*HEAD, *(e for e in ANSWERS[kind](size) if not isinstance(e, StreamEnd)))
        sizes.append(len(Checkpoint.of(writer, 1, plain=False).state))

    if kind != "calls":
        assert sizes[1] < sizes[0] + 200
    else:  # an id of each, and in some formats its names
        assert sizes[1] < 200 * 4000
