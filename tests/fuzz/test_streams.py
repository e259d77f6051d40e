"""No bytes of an upstream break a parser or a renderer, and no cut makes an answer look whole.

A fixed number of rounds with a fixed seed; `python -m tests.fuzz answers` looks for more.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from random import Random

import msgspec
import pytest

from app import events
from app.dialects.client_formats import CLIENT_FORMATS
from app.dialects.native.client.renderer import compact
from app.dialects.reading.event_builder import EventBuilder
from app.dialects.upstream_formats import UPSTREAM_FORMATS
from app.errors import RelayError
from app.events import ErrorInfo, Event, Status, StreamEnd, TokenCounts
from app.framing.sse import Decoder
from tests.dialects.clients import HEAD, STREAM
from tests.dialects.cost import count_calls
from tests.dialects.streams import check
from tests.dialects.work import play
from tests.fuzz.streams_corpus import Body, corpus, cuts, mutate

pytestmark = pytest.mark.proving

MARKERS = {
    "openai_chat": (b"[DONE]", b"finish_reason"),
    "openai_responses": (b"completed", b"incomplete"),
    "anthropic": (b"message_stop",),
    "bedrock_converse": (b"messageStop",),
    "gemini": (b"finishReason",),
    "gemini_interactions": (b"interaction.completed",),
    "cohere": (b"message-end",),
    "ollama": (b'"done":true', b'"done": true'),
}
"""What says in a stream that the answer is whole: the first of them is there before its end."""
AMPLIFIED = 60
"""How many times as long as a body its events, or its frames in a dialect, may be."""


def rounds(number: int, target: str) -> Iterator[Random]:
    """Yield the dice of each round; a failure names the round."""
    for done in range(number):
        sys.stdout.write(f"\rtarget {target} round {done}")
        yield Random(f"{target} {done}")


def check_frames(found: Sequence[Event], *, dice: Random, size: int) -> None:
    """Assert that every client gets what its format promises, whole and after a cursor."""
    for name, client_format in CLIENT_FORMATS.items():
        writer = client_format.writer(STREAM, after=0, retry_ms=2000)
        written = [writer.feed(event) for event in found]
        body = b"".join(written)
        assert b"\r" not in body
        assert len(body) < AMPLIFIED * size + 2**16, name
        frames = body.split(b"\n\n")[:-1]
        for frame in frames:
            assert frame.count(b"\ndata: ") + frame.startswith(b"data: ") == 1
            data = frame.partition(b"data: ")[2].partition(b"\n")[0]
            assert data == b"[DONE]" or isinstance(json.loads(data), dict)
        decoder = Decoder()
        assert len(decoder.feed(body)) == len(frames)
        assert decoder.close() is None
        if name != "native":
            after = dice.randint(0, len(frames))
            writer = client_format.writer(STREAM, after=after, retry_ms=2000)
            rest = b"".join(map(writer.feed, found)).split(b"\n\n")[:-1]
            assert [f.removeprefix(b"retry: 2000\n") for f in frames[after:]] == [
                f.removeprefix(b"retry: 2000\n") for f in rest
            ]
        try:
            result = client_format.render_result(STREAM, found)
        except RelayError:
            continue
        json.loads(msgspec.json.encode(result))
    joined = compact(found)
    assert joined[-1] == (len(found), found[-1])


def size_of(found: Iterable[Event]) -> int:
    return sum(len(events.encode(event)) for event in found)


@pytest.fixture(scope="module")
def bodies() -> list[Body]:
    return corpus()


@pytest.mark.parametrize("dialect", UPSTREAM_FORMATS)
def test_any_bytes_in_any_pieces_are_one_answer_that_ends(dialect: str, bodies: list[Body]) -> None:
    spoken = "anthropic" if dialect == "vertex_anthropic" else dialect
    own = [body._replace(dialect=dialect) for body in bodies if body.dialect == spoken]
    for dice in rounds(60, dialect):
        data = mutate(dice.choice(own), [*own, dice.choice(bodies)], dice)
        limit = dice.choice((2**24, 2**24, 2**24, 3000, 100))
        found = play(dialect, cuts(data, dice), limit=limit)

        assert found == play(dialect, [data] if data else [], limit=limit)
        check(found)
        assert size_of(found) < AMPLIFIED * len(data) + 2**16
        if dialect in ("openai_responses", "gemini", "ollama"):
            words = [word.strip(b'"').partition(b'"')[0] for word in MARKERS[dialect]]
            whole = any(word in data for word in words) or b"\\u" in data
            assert whole or found[-1].status != "completed"  # type: ignore[union-attr]
        check_frames([*HEAD, *found], dice=dice, size=len(data))


def test_an_answer_that_was_cut_before_its_end_is_never_complete(bodies: list[Body]) -> None:
    whole = [body for body in bodies if _completes(body) and body.dialect in MARKERS]
    assert {body.dialect for body in whole} == set(MARKERS)
    for dice in rounds(60, "cut"):
        body = dice.choice(whole)
        found = (body.data.find(marker) for marker in MARKERS[body.dialect])
        end = min(at for at in found if at >= 0)

        cut = play(body.dialect, cuts(body.data[: dice.randint(0, end)], dice))

        assert _status(cut) == "failed", body.name


def test_a_message_that_comes_again_and_again_costs_as_much_each_time(bodies: list[Body]) -> None:
    for dice in rounds(60, "again"):
        body = dice.choice(bodies)
        messages = body.messages()
        at = dice.randrange(len(messages))
        before, again = (
            b"".join(messages[:at]),
            messages[at] + messages[min(at + 1, len(messages) - 1)],
        )

        few = count_calls(partial(play, body.dialect, [before, *[again] * 32]))
        many = count_calls(partial(play, body.dialect, [before, *[again] * 128]))

        assert many < 5 * few + 1000, (body.name, at)


def test_any_valid_events_are_frames_of_every_dialect() -> None:
    for dice in rounds(60, "renderers"):
        found = _valid(dice)
        check(found)
        check_frames([*HEAD, *found], dice=dice, size=size_of(found))


def _completes(body: Body) -> bool:
    return _status(play(body.dialect, [body.data])) == "completed"


def _status(found: list[Event]) -> str:
    end = found[-1]
    assert isinstance(end, StreamEnd)
    return end.status


def _valid(dice: Random) -> list[Event]:
    """Return the events of an answer that says anything in any order."""
    shape = EventBuilder()
    blocks: dict[int, list[int]] = {}
    texts = ("a", "", "é\u2028\n\r", "{", "}", '{"a":1}', "\ud83d", "\ude00", "x" * 500, "[DONE]")
    for _ in range(dice.randint(0, 60)):
        choice, text = dice.choice((0, 0, 0, 1, 5)), dice.choice(texts)
        called = blocks.setdefault(choice, [])
        block = dice.choice(called) if called and dice.random() < 0.5 else None
        match dice.randrange(16):
            case 0 | 1:
                shape.text(choice, text)
            case 2:
                shape.reasoning(choice, text)
            case 3:
                shape.refusal(choice, text)
            case 4 | 5 | 6:
                name = dice.choice(("", "f", "g\n", "é"))
                call = dice.choice(("", "i", "call_0", "é\n"))
                number = dice.choice((None, 0, 1, -1))
                made = shape.tool_call(choice, index=number, id=call, name=name, arguments=text)
                called += [] if made is None else [made]
            case 7:
                shape.end_tool_call(choice, block)
            case 8:
                kinds = ("anthropic", "anthropic.redacted_thinking", "openai.phase", "x", "google")
                shape.opaque(choice, dice.choice(kinds), text, block=block)
            case 9:
                shape.sign(choice, dice.choice(("signature", "encrypted")), text, format=text[:3])
            case 10:
                value = dice.choice(({"type": "a"}, [], None, [[1]], "a"))
                shape.provider_tool(choice, dice.choice(("web_search", "t")), input=value)
            case 11:
                kind = dice.choice(("image/png", "audio/pcm", "a"))
                shape.media(choice, kind, url=dice.choice((None, "u")), data="AA==")
            case 12:
                span = dice.choice(((None, None), (0, 1), (5, 2)))
                shape.source(choice, url=dice.choice((None, "u")), document="d", span=span)
            case 13:
                rows = [{"token": "a", "logprob": -1, "top_logprobs": []}, {"token": 1}]
                shape.logprobs(choice, dice.choice((rows, [{"token": "a", "logprob": 0}])))
            case 14:
                shape.content_filter(choice, "completion", {"hate": {"filtered": True}})
                shape.notice("n", text)
            case _:
                shape.finish(choice, dice.choice(("stop", "length", "odd")), stop_sequence=text)
                shape.usage(TokenCounts(input_tokens=dice.choice((None, 3)), output_tokens=2))
    status: Status = dice.choice(("completed", "completed", "failed", "cancelled", "interrupted"))
    error = ErrorInfo("upstream_truncated", "m", retryable=True) if status == "failed" else None
    shape.end(status, error)
    return shape.take()
