"""Cassettes: what is read is written again alike, and its events keep the order of a stream."""

import json
from random import Random

from app.cassettes.cassette import (
    CassetteError,
    parse_cassette,
    render_cassette,
    upstream_of,
)
from app.events import StreamEnd, StreamStart
from tests.fuzz.mutations import mutate
from tests.fuzz.target import Target, check_linear, check_refusal, split

HEAD = {"cassette": 1, "made_by": "seseragi 1", "model": "m", "measured_from": 1}
TARGETED: dict[str, object] = {"type": "stream.target", "upstream": "u", "model": "m", "attempt": 1}
EVENTS: list[dict[str, object]] = [
    TARGETED,
    {"type": "text.start", "block": 0, "choice": 0},
    {"type": "text.delta", "block": 0, "choice": 0, "text": "a\u2028b"},
    {"type": "text.end", "block": 0, "choice": 0},
    {"type": "tool_call.start", "block": 1, "choice": 0, "id": "c", "name": "f"},
    {"type": "tool_call.delta", "block": 1, "choice": 0, "arguments": "{}"},
    {"type": "tool_call.end", "block": 1, "choice": 0, "arguments": "{}"},
    {"type": "stream.end", "status": "completed", "finish_reason": "stop"},
]


def lines(events: list[dict[str, object]]) -> bytes:
    rows = [HEAD, *({"at": at / 8, "event": event} for at, event in enumerate(events))]
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def check(data: bytes) -> None:
    choice, body = split(data)
    for line in body.split(b"\n")[:3]:
        assert isinstance(upstream_of(line), str)
    read(body)
    # Behind a good beginning.
    read(lines(EVENTS[: choice % (len(EVENTS) + 1)]) + body)
    check_linear(lambda grown: read(lines([TARGETED]) + grown), body + b"\n")


def read(data: bytes) -> None:
    try:
        found = parse_cassette(data)
    except CassetteError as error:
        check_refusal(str(error), begins="line ", most=400)
        return
    again = parse_cassette(render_cassette(found.head, found.events))
    assert found.head == again.head
    assert [one.event for one in found.events] == [one.event for one in again.events]
    assert all(
        abs(one.at - other.at) <= 0.001
        for one, other in zip(found.events, again.events, strict=True)
    )
    ends = [at for at, one in enumerate(found.events) if isinstance(one.event, StreamEnd)]
    assert ends in ([], [len(found.events) - 1]), "one end, last"
    assert not any(isinstance(one.event, StreamStart) for one in found.events)
    assert found.last == 1 + len(found.events)
    assert [one.at for one in found.events] == sorted(one.at for one in found.events)


def change(data: bytes, dice: Random) -> bytes:
    rows = [json.loads(line) for line in lines(EVENTS).splitlines()]
    at = dice.randrange(len(rows))
    changed = [json.dumps(row).encode() for row in rows]
    changed[at] = mutate([rows[at]], dice).replace(b"\n", b" ")
    return bytes((dice.randrange(256),)) + b"\n".join(changed[dice.choice((0, at)) :])


TARGET = Target(
    check,
    seeds=(
        b"\x00" + lines(EVENTS),
        b"\x05" + lines(EVENTS[:3]),
        *(
            bytes([at]) + json.dumps({"at": 1, "event": event}).encode()
            for at, event in enumerate(EVENTS)
        ),
        b"\x08" + b'{"at":2,"event":{"type":"notice","code":"n","message":"m"}}',
    ),
    tokens=(
        *(b"\n", b"\n\n", b"\xef\xbb\xbf", b'{"at":', b'"event":', b'"type":', b'"block": 0'),
        *(b'"text.delta"', b'"reasoning.start"', b'"stream.end"', b"1e999", b"-1", b"NaN", b"null"),
    ),
    mutate=change,
)
