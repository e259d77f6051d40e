"""The file of a cassette: what is taken and what is refused, and what a replay of it sends."""

from typing import Any

import httpx2
import msgspec
import pytest

from app.cassettes.cassette import (
    Cassette,
    CassetteError,
    TimedEvent,
    make_head,
    parse_cassette,
    render_cassette,
    spread,
)
from app.cassettes.digest import digest_of
from app.cassettes.player import Read, check_fault_events, play
from app.cassettes.replay_options import CassetteOptions, parse_options
from app.errors import RequestError
from app.events import Event, StreamEnd, StreamTarget, TextDelta, TextEnd, TextStart, decode, encode
from app.requests import ChatRequest, ClientBody, UserMessage, parse_chat_request

pytestmark = pytest.mark.pure

HEAD = b'{"cassette":1,"made_by":"a test","model":"m"}\n'
EVENTS: tuple[Event, ...] = (
    StreamTarget("openai", "m", 1),
    TextStart(0),
    TextDelta(0, "こん"),
    TextDelta(0, "にちは"),
    TextEnd(0),
    StreamEnd("completed", "stop"),
)
CASSETTE = parse_cassette(
    render_cassette(
        make_head("m", measured_from=1),
        [TimedEvent(at, event) for at, event in zip([1, 1, 1, 2, 4, 4], EVENTS, strict=True)],
    )
)
START = b'{"at":0,"event":{"type":"text.start","block":0}}\n'
TARGET = b'{"at":0,"event":{"type":"stream.target","upstream":"u","model":"m","attempt":1}}\n'


def line(event: str, at: str = "0") -> bytes:
    return f'{{"at":{at},"event":{{"type":{event}}}}}\n'.encode()


BROKEN = {
    "nothing": (b"", "line 1: empty"),
    "no JSON": (b"hello\n", "line 1: JSON is malformed"),
    "another version": (HEAD.replace(b":1,", b":2,"), "line 1: Invalid enum value 2"),
    "a field that is none": (HEAD.replace(b"model", b"modle"), "line 1: Object contains unknown"),
    "an event that is none": (HEAD + TARGET + line('"text.dance"'), "line 3: Invalid value 'text.d"),
    "an empty line": (HEAD + b"\n" + TARGET, "line 2: empty; each line must contain an event"),
    "an empty line at the end": (HEAD + TARGET + b" \r\n", "line 3: empty"),
    "an empty first line": (b"\n" + HEAD, "line 1: empty; expected the head"),
    "a byte order mark": (b"\xef\xbb\xbf" + HEAD, "line 1: starts with a byte order mark"),
    "a time before": (HEAD + TARGET.replace(b":0,", b":2,", 1) + START, "line 3: at: 0 s is before"),
    "a time that is none": (HEAD + line('"text.end","block":0', "-1"), "line 2: Expected `float` >="),
    "no target": (HEAD + START, "line 2: a 'stream.target' has to come"),
    "a delta of nothing": (HEAD + TARGET + line('"text.delta","block":3,"text":""'), "line 3: block 3"),
    "a block twice": (HEAD + TARGET + START + START, "line 4: block 0 has already begun"),
    "a delta of another choice": (
        HEAD + TARGET + START + line('"text.delta","block":0,"text":"x","choice":7'),
        "line 4: block 0 has begun with choice 0, not 7",
    ),
    "a code that is none": (
        HEAD + line('"stream.end","status":"failed","finish_reason":"error",'
                    '"error":{"code":"x","message":"","retryable":false}'),
        "line 2: unknown code 'x'",
    ),
    "an end too soon": (
        HEAD + TARGET + START + line('"stream.end","status":"completed","finish_reason":"stop"'),
        "line 4: block 0 has no end",
    ),
    "a start": (
        HEAD + line('"stream.start","stream":"st","model":"m","created":1'),
        "line 2: 'stream.start' is invalid",
    ),
    "half a line": (HEAD + TARGET + START[:20], "line 3: Input data was truncated"),
    "no UTF-8": (HEAD + TARGET + START.replace(b"text", b"t\xffxt"), "line 3: "),
    "deep": (HEAD + b'{"at":0,"event":' + b"[" * 100_000, "line 2: "),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_broken_file_is_told_by_its_line(case: str):
    data, expected = BROKEN[case]
    with pytest.raises(CassetteError) as caught:
        parse_cassette(data)

    assert str(caught.value).startswith(expected)
    assert len(str(caught.value)) < 400


def test_written_file_is_read_back_and_line_n_is_event_n():
    assert list(EVENTS) == [event for _, event in CASSETTE.events]
    assert 7 == CASSETTE.last
    data = render_cassette(CASSETTE.head, CASSETTE.events)
    assert b"\xe3\x81\xab" in data.split(b"\n")[5 - 1]
    assert data == render_cassette(*parse_cassette(data))


def test_times_that_nobody_measured_are_even_and_end_with_the_stream():
    assert [0, 1, 2, 3] == spread(4, 3)
    assert [[], [0]] == [spread(0, 3), spread(1, 3)]
    assert [0, 0] == spread(2, -5)


def steps(options: str) -> list[Any]:
    """Return the reads of a replay, with "cut" at the end if the connection breaks."""
    found: list[Any] = []
    try:
        for step in play(CASSETTE, parse_options(f"x?{options}")):
            found.append(step)  # before a cut
    except httpx2.ReadError:
        found.append("cut")
    return found


def sent(options: str) -> list[list[str]]:
    reads = [step.data.decode() for step in steps(options) if step != "cut" and step.data]
    return [[type(decode(one)).__name__ for one in read.splitlines()] for read in reads]


def test_replay_keeps_what_came_together_and_its_pace():
    assert [1, 1, 2] == [step.wait_s for step in steps("")]
    assert [0.5, 0.5, 1] == [step.wait_s for step in steps("speed=2")]
    assert [0, 0, 0] == [step.wait_s for step in steps("speed=0")]
    expected = [["StreamTarget", "TextStart", "TextDelta"], ["TextDelta"], ["TextEnd", "StreamEnd"]]
    assert expected == sent("speed=2")


def test_faults_come_after_the_event_of_their_number():
    assert "cut" == steps("cut_at=4")[-1]
    assert [["StreamTarget", "TextStart", "TextDelta"]] == sent("cut_at=4")
    assert ["cut"] == steps("cut_at=1")
    assert [["StreamTarget"], ["StreamEnd"]] == sent("error_at=2")
    assert [["StreamTarget", "TextStart"], ["TextDelta"], *sent("")[1:]] == sent("stall_at=3")
    assert [Read(None, b"")] == [step for step in steps("stall_at=3") if not step.data]
    assert Read(2, b"") == steps("stall_at=1&stall_s=2")[0]
    check_fault_events(CASSETTE, CassetteOptions("x", cut_at=7))
    with pytest.raises(RequestError, match="stall_at: the cassette 'x' has 7 events"):
        check_fault_events(CASSETTE, CassetteOptions("x", stall_at=8))


@pytest.mark.parametrize("options", ["speed=0", "speed=1"])
def test_replay_of_a_long_answer_that_came_at_once_takes_turns(options: str, monkeypatch):
    made: list[Event] = []

    def counted(event: Event) -> bytes:
        made.append(event)
        return encode(event)

    monkeypatch.setattr("app.cassettes.player.encode", counted)
    deltas = [TimedEvent(0, TextDelta(0, f"{number:04}")) for number in range(5000)]
    cassette = Cassette(CASSETTE.head, [*CASSETTE.events[:2], *deltas, *CASSETTE.events[-2:]])
    most = 0
    said = b""
    for step in play(cassette, parse_options(f"x?{options}")):
        assert isinstance(step, Read)
        most = max(most, len(made))
        made.clear()
        said += step.data

    assert most < 500
    assert len(cassette.events) == said.count(b"\n")


REFUSED = {
    "x?spede=1": ("invalid_request", "unknown option 'spede'; options: speed"),
    "x?speed=fast": ("invalid_request", "speed=fast: Expected `float`"),
    "x?cut_at=0": ("invalid_request", "cut_at=0: Expected `int` >= 1"),
    "x?cut_at=1&cut_at=2": ("invalid_request", "an option occurs twice"),
    "x?error_at=1&error=oops": ("invalid_request", "error: use one of context_length_exceeded"),
    "x?stall_s=1": ("invalid_request", "stall_s: requires stall_at"),
    "x?speed": ("invalid_request", "is not a list of options"),
    "x?speed=nan": ("invalid_request", "speed=nan: "),
    "x?cut_at=1.5": ("invalid_request", "cut_at=1.5: Expected `int`"),
    "x?" + "a" * 600: ("invalid_request", "is not a list of options"),
    "x?name=y": ("invalid_request", "unknown option 'name'"),
    **dict.fromkeys(
        ("", "../x", "a/b", "..", ".x", "a\\b", "x\n", "é", "a" * 101, "/etc/passwd", "a%2fb", "x\0"),
        ("model_not_found", "the name of a cassette is made of"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("model", REFUSED)
def test_model_that_names_no_replay_is_refused(model: str):
    code, expected = REFUSED[model]
    with pytest.raises(RequestError) as caught:
        parse_options(model)

    assert code == caught.value.code
    assert expected in caught.value.message


SAME = (
    {"user": "ann"},
    {"stream": False},
    {"metadata": {"a": "b"}},
    {"on_disconnect": "cancel"},
    {"model": "another word for it"},
)
OTHER = (
    {"messages": [{"role": "user", "content": "other"}]},
    {"temperature": 0.5},
    {"max_tokens": 5},
    {"tools": [{"type": "function", "function": {"name": "f"}}]},
    {"provider_options": {"top_k": 5}},
)


def test_digest_is_of_what_is_asked_and_not_of_who_asks():
    def digest(fields: dict[str, Any], model: str = "m") -> str:
        body = {"messages": [{"role": "user", "content": "hi"}], **fields}
        return digest_of(model, parse_chat_request(msgspec.json.encode(body)))

    whole = digest({})
    assert {whole} == {digest(fields) for fields in SAME}
    others = [digest(fields) for fields in OTHER] + [digest({}, "n")]
    assert len(others) + 1 == len({whole, *others})

    def called(id: str, city: str = "Oslo") -> dict[str, Any]:
        call = {"id": id, "type": "function", "function": {"name": "f", "arguments": city}}
        return {
            "messages": [
                {"role": "assistant", "tool_calls": [call]},
                {"role": "tool", "tool_call_id": id, "content": "12"},
            ]
        }

    assert digest(called("call_1")) == digest(called("call_2"))
    assert digest(called("call_1")) != digest(called("call_1", "Rome"))


def test_body_of_another_dialect_counts_where_it_goes_as_it_is():
    def digest(formats: tuple[str, ...] = ("anthropic",), beta: str = "", **fields: Any) -> str:
        body = {"messages": [{"role": "user", "content": "hi"}], **fields}
        headers = {"anthropic-beta": beta} if beta else {}
        return digest_of(
            "m",
            ChatRequest([UserMessage("hi")], client_body=ClientBody("anthropic", body, headers)),
            formats=formats,
        )

    native = digest_of("m", ChatRequest([UserMessage("hi")]))
    assert native == digest(formats=()) == digest(formats=("openai_responses",), beta="x")
    assert len({native, digest(), digest(beta="x"), digest(beta="y")}) == 4
    # What is asked about is no id of a message or a call.
    for kind in ("container_upload", "object", "order"):
        one, other = (digest(fields=[{"type": kind, "id": own}]) for own in ("a", "b"))
        assert one != other, kind
    for kind in ("function_call", "tool_use", "message", "web_search_call"):
        one, other = (digest(fields=[{"type": kind, "id": own}]) for own in ("a", "b"))
        assert one == other, kind
