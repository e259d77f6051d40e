"""The native events as JSON lines: the same events, ids and honesty as server-sent ones."""

import asyncio
import json
import subprocess
from typing import Any

import httpx2
import pytest
from starlette.requests import Request

from app.api.request import prefers_json_lines
from app.framing.sse import Decoder
from app.testing.upstream import DONE, FINISH, USAGE, Hold, Step, Until, event, head, send, text
from tests.api.test_resume_law import CALL
from tests.clock import Clock
from tests.needs import program
from tests.serving import HELLO, Relay, serve_relay, serve_script

LINES = {"accept": "application/x-ndjson"}
SCRIPT: list[Step] = [
    *(head(), send(text("a\u2028b\u0085") + text("ぎ🌊"))),
    send(event({"tool_calls": [CALL]}) + event(finish_reason="tool_calls") + USAGE + DONE),
]


@pytest.mark.pure
@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (["application/x-ndjson"], True),
        (["Application/X-NDJSON; charset=utf-8"], True),
        (["application/x-ndjson, */*"], True),
        (["*/*, application/x-ndjson;q=0.1"], True),
        (["application/x-ndjson, text/event-stream"], True),
        (["text/event-stream;q=0.5", "application/x-ndjson ; q=0.8"], True),
        (["text/event-stream, application/x-ndjson"], False),
        (["application/x-ndjson;q=0.8, text/event-stream"], False),
        (["application/x-ndjson;q=0"], False),
        (["application/x-ndjson2"], False),
        (["*/*"], False),
        ([], False),
    ],
)
def test_negotiation(accept: list[str], *, expected: bool):
    headers = [(b"accept", value.encode()) for value in accept]

    assert expected == prefers_json_lines(Request({"type": "http", "headers": headers}))


def split(raw: bytes) -> list[dict[str, Any]]:
    """Parse each line, as readers do that split at any Unicode line end."""
    assert raw.endswith(b"\n")
    return [json.loads(line) for line in raw.decode().splitlines()]


def as_lines(raw: bytes) -> list[dict[str, Any]]:
    """Return what the lines of these frames have to be."""
    return [{"event_id": message.id, **json.loads(message.data)} for message in Decoder().feed(raw)]


async def read(relay: Relay, stream: str, query: str = "", **headers: str) -> httpx2.Response:
    return await relay.client.get(f"/v1/streams/{stream}/events{query}", headers=headers)


async def test_lines_are_the_events_with_their_ids_from_every_cursor():
    async with serve_script(SCRIPT) as (relay, upstream):
        answer = await relay.client.post("/v1/chat", json=HELLO, headers=LINES)
        stream, lines = answer.headers["stream-id"], split(answer.content)

        assert "application/x-ndjson" == answer.headers["content-type"]
        assert "no-store, no-transform" == answer.headers["cache-control"]
        assert "no" == answer.headers["x-accel-buffering"]
        assert lines == as_lines((await read(relay, stream)).content)
        assert [f"{stream}.{n}" for n in range(1, len(lines) + 1)] == [
            line["event_id"] for line in lines
        ]
        assert "c1" in [line.get("id") for line in lines]  # of the tool call: two members
        assert ("stream.end", "completed") == (lines[-1]["type"], lines[-1]["status"])
        for k, line in enumerate(lines, 1):
            header = {"last-event-id": line["event_id"]}
            later = await read(relay, stream, f"?after={k}", **LINES)
            resumed = await read(relay, stream, **LINES, **header)
            posted = await relay.client.post("/v1/chat", json={}, headers={**LINES, **header})
            assert later.content == resumed.content == posted.content
            assert later.status_code == (200 if k < len(lines) else 204)
            assert lines[k:] == (split(later.content) if k < len(lines) else [])
        frames = (await read(relay, stream, "?from=snapshot")).content
        assert as_lines(frames) == split(
            (await read(relay, stream, "?from=snapshot", **LINES)).content
        )
        assert 1 == len(upstream.calls)

        other = await read(relay, stream, "?format=openai_chat", **LINES)
        assert 400 == other.status_code
        assert "openai_chat has no NDJSON" in other.json()["detail"]


async def test_heartbeats_are_white_space_in_no_line_of_their_own(monkeypatch):
    clock, beaten, raw = Clock(monkeypatch), Until(), b""
    script: list[Step] = [head(), send(text("a")), beaten, send(FINISH + DONE)]
    async with (
        serve_script(script, heartbeat_s=2) as (relay, _),
        clock.hurrying(),
        relay.client.stream("POST", "/v1/chat", json=HELLO, headers=LINES) as answer,
    ):
        async for data in answer.aiter_bytes():
            raw += data
            if raw.endswith(b"  "):
                beaten.told.set()

    assert b'\n  {"event_id":' in raw.replace(b"   ", b"  ")
    assert b"\n\n" not in raw
    assert "stream.end" == split(raw)[-1]["type"]


async def test_stream_that_goes_away_does_not_look_finished():
    raw = b""
    async with (
        serve_script([head(), send(text("a")), Hold()]) as (relay, _),
        relay.client.stream("POST", "/v1/chat", json=HELLO, headers=LINES) as answer,
    ):
        pieces = answer.aiter_bytes()
        while b'"text":"a"' not in raw:
            raw += await anext(pieces)
        await relay.log.delete(answer.headers["stream-id"])
        with pytest.raises(httpx2.RemoteProtocolError):
            await anext(pieces)

    assert "text.delta" == split(raw)[-1]["type"]


async def test_full_relay_answers_an_error_that_is_no_event_stream():
    accept = {"accept": "application/x-ndjson, text/event-stream"}
    async with (
        serve_script([head(), send(text("a")), Hold()], max_readers=1) as (relay, _),
        relay.client.stream("POST", "/v1/chat", json=HELLO, headers=LINES) as first,
    ):
        second = await read(relay, first.headers["stream-id"], **accept)

    assert 503 == second.status_code
    assert "application/problem+json" == second.headers["content-type"]


@pytest.mark.proving
async def test_curl_and_jq_read_it():
    curl, jq = program("curl"), program("jq")
    async with serve_relay() as relay:
        command = (
            f"{curl} -sN {relay.url}/v1/chat -H 'accept: application/x-ndjson' --json "
            f"'{json.dumps(HELLO)}' | {jq} --unbuffered -j 'select(.type==\"text.delta\").text'"
        )
        done = await asyncio.to_thread(
            subprocess.run, ["/bin/sh", "-c", command], capture_output=True, text=True, check=True
        )
        streams = await relay.client.post("/v1/chat", json={**HELLO, "stream": False})

    assert streams.json()["text"] == done.stdout
