"""What a client sees when the upstream misbehaves: one row a fault, on real sockets."""

import asyncio
import contextlib
import gzip
import json
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest

from app.testing.upstream import (
    DONE,
    FINISH,
    LAST_CHUNK,
    USAGE,
    Endless,
    Hold,
    Reset,
    Step,
    Until,
    chunk,
    chunked_head,
    head,
    reply,
    send,
    serve_upstream,
    text,
    wait,
)
from tests.clock import Clock
from tests.serving import HELLO, events_of, read_messages, serve_relay, serve_script, text_of
from tests.waiting import until

JSON_ANSWER = json.dumps(
    {
        "id": "up-1",
        "object": "chat.completion",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}
        ],
    }
)
OPENAI_429 = (
    '{"error":{"message":"Slow down, org-abc123","type":"requests","code":"rate_limit_exceeded"}}'
)
PINGS: list[Step] = [send(": ping\n"), wait(0.05)] * 20
SPLIT_CHARACTER = text("こ").encode()[: text("こ").encode().index("こ".encode()) + 2]


@dataclass
class Refused:
    """A script that ends in an HTTP status."""

    name: str
    script: Sequence[Step]
    status: int
    code: str
    retry_after: str | None = None


BOMB = gzip.compress(bytes(2**24))


def gzipped(*parts: str) -> bytes:
    return gzip.compress("".join(parts).encode())


REFUSED = [
    Refused("429 with retry-after", reply("429 Too Many", OPENAI_429, retry_after="7"), 429, "upstream_rate_limited", "7"),
    Refused("401", reply("401 Unauthorized", '{"error":{"message":"bad key sk-test-0123456789"}}'), 502, "upstream_auth"),
    Refused("403", reply("403 Forbidden", '{"error":{"message":"no access with sk-test-0123456789"}}'), 502, "upstream_forbidden"),
    Refused("402", reply("402 Payment", '{"error":{"message":"no money"}}'), 402, "upstream_billing"),
    Refused("404", reply("404 Not Found", '{"error":{"message":"no","code":"model_not_found"}}'), 404, "upstream_not_found"),
    Refused("400", reply("400 Bad Request", '{"error":{"message":"temperature is odd"}}'), 400, "upstream_invalid_request"),
    Refused("500 with HTML", reply("500 Oops", "<html><h1>Oops</h1></html>", "text/html"), 502, "upstream_unavailable"),
    Refused("503", reply("503 Busy", "{}"), 503, "upstream_overloaded"),
    Refused("500 with an endless body", [head("500 Oops"), Endless(b"x" * 4096)], 502, "upstream_unavailable"),
    Refused("200 with HTML", reply("200 OK", "<html>login</html>", "text/html"), 502, "upstream_invalid_response"),
    Refused("200 with an error in JSON", reply("200 OK", OPENAI_429), 429, "upstream_rate_limited"),
    Refused("200 with an error as first event", [head(), send(f"data: {OPENAI_429}\n\n")], 429, "upstream_rate_limited"),
    Refused("200 with an error as first event, and retry-after", [head(retry_after="7"), send(f"data: {OPENAI_429}\n\n")], 429, "upstream_rate_limited", "7"),
    Refused("200 with a wait in words", [head(), send('data: {"error":{"code":"rate_limit_exceeded","message":"Please try again in 1m2s."}}\n\n')], 429, "upstream_rate_limited", "59"),
    Refused("redirect", reply("302 Found", "", location="http://127.0.0.1:1/"), 502, "upstream_invalid_response"),
    Refused("204", [send("HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n")], 502, "upstream_invalid_response"),
    Refused("empty stream", [head()], 502, "upstream_truncated"),
    Refused("blank lines", [head(), send("\n\n \n")], 502, "upstream_truncated"),
    Refused("200 with a text", reply("200 OK", "It works!", "text/plain"), 502, "upstream_invalid_response"),
    Refused("200 with nothing", reply("200 OK", "", "text/plain"), 502, "upstream_truncated"),
    Refused("200 with HTML that is called a stream", reply("200 OK", "<!doctype html>\n<p>Hi: there</p>\n", "text/event-stream"), 502, "upstream_invalid_response"),
    Refused("a field that was cut", [head(), send("dat")], 502, "upstream_truncated"),
    Refused("a text after comments", [head(), send(": hello\n\noops\n\n")], 502, "upstream_invalid_response"),
    Refused("only comments", [head(), send(": hello\n\n: hello\n\n")], 502, "upstream_truncated"),
    Refused("role, then nothing", [head(), send(text(""))], 502, "upstream_truncated"),
    Refused("only [DONE]", [head(), send(DONE)], 502, "upstream_unavailable"),
    Refused("no JSON", [head(), send("data: {oops\n\n")], 502, "upstream_invalid_response"),
    Refused("hang up before the head", [], 502, "upstream_unavailable"),
    Refused("reset before the head", [Reset()], 502, "upstream_unavailable"),
    Refused("not HTTP", [send("SSH-2.0-OpenSSH\r\n\r\n")], 502, "upstream_invalid_response"),
    Refused("a key in its words", reply("400 Bad Request", '{"error":{"message":"token sk-test-0123456789 is odd"}}'), 400, "upstream_invalid_request"),
    Refused("429 with a body that stalls", [head("429 Too Many", content_length="1000", retry_after="9"), send("{"), Hold()], 429, "upstream_rate_limited", "9"),
    Refused("an encoding that was not asked for", [head(content_encoding="br"), send(b"\x0b\x02\x80")], 502, "upstream_invalid_response"),
    Refused("a chunk that is none, at once", [chunked_head(), wait(0.05), send("zz\r\nhello"), Hold()], 502, "upstream_truncated"),
    Refused("an endless line", [head(), send("data: "), Endless(b"x" * 4096)], 502, "upstream_invalid_response"),
    Refused("an endless event", [head(), Endless(b"data: xxxxxxxxxxxxx\n" * 100)], 502, "upstream_invalid_response"),
    Refused("gzip that is none", [head(content_encoding="gzip"), send(text("a") + FINISH + DONE)], 502, "upstream_invalid_response"),
    Refused("gzip that decodes to much more", [head(content_encoding="gzip"), send(BOMB)], 502, "upstream_invalid_response"),
    Refused("an error in gzip", [head("429 Too Many", content_encoding="gzip"), send(gzipped(OPENAI_429))], 429, "upstream_rate_limited"),
    Refused("an error's code in gzip", [head("400 Bad", content_encoding="gzip"), send(gzipped('{"error":{"code":"context_length_exceeded"}}'))], 400, "context_length_exceeded"),
    Refused("an error in gzip that is none", [head("503 Busy", content_encoding="gzip"), send(b"\0\1\2 no")], 503, "upstream_overloaded"),
    Refused("an error in gzip without an end", [head("503 Busy", content_encoding="gzip"), send(BOMB)], 503, "upstream_overloaded"),
    Refused("an error in another coding", [head("503 Busy", content_encoding="br"), send(b"\x0b\x02\x80")], 503, "upstream_overloaded"),
    Refused("no first event", [head(), Hold()], 504, "upstream_timeout"),
    Refused("no head", [Hold()], 504, "upstream_timeout"),
    Refused("comments for ever", [head(), *PINGS, Hold()], 504, "upstream_timeout")
]  # fmt: skip


@pytest.fixture
def hurry(monkeypatch: pytest.MonkeyPatch) -> Callable[[], AbstractAsyncContextManager[None]]:
    """Return what lets time pass by itself, so that nobody waits for what is silent."""
    return lambda: Clock(monkeypatch).hurrying()


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.name)
async def test_failure_before_the_answer_is_a_status(case: Refused, hurry):
    waits = any(isinstance(step, Hold) for step in case.script)
    sizes = {"max_line_bytes": 100_000, "max_event_bytes": 100_000}
    async with (
        serve_script(case.script, first_event_timeout_s=4, **sizes) as (relay, upstream),
        hurry() if waits else contextlib.nullcontext(),
    ):
        response = await relay.client.post("/v1/chat", json=HELLO)
        problem = response.json()
        shown = response.text.replace(problem["request_id"], "")  # of digits, as a port is

        assert (case.status, case.code) == (response.status_code, problem["code"]), shown
        assert "application/problem+json" == response.headers["content-type"]
        fields = {"type", "title", "status", "detail", "code", "retryable", "request_id"}
        assert fields <= set(problem)
        assert response.headers["x-request-id"] == problem["request_id"]
        assert case.retry_after == response.headers.get("retry-after")
        for secret in ("0123456789", "org-abc123", str(upstream.port), "Traceback"):
            assert secret not in shown

        # The same failure stands in the log, for readers that come by its id.
        again = await relay.client.get(f"/v1/streams/{response.headers['stream-id']}")
        assert ("failed", case.code) == (again.json()["status"], again.json()["error"]["code"])


@dataclass
class Ended:
    """A script that ends in the stream."""

    name: str
    script: Sequence[Step]
    status: str
    text: str
    code: str | None = None
    finish_reason: str | None = None


ENDED = [
    Ended("clean", [head(), send(text("a") + text("b") + FINISH + USAGE + DONE)], "completed", "ab", None, "stop"),
    Ended("two [DONE]", [head(), send(text("a") + FINISH + DONE + DONE)], "completed", "a", None, "stop"),
    Ended("no [DONE]", [head(), send(text("a") + FINISH)], "completed", "a", None, "stop"),
    Ended("no [DONE], chunked", [chunked_head(), chunk(text("a") + FINISH), LAST_CHUNK], "completed", "a", None, "stop"),
    Ended("[DONE] without a blank line", [head(), send(text("a") + FINISH + "data: [DONE]")], "completed", "a", None, "stop"),
    Ended("data after [DONE]", [head(), send(text("a") + FINISH + DONE + text("b"))], "completed", "a", None, "stop"),
    Ended("CRLF", [head(), send((text("a") + FINISH + DONE).replace("\n", "\r\n"))], "completed", "a", None, "stop"),
    Ended("CR", [head(), send((text("a") + FINISH + DONE).replace("\n", "\r"))], "completed", "a", None, "stop"),
    Ended("200 with JSON", reply("200 OK", JSON_ANSWER), "completed", "hi", None, "stop"),
    Ended("JSON called SSE", reply("200 OK", JSON_ANSWER, "text/event-stream"), "completed", "hi", None, "stop"),
    Ended("SSE called JSON", [head(content_type="application/json"), send(text("a") + FINISH + DONE)], "completed", "a", None, "stop"),
    Ended("no content type", [head(content_type=None), send(text("a") + FINISH + DONE)], "completed", "a", None, "stop"),
    Ended("no end after the finish", [head(), send(text("a") + FINISH), Reset()], "completed", "a", None, "stop"),
    Ended("cut between events", [head(), send(text("a"))], "failed", "a", "upstream_truncated", "error"),
    Ended("cut between events, chunked", [chunked_head(), chunk(text("a"))], "failed", "a", "upstream_truncated", "error"),
    Ended("cut in mid-event", [head(), send(text("a") + text("b")[:40])], "failed", "a", "upstream_truncated", "error"),
    Ended("cut in a character", [head(), send(text("a")), send(SPLIT_CHARACTER)], "failed", "a", "upstream_truncated", "error"),
    Ended("cut in the finish", [head(), send(text("a") + FINISH[:-12])], "failed", "a", "upstream_truncated", "error"),
    Ended("reset", [head(), send(text("a")), wait(0.05), Reset()], "failed", "a", "upstream_truncated", "error"),
    Ended("a chunk that is none", [chunked_head(), chunk(text("a")), wait(0.05), send("zz\r\nhello"), Hold()], "failed", "a", "upstream_truncated", "error"),
    Ended("a chunk size below zero", [chunked_head(), chunk(text("a")), wait(0.05), send("-5\r\nhello"), Hold()], "failed", "a", "upstream_truncated", "error"),
    Ended("silence", [head(), send(text("a")), Hold()], "failed", "a", "upstream_timeout", "error"),
    Ended("comments only", [head(), send(text("a")), *PINGS, Hold()], "failed", "a", "upstream_timeout", "error"),
    Ended("error event", [head(), send(text("a") + f"data: {OPENAI_429}\n\n" + DONE)], "failed", "a", "upstream_rate_limited", "error"),
    Ended("error field of llama.cpp", [head(), send(text("a") + 'error: {"code":500,"message":"slot"}\n\n' + DONE)], "failed", "a", "upstream_unavailable", "error"),
    Ended("an endless line later", [head(), send(text("a") + "data: "), Endless(b"x" * 4096)], "failed", "a", "upstream_invalid_response", "error")
]  # fmt: skip


@pytest.mark.parametrize("case", ENDED, ids=lambda case: case.name)
async def test_failure_after_the_first_event_is_the_stream_end(case: Ended, hurry):
    waits = case.code == "upstream_timeout"
    async with (
        serve_script(case.script, idle_timeout_s=4, max_line_bytes=100_000, heartbeat_s=0.2) as (
            relay,
            _,
        ),
        hurry() if waits else contextlib.nullcontext(),
    ):
        async with relay.client.stream("POST", "/v1/chat", json=HELLO) as response:
            assert 200 == response.status_code, await response.aread()
            events = events_of(await read_messages(response))

        end = events[-1]
        assert case.status == end["status"], end
        assert case.code == end.get("error", {}).get("code")
        assert case.finish_reason == end["finish_reason"]
        assert case.text == text_of(events)
        check_form(events)


def check_form(events: list[dict[str, Any]]) -> None:
    """The invariants that every stream has."""
    assert "stream.start" == events[0]["type"]
    told = [event["type"] for event in events[1:] if event["type"] != "notice"]
    assert "stream.target" == told[0]
    assert ["stream.end"] == [event["type"] for event in events if event["type"] == "stream.end"]
    assert "stream.end" == events[-1]["type"]
    opened: set[int] = set()
    for event in events:
        kind, _, action = event["type"].partition(".")
        if kind not in ("text", "reasoning", "refusal", "tool_call"):
            continue
        match action:
            case "start":
                assert event["block"] not in opened
                opened.add(event["block"])
            case "end":
                opened.remove(event["block"])
            case _:
                assert event["block"] in opened
    assert not opened


async def test_each_token_is_passed_on_at_once():
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        read = [Until() for _ in range(10)]
        upstream.script = [head()]
        for number, until in enumerate(read):
            upstream.script += [send(text(f"{number}")), until]
        upstream.script += [send(FINISH + DONE)]
        arrivals: list[int] = []
        async with relay.client.stream("POST", "/v1/chat", json=HELLO) as response:
            async for data in response.aiter_bytes():
                if b"text.delta" in data:
                    read[len(arrivals)].told.set()  # nothing comes before
                    arrivals.append(data.count(b"event: text.delta"))

        assert [1] * 10 == arrivals


async def test_key_goes_to_the_upstream_only():
    async with serve_script([head(), send(text("a") + FINISH + DONE)], key="sk-secret-42") as (
        relay,
        upstream,
    ):
        async with relay.client.stream("POST", "/v1/chat", json=HELLO) as response:
            body = await response.aread()
        (call,) = upstream.calls

        assert "Bearer sk-secret-42" == call.headers["authorization"]
        assert "identity" == call.headers["accept-encoding"]
        assert b"sk-secret-42" not in body
        assert True is call.json["stream"]
        assert HELLO["messages"] == call.json["messages"]


@pytest.mark.parametrize(
    ("last", "status", "told"),
    [("", "failed", "sent nothing for 7 s"), (FINISH, "completed", None)],
)
async def test_silence_is_noticed_when_its_time_is_over(last, status, told, hurry):
    loop, idle = asyncio.get_running_loop(), 7 if status == "failed" else 300
    async with serve_script(
        [head(), send(text("a") + last), Hold()], first_event_timeout_s=300, idle_timeout_s=idle
    ) as (relay, _):
        started = loop.time()
        async with hurry(), relay.client.stream("POST", "/v1/chat", json=HELLO) as response:
            end = events_of(await read_messages(response))[-1]

        assert loop.time() - started < 100  # the other deadlines are of 300 s
        assert status == end["status"]
        assert told is None or told in end["error"]["message"]


async def test_answer_of_too_many_calls_ends_as_failed_with_what_came():
    def call(number: int) -> str:
        function = {"name": "f", "arguments": "{}"}
        calls = [{"index": number, "id": f"i{number}", "function": function}]
        return f"data: {json.dumps({'choices': [{'delta': {'tool_calls': calls}}]})}\n\n"

    async with (
        serve_script([head(), send("".join(map(call, range(10_001)))), Hold()]) as (relay, _),
        relay.client.stream("POST", "/v1/chat", json=HELLO) as response,
    ):
        events = events_of(await read_messages(response))

    assert 10_000 == sum(event["type"] == "tool_call.end" for event in events)
    assert "failed" == events[-1]["status"]
    assert "upstream_invalid_response" == events[-1]["error"]["code"]
    assert "sent more than 10000 tool calls in one answer" in events[-1]["error"]["message"]


async def test_answer_that_is_too_long_for_the_log_ends_well():
    async with (
        serve_upstream() as upstream,
        serve_relay(upstream, max_stream_events=50, linger_s=0) as relay,
    ):
        upstream.script = [head(), *(step for n in range(99) for step in (send(text(f"{n} ")), wait(0.001))), Hold()]  # fmt: skip
        async with relay.client.stream("POST", "/v1/chat", json=HELLO) as response:
            events = events_of(await read_messages(response))

        check_form(events)
        error = events[-1]["error"]
        assert ("failed", "upstream_invalid_response") == (events[-1]["status"], error["code"])
        assert "longer than the limit" in error["message"]
        assert not error["retryable"]
        assert 51 <= len(events) <= 52
        await asyncio.wait_for(upstream.calls[0].closed.wait(), 20)


async def test_pings_after_the_finish_do_not_hold_the_end_up(hurry):
    loop = asyncio.get_running_loop()
    async with serve_script([head(), send(text("a") + FINISH), *(PINGS * 20), Hold()]) as (
        relay,
        _,
    ):
        started = loop.time()
        async with hurry(), relay.client.stream("POST", "/v1/chat", json=HELLO) as response:
            end = events_of(await read_messages(response))[-1]

        assert loop.time() - started < 15  # the pings go on for twenty
        assert "completed" == end["status"]


@pytest.mark.parametrize(
    ("base_url", "told"),
    [
        ("http://127.0.0.1:1/v1", "cannot be reached; check its base URL"),
        ("http://no-such-host.invalid/v1", "cannot be resolved; check its base URL"),
        ("https://127.0.0.1:{port}/v1", "does not speak TLS"),
    ],
)
async def test_upstream_that_cannot_be_reached_is_told_apart(base_url, told):
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        environ = {"OPENAI_BASE_URL": base_url.format(port=port)}
        async with serve_relay(environ=environ) as relay:
            response = await relay.client.post("/v1/chat", json=HELLO)

    assert (502, "upstream_unavailable") == (response.status_code, response.json()["code"])
    assert told in response.json()["detail"]


@pytest.mark.parametrize("calls", [30, pytest.param(300, marks=pytest.mark.proving)])
async def test_kept_connection_that_was_closed_meanwhile_fails_nobody(calls, monkeypatch):
    monkeypatch.setattr("app.upstreams.http.CLOSED_WITHIN_S", 20)  # a busy machine sees it late
    body = text("a") + FINISH + DONE
    reply_ = (
        f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        # A whole answer with nothing said of closing, and then the connection is closed.
        upstream.choose = lambda call: [send(reply_ + body), wait(len(upstream.calls) % 10 / 500)]
        for _ in range(calls):
            response = await relay.client.post("/v1/chat", json={**HELLO, "stream": False})
            assert 200 == response.status_code, response.text


async def test_fresh_connection_that_is_closed_is_not_tried_again():
    async with serve_script([]) as (relay, upstream):
        await relay.client.post("/v1/chat", json=HELLO)

        assert 1 == len(upstream.calls)


async def test_endless_words_of_an_error_hold_up_nobody():
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        words = json.dumps({"error": {"message": "model " * 1_000_000}})
        upstream.script = [head(), send(text("a")), send(f"data: {words}\n\n")]
        answer = asyncio.create_task(relay.client.post("/v1/chat", json=HELLO))
        slowest = 0.0
        while not answer.done():
            started = time.thread_time()  # of this thread, in which all of it runs
            await relay.client.get("/healthz")
            slowest = max(slowest, time.thread_time() - started)

        assert b'"status":"failed"' in (await answer).content
        assert slowest < 0.5


BUSY_FIRST = 'data: {"error":{"message":"no","type":"overloaded_error"}}\n\n'
CHATS = {
    "/v1/chat/completions": HELLO,
    "/v1/messages": {**HELLO, "max_tokens": 9},
    "/v1/responses": {"input": "hi"},
    "/v1/completions": {"prompt": "hi"},
}
"""Of formats whose clients ask again by themselves: official ones twice, Claude Code ten times."""


@pytest.mark.parametrize(
    ("script", "calls", "retry_after"),
    [
        (reply("429 Too Many", OPENAI_429, retry_after="2"), 1, "2"),
        (reply("500 Oops", "{}"), 1, None),
        (reply("529 Busy", "{}", retry_after="2"), 1, "2"),
        ([head(), send(BUSY_FIRST)], 1, None),
        ([head()], 2, None),  # no word of the provider
        ([Reset()], 2, None),
    ],
)
async def test_attempts_are_not_multiplied_by_those_of_the_client(
    script, calls, retry_after, hurry
):
    async with serve_script(script, attempts=2) as (relay, upstream), hurry():
        for path, body in CHATS.items():
            for streams in (True, False):
                upstream.calls.clear()
                asked = {**body, "model": "openai/m", "stream": streams}
                response = await relay.client.post(path, json=asked)

                assert response.status_code in (429, 502, 503, 529), response.text
                assert retry_after == response.headers.get("retry-after")
                assert calls == len(upstream.calls), path
        upstream.calls.clear()
        await relay.client.post("/v1/chat", json=HELLO)
        assert 2 == len(upstream.calls)


async def test_what_a_client_sees_too_late_for_a_status_is_asked_again(hurry):
    script = reply("529 Busy", "{}")
    async with serve_script(script, attempts=2, status_wait_s=0) as (relay, upstream), hurry():
        asked = {**HELLO, "stream": True}
        async with relay.client.stream("POST", "/v1/chat/completions", json=asked) as response:
            await read_messages(response)
        background = {"input": "hi", "background": True}
        begun = (await relay.client.post("/v1/responses", json=background)).json()
        url = f"/v1/responses/{begun['id']}?stream=true"
        await relay.client.get(url)

    assert 200 == response.status_code
    assert 4 == len(upstream.calls)


@pytest.mark.parametrize("path", CHATS)
@pytest.mark.parametrize("streams", [True, False])
async def test_stream_that_goes_on_without_its_client_is_retried(path: str, streams: bool):
    refused = Until()
    script = [refused, *reply("529 Busy", "{}")]
    async with serve_script(script, attempts=2, status_wait_s=60) as (relay, upstream):
        asked = {**CHATS[path], "model": "openai/m", "on_disconnect": "continue"}
        with pytest.raises(httpx2.ReadTimeout):
            await relay.client.post(path, json={**asked, "stream": streams}, timeout=0.3)
        await until(lambda: relay.hub.load().readers == 0)
        refused.told.set()
        await until(lambda: relay.hub.load().streams == 0)

    assert 2 == len(upstream.calls)


@pytest.mark.parametrize("path", [*CHATS, "/v1/chat"])
async def test_model_that_is_nowhere_is_404_here_and_at_the_provider(path):
    script = reply("404 Not Found", '{"error":{"message":"no","code":"model_not_found"}}')
    body = {**CHATS.get(path, HELLO), "model": "nope/nope"}
    async with serve_relay() as relay, serve_script(script) as (passing, _):
        answers = [await one.client.post(path, json=body) for one in (relay, passing)]

    assert [404, 404] == [answer.status_code for answer in answers]
    assert ["false", "false"] == [answer.headers["x-should-retry"] for answer in answers]
    if path not in ("/v1/chat", "/v1/messages"):
        assert {"model_not_found"} == {answer.json()["error"]["code"] for answer in answers}
