"""Traces as a collector is told of them, by a relay on a real socket."""

import asyncio
import importlib
import json
import logging
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import httpx2
import opentelemetry.semconv._incubating.attributes as installed
import pytest
from opentelemetry import context, trace
from opentelemetry.trace import SpanContext, TraceFlags
from starlette.testclient import TestClient
from structlog.testing import capture_logs

from app.composition import build_tracing
from app.dialects.upstream_formats import UPSTREAM_FORMATS
from app.main import create_app
from app.settings import SettingsError, load_settings
from app.settings.load import read_span_limits
from app.telemetry import tracing
from app.telemetry.tracing import Tracing, _text
from app.telemetry.tracing_content import render_messages
from app.testing.upstream import (
    DONE,
    FINISH,
    USAGE,
    Call,
    Hold,
    Reset,
    head,
    reply,
    send,
    serve_upstream,
    text,
)
from tests.collector import Collector, Span, collect
from tests.serving import HELLO, Relay, chat, serve_relay, serve_script
from tests.waiting import until

ROOT = Path(__file__).parents[2]
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"
HI = [head(), send(text("hi") + FINISH + USAGE + DONE)]
SAYS_BUSY = [head("503 Busy"), send("{}")]


@pytest.fixture
def collector(monkeypatch) -> Iterator[Collector]:
    with collect() as running:
        for name, value in running.environ().items():
            if name.startswith("OTEL"):
                monkeypatch.setenv(name, value)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "20")
        yield running
    # Else it would be at work beside other tests, such as those that measure memory.
    for thread in threading.enumerate():
        if thread.name.startswith(("OtelBatch", "spans")):
            thread.join(20)
            assert not thread.is_alive()


def two_targets(tmp_path, first: str, second: str, **more: str) -> dict[str, str]:
    """A route with a fallback; `more` are lines of the first upstream."""
    lines = "\n".join(f"{name} = {value}" for name, value in more.items())
    path = tmp_path / "seseragi.toml"
    path.write_text(
        f"[upstream.one]\nbase_url = '{first}'\n{lines}\n"
        f"[upstream.two]\nbase_url = '{second}'\n"
        "[[route]]\nname = 'both'\ntargets = ['one/m', 'two/m']\n"
    )
    return {"SESERAGI_CONFIG": str(path)}


async def ask(relay: Relay, **headers: str) -> httpx2.Response:
    return await relay.client.post("/v1/chat", json=HELLO, headers=headers)


async def test_span_of_a_request_has_its_stream_and_that_its_attempt(collector, monkeypatch):
    monkeypatch.setenv("OTEL_SERVICE_NAME", "my-relay")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer sk-collector-secret")
    async with serve_upstream() as upstream, serve_relay(upstream, traces="true") as relay:
        upstream.script = HI
        with capture_logs() as lines:
            reply = await ask(relay, traceparent=TRACEPARENT, tracestate="vendor=1")
            (call,) = upstream.calls
            request, stream, attempt = await collector.wait_for_names(
                "POST /v1/chat", "stream", "chat gpt-6-luna"
            )

    assert ["server", "internal", "client"] == [one.kind for one in (request, stream, attempt)]
    assert [TRACE] * 3 == [one.trace for one in (request, stream, attempt)]
    assert [PARENT, request.id, stream.id] == [one.parent for one in (request, stream, attempt)]
    assert ["vendor=1"] * 3 == [one.state for one in (request, stream, attempt)]
    assert {
        "http.request.method": "POST",
        "http.route": "/v1/chat",
        "http.response.status_code": 200,
        "url.path": "/v1/chat",
        "url.scheme": "http",
        "seseragi.request_id": reply.headers["x-request-id"],
        "seseragi.stream": reply.headers["stream-id"],
    } == request.attributes
    seconds = attempt.attributes.pop("gen_ai.response.time_to_first_chunk")
    assert 0 < seconds < 20
    assert {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-6-luna",
        "gen_ai.request.stream": True,
        "gen_ai.response.model": "m-1",
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.usage.input_tokens": 3,
        "gen_ai.usage.output_tokens": 2,
        "server.address": "127.0.0.1",
        "server.port": upstream.port,
        "seseragi.attempt": 1,
        "seseragi.target": "openai/gpt-6-luna",
        "seseragi.status": "completed",
    } == attempt.attributes
    told = stream.attributes
    assert ("completed", 1, reply.headers["stream-id"]) == tuple(
        told[f"seseragi.{name}"] for name in ("status", "attempts", "stream")
    )
    assert stream.start <= attempt.start <= attempt.end <= stream.end
    assert ("my-relay", "test") == (
        request.resource["service.name"],
        request.resource["deployment.environment.name"],
    )
    # The collector's own secret goes to it and nowhere else, and no trace to the provider.
    assert "Bearer sk-collector-secret" == collector.headers[0]["authorization"]
    everything = b"".join(collector.bodies) + repr(lines).encode() + repr(call.headers).encode()
    for secret in (b"sk-collector-secret", b"sk-test-0123456789 ", b"hello"):
        assert secret not in everything
    assert b"sk-test" not in b"".join(collector.bodies)
    assert not {"traceparent", "tracestate"} & call.headers.keys()
    ended = [line for line in lines if line["event"] == "stream ended"]
    assert [TRACE] == [line["trace_id"] for line in ended]


async def test_provider_is_told_of_the_attempt_where_its_upstream_is_set_to(collector, tmp_path):
    async with serve_upstream() as one, serve_upstream() as two:
        environ = two_targets(tmp_path, one.base_url, two.base_url, trace_context="true")
        one.script, two.script = SAYS_BUSY, HI
        async with serve_relay(traces="true", environ=environ) as relay:
            for _ in range(2):
                await chat(relay, model="both")
            spans = await collector.wait_for(lambda spans: len(spans) >= 8 and spans)
            streams = [span for span in spans if span.name == "stream"]

        attempts = {span.id: span for span in collector.spans if span.name == "chat m"}
        told = [call.headers["traceparent"].split("-") for call in one.calls]
        assert all("traceparent" not in call.headers for call in two.calls)
    assert [attempts[parts[2]].trace for parts in told] == [parts[1] for parts in told]
    for _, _, parent, flags in told:
        assert (1, "upstream_overloaded") == (
            attempts[parent].attributes["seseragi.attempt"],
            attempts[parent].error,
        )
        assert int(flags, 16) & 1
    for stream in streams:
        ours = [span for span in attempts.values() if span.parent == stream.id]
        assert [("error", 1), ("unset", 2)] == sorted(
            (span.status, span.attributes["seseragi.attempt"]) for span in ours
        )
        assert ("unset", 2) == (stream.status, stream.attributes["seseragi.attempts"])


async def test_endings_are_told_apart(collector):
    """A retry, a time-out, an answer that is cut, and one that its reader stops or leaves."""
    retried: list[Call] = []
    found: dict[str, tuple[Span, Span, list[Span]]] = {}

    def choose(call: Call) -> Any:
        said = call.json["messages"][0]["content"]
        if said == "retry" and not retried:
            retried.append(call)
            return SAYS_BUSY
        return {
            "retry": HI,
            "late": [head(), Hold()],
            "cut": [head(), send(text("so")), Reset()],
            "stopped": [head(), send(text("so")), Hold()],
            "left": [head(), send(text("so")), Hold()],
        }[said]

    async def try_one(relay: Relay, said: str) -> None:
        body = {"messages": [{"role": "user", "content": said}]}
        async with relay.client.stream("POST", "/v1/chat", json=body) as reply:
            stream = reply.headers["stream-id"]
            pieces = reply.aiter_raw()
            await anext(pieces)
            if said == "stopped":
                await relay.client.post(f"/v1/streams/{stream}/cancel")
            if said != "left":
                async for _ in pieces:
                    pass
        found[said] = await collector.wait_for(lambda spans: of_stream(spans, stream))

    async with serve_upstream() as upstream:
        upstream.choose = choose
        async with serve_relay(upstream, traces="true", attempts=2, linger_s=0) as relay:
            for said in ("retry", "cut", "stopped", "left"):
                await try_one(relay, said)
        async with serve_relay(upstream, traces="true", first_event_timeout_s=0.1) as relay:
            await try_one(relay, "late")

    def told(said: str) -> list[tuple[str, str | None]]:
        request, stream, attempts = found[said]
        return [(span.status, span.error) for span in (request, stream, *attempts)]

    fine = ("unset", None)
    overloaded, timeout = ("error", "upstream_overloaded"), ("error", "upstream_timeout")
    cut = ("error", "upstream_truncated")
    assert [fine, fine, overloaded, fine] == told("retry")
    assert [("error", "504"), timeout, timeout] == told("late")
    assert [fine, cut, cut] == told("cut")
    for said in ("stopped", "left"):
        assert [fine] * 3 == told(said)
        _, own, (attempt,) = found[said]
        assert "cancelled" == own.attributes["seseragi.status"]
        by = "user" if said == "stopped" else "reader_gone"
        assert by == own.attributes["seseragi.ended_by"]
        assert ["error"] == attempt.attributes["gen_ai.response.finish_reasons"]
        assert attempt.attributes["seseragi.usage.estimated"]
    assert "seseragi.client_left" not in found["stopped"][0].attributes
    assert found["left"][0].attributes["seseragi.client_left"]


def of_stream(spans: list[Span], stream: str) -> tuple[Span, Span, list[Span]] | None:
    """The spans of the request that started a stream, of it, and of its attempts, once all came."""
    named = {span.name: span for span in spans if span.attributes.get("seseragi.stream") == stream}
    if not {"POST /v1/chat", "stream"} <= named.keys():
        return None
    own = named["stream"]
    attempts = sorted((s for s in spans if s.parent == own.id), key=lambda s: s.start)
    return named["POST /v1/chat"], own, attempts


async def test_stream_outlives_its_request_and_readers_are_linked_to_it(collector):
    async with serve_upstream() as upstream, serve_relay(upstream, traces="true") as relay:
        upstream.script = [head(), send(text("so")), Hold()]
        started = await ask(relay, prefer="respond-async")
        stream = started.json()["id"]
        await collector.wait_for_names("POST /v1/chat")
        async with relay.client.stream("GET", f"/v1/streams/{stream}/events") as reply:
            pieces = reply.aiter_raw()
            await anext(pieces)
            assert "stream" not in [span.name for span in collector.spans]
            await relay.client.post(f"/v1/streams/{stream}/cancel")
            async for _ in pieces:
                pass
        request, own, reading = await collector.wait_for_names(
            "POST /v1/chat", "stream", "GET /v1/streams/{stream}/events"
        )

    assert own.end > request.end
    assert request.id == own.parent
    assert [(own.trace, own.id)] == reading.links
    assert own.trace != reading.trace


async def test_refusals_say_why(collector):
    async with (
        serve_upstream() as upstream,
        serve_relay(upstream, traces="true", max_starts_per_minute_per_address=1) as relay,
    ):
        upstream.script = HI
        client = {"x-forwarded-for": "192.0.2.1"}
        replies = [await ask(relay, **client) for _ in range(2)]
        unknown = await relay.client.get("/v1/nothing/here")
        for path in ("/healthz", "/metrics", "/"):
            await relay.client.get(path)
        (missing,) = await collector.wait_for_names("GET")

    posts = [span for span in collector.spans if span.name == "POST /v1/chat"]
    assert [200, 429, 404] == [reply.status_code for reply in (*replies, unknown)]
    assert [(200, None, "unset"), (429, "rate_limited", "unset")] == [
        (
            span.attributes["http.response.status_code"],
            span.attributes.get("seseragi.code"),
            span.status,
        )
        for span in posts
    ]
    # The path of a route, and not what somebody has typed; none of what nobody has asked for.
    assert 404 == missing.attributes["http.response.status_code"]
    assert {"POST /v1/chat", "GET", "stream", "chat gpt-6-luna"} == {
        span.name for span in collector.spans
    }


async def test_single_calls_have_spans(collector):
    rows = [{"index": at, "embedding": [1.0]} for at in range(2)]
    vectors = {"data": rows, "model": "e-1", "usage": {"prompt_tokens": 2}}
    async with serve_script(reply("200 OK", json.dumps(vectors)), traces="true") as (relay, _):
        body = {"model": "openai/e-1", "input": ["one", "two"]}
        assert 200 == (await relay.client.post("/v1/embeddings", json=body)).status_code
        request, call = await collector.wait_for_names("POST /v1/embeddings", "embeddings e-1")
    async with (
        serve_upstream() as upstream,
        serve_relay(upstream, dialect="anthropic", traces="true") as relay,
    ):
        upstream.script = [head("500 Oh no"), send("{}")]
        asked = {"model": "claude", "max_tokens": 9, **HELLO}
        counted = await relay.client.post("/v1/messages/count_tokens", json=asked)
        (failed,) = await collector.wait_for_names("token_count claude")

    assert (request.id, "client") == (call.parent, call.kind)
    assert ("embeddings", "e-1", 2) == tuple(
        call.attributes[f"gen_ai.{name}"]
        for name in ("operation.name", "response.model", "usage.input_tokens")
    )
    assert 200 == counted.status_code
    assert "error" == failed.status
    assert failed.error is not None
    assert failed.error.startswith("upstream_")


MALFORMED = [
    *("", "garbage", "00", "-" * 55, f"ff-{TRACE}-{PARENT}-01", f"00-{TRACE.upper()}-{PARENT}-01"),
    *(f"00-{'0' * 32}-{PARENT}-01", f"00-{TRACE}-{'0' * 16}-01", f"00-{'g' * 32}-{PARENT}-01"),
    *(f"00-{TRACE}-{PARENT}{end}" for end in ("-01-more", "-1", "-zz", "", "-01;x=1")),
    *(f"00-{TRACE[:-1]}-{PARENT}-01", f"00-{TRACE}0-{PARENT}-01", f"00-{TRACE}-{PARENT[:-1]}-01"),
    *(f"0-{TRACE}-{PARENT}-01", f"000-{TRACE}-{PARENT}-01", f"00_{TRACE}_{PARENT}_01"),
    *(f"{TRACEPARENT},{TRACEPARENT}", f"01-{TRACE}-{PARENT}-01" + "-x" * 4000),
    TRACEPARENT.replace("a", "\u00e4"),
]


async def test_traceparent_that_is_none_is_as_if_there_were_none(collector):
    states = ["=", "a" * 60_000, "a=1," * 5000, "\u00e4=1", "a=1,a=2"]
    async with serve_relay(traces="true") as relay:
        tried: list[list[tuple[bytes, bytes]]] = [
            [(b"traceparent", value.encode("latin-1"))] for value in MALFORMED
        ]
        tried.append([(b"traceparent", TRACEPARENT.encode())] * 2)
        believed = [
            [(b"traceparent", TRACEPARENT.encode()), (b"tracestate", state.encode("latin-1"))]
            for state in states
        ]
        every = [*tried, *believed]
        replies = [await relay.client.get("/v1/models", headers=headers) for headers in every]
        spans = await collector.wait_for(lambda spans: len(spans) >= len(every) and [*spans])

    assert {200} == {reply.status_code for reply in replies}
    assert len(tried) == len({span.trace for span in spans} - {TRACE})
    ours = [span for span in spans if span.trace == TRACE]
    assert [(PARENT, "")] * len(states) == [(span.parent, span.state) for span in ours]


@pytest.mark.parametrize("sampler", [None, "always_on", "traceidratio"])
async def test_client_decides_what_is_kept_unless_the_sampler_ignores_its_flag(
    collector, tmp_path, monkeypatch, sampler
):
    if sampler is not None:
        monkeypatch.setenv("OTEL_TRACES_SAMPLER", sampler)
        monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "1")
    async with serve_upstream() as one, serve_upstream() as two:
        environ = two_targets(tmp_path, one.base_url, two.base_url, trace_context="true")
        one.script = two.script = HI
        async with serve_relay(traces="true", environ=environ) as relay:
            headers = {"traceparent": f"00-{TRACE}-{PARENT}-00"}
            body = {**HELLO, "model": "both"}
            await relay.client.post("/v1/chat", json=body, headers=headers)
            await relay.client.get("/v1/models")
            await collector.wait_for_names("GET /v1/models")

        (call,) = one.calls
    kept = [span.name for span in collector.spans if span.trace == TRACE]
    sampled = sampler is not None
    assert sampled == bool(kept)
    _, trace_id, _, flags = call.headers["traceparent"].split("-")
    assert (TRACE, sampled) == (trace_id, bool(int(flags, 16) & 1))


@pytest.mark.parametrize("wanted", [True, False])
async def test_content_is_told_where_a_setting_asks_for_it(collector, wanted):
    async with (
        serve_upstream() as upstream,
        serve_relay(upstream, traces="true", trace_content=str(wanted).lower()) as relay,
    ):
        upstream.script = [head(), send(text("an answer ") + text("of two") + FINISH + DONE)]
        body = {"messages": [{"role": "user", "content": "a question \u00fc"}]}
        await relay.client.post("/v1/chat", json=body)
        (attempt,) = await collector.wait_for_names("chat gpt-6-luna")

    said = b"".join(collector.bodies)
    assert [wanted] * 2 == [b"a question" in said, b"an answer" in said]
    if wanted:
        asked = [{"role": "user", "parts": [{"type": "text", "content": "a question \u00fc"}]}]
        assert asked == json.loads(attempt.attributes["gen_ai.input.messages"])
        (answer,) = json.loads(attempt.attributes["gen_ai.output.messages"])
        parts = [{"type": "text", "content": "an answer of two"}]
        assert {"role": "assistant", "parts": parts, "finish_reason": "stop"} == answer


def test_messages_are_in_the_words_of_the_conventions():
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
    packed = {
        "messages": [
            {"role": "system", "content": "be"},
            {"role": "assistant", "content": None, "reasoning_content": "hm", "tool_calls": [call]},
            {"role": "tool", "content": "2", "tool_call_id": "c"},
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "[9]"}}]},
        ],
        "answer": [
            {"type": "text", "text": "x"},
            {"type": "text", "text": "y", "choice": 1},
            {"type": "tool_call", "name": "f", "arguments": '{"a":'},
        ],
    }
    asked, answered = map(
        json.loads, render_messages(json.dumps(packed).encode(), finish_reason="tool_calls")
    )

    called = {"type": "tool_call", "id": "c", "name": "f", "arguments": {"a": 1}}
    assert [
        {"role": "system", "parts": [{"type": "text", "content": "be"}]},
        {"role": "assistant", "parts": [{"type": "reasoning", "content": "hm"}, called]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c", "response": "2"}]},
        {"role": "user", "parts": [{"type": "image_url", "image_url": {"url": "[9]"}}]},
    ] == asked
    cut = {"type": "tool_call", "name": "f", "arguments": '{"a":'}
    parts = [[{"type": "text", "content": "x"}, cut], [{"type": "text", "content": "y"}]]
    assert [
        {"role": "assistant", "parts": one, "finish_reason": "tool_call"} for one in parts
    ] == answered


async def test_half_a_character_costs_no_other_span(collector):
    half = '{"id": "up\\ud800", "model": "m\\ud800", "choices": [{"index": 0, "delta": %s}]}'
    async with serve_upstream() as upstream, serve_relay(upstream, traces="true") as relay:
        upstream.script = [head(), send(f"data: {half % '{}'}\n\n"), *HI[1:]]
        await chat(relay)
        await relay.client.get("/v1/%ed%a0%80/x%00y%0a")
        attempt, _ = await collector.wait_for_names("chat gpt-6-luna", "GET")

    assert "m\ufffd" == attempt.attributes["gen_ai.response.model"]
    # Whatever a server makes of a path: one such character would lose the whole batch.
    assert "a?b" == _text("a\ud800b")


def test_app_within_a_traced_one_is_below_its_span(collector):
    within = SpanContext(
        int(TRACE, 16), int(PARENT, 16), is_remote=False, trace_flags=TraceFlags(1)
    )
    token = context.attach(trace.set_span_in_context(trace.NonRecordingSpan(within)))
    try:
        with TestClient(create_app(load_settings({"SESERAGI_TRACES": "true"}))) as client:
            other = {"traceparent": f"00-{'1' * 32}-{PARENT}-01"}
            assert 200 == client.get("/v1/models", headers=other).status_code
    finally:
        context.detach(token)

    (span,) = collector.spans
    assert ("GET /v1/models", TRACE, PARENT) == (span.name, span.trace, span.parent)


def hang(handler: BaseHTTPRequestHandler) -> None:
    handler.rfile.read(1)


def refuse(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(400)
    handler.send_header("content-length", "0")
    handler.end_headers()


EXPORTER = "opentelemetry.exporter.otlp.proto.http.trace_exporter"


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (
            "gopher://127.0.0.1/?sk-secret",
            "Failed to export spans batch code: None, reason: InvalidSchema",
        ),
        (refuse, "Failed to export spans batch code: 400, reason: Bad Request"),
        (hang, "Failed to export spans batch due to timeout, max retries or shutdown."),
        (
            "http://user:sk-secret@127.0.0.1:9/?sk-secret",
            "Failed to export spans batch due to timeout, max retries or shutdown.",
        ),
    ],
)
async def test_streams_do_not_wait_for_a_collector(collector, monkeypatch, caplog, answer, line):
    """One that refuses, is silent, or is not there, or has no usable address, is one line."""
    monkeypatch.setattr("app.telemetry.tracing.CLOSE_S", 0.2)
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "2000" if answer is refuse else "4")
    # Less than the exporter's first delay, or a last attempt with no time left is a ValueError.
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.5")
    for name in ("opentelemetry", EXPORTER):  # as in a new process
        logging.getLogger(name).setLevel(logging.NOTSET)
        logging.getLogger(name).filters.clear()
    if isinstance(answer, str):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", answer)
    else:
        collector.answer = answer

    def found() -> list[str]:
        return [one.getMessage() for one in caplog.records if one.name == EXPORTER]

    async with serve_upstream() as upstream, serve_relay(upstream, traces="true") as relay:
        upstream.script = HI
        for _ in range(12):
            assert "stream.end" == (await chat(relay))[-1]["type"]
        await until(found)
        for _ in range(12):
            await chat(relay)

    assert [line] == found()
    assert "sk-secret" not in caplog.text


def test_drops_of_a_full_queue_are_one_line(collector, monkeypatch, caplog):
    monkeypatch.setattr("app.telemetry.tracing.CLOSE_S", 0.2)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    collector.answer = hang
    for repeated in logging.getLogger("opentelemetry.sdk._shared_internal").filters:
        vars(repeated).pop("last_log", None)  # of another test
    own = Tracing(spans=4, batch=4, delay_ms=600_000)
    own.open()
    for _ in range(100):
        own._tracer.start_span("one").end()
    own.close()

    assert ["Queue full, dropping Span."] == [
        record.message for record in caplog.records if record.name.startswith("opentelemetry")
    ]


def test_without_the_extra_it_is_named(monkeypatch):
    for name in [one for one in sys.modules if one.startswith("app.telemetry.tracing")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(SettingsError, match=r"OpenTelemetry is not installed.*\.\[otel\]"):
        build_tracing(load_settings({"SESERAGI_TRACES": "true"}))
    assert build_tracing(load_settings({})) is None


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        ("OTEL_TRACES_EXPORTER", "console", "'console' cannot be used"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "port 4318"),
        ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json", "'http/json' cannot be used"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "-1", "from 1 on"),
        ("OTEL_BSP_SCHEDULE_DELAY", "0", "from 1 on"),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "9" * 5000, "from 1 on"),
    ],
)
def test_variables_that_cannot_be_used_are_named(variable, value, told):
    with pytest.raises(SettingsError) as raised:
        read_span_limits({variable: value}, content=False)

    assert variable.replace("_TRACES_PROTOCOL", "_PROTOCOL") in str(raised.value)
    assert told in str(raised.value)


def test_variables_turn_traces_off_and_bound_what_waits():
    for off in ({"OTEL_SDK_DISABLED": "TRUE "}, {"OTEL_TRACES_EXPORTER": "none"}):
        assert read_span_limits(off, content=False) is None
    assert (2048, 64, 5000) == read_span_limits({"OTEL_SDK_DISABLED": "false"}, content=False)
    assert (256, 32, 5000) == read_span_limits({}, content=True)
    given = {"OTEL_BSP_MAX_QUEUE_SIZE": "10", "OTEL_BSP_SCHEDULE_DELAY": "7"}
    assert (10, 10, 7) == read_span_limits(given, content=False)


NEWER = {"gen_ai.usage.cache_write.input_tokens"}
"""Names that the conventions have, and the package does not yet."""


def test_names_are_those_of_the_conventions():
    known = set(NEWER)
    for module in ("gen_ai", "http", "url", "server", "error"):
        found = importlib.import_module(f"{installed.__name__}.{module}_attributes")
        known |= {value for value in vars(found).values() if isinstance(value, str)}
    for module in ("http", "url", "server", "error"):
        found = importlib.import_module(f"opentelemetry.semconv.attributes.{module}_attributes")
        known |= {value for value in vars(found).values() if isinstance(value, str)}
    code = Path(tracing.__file__).read_text(encoding="utf-8")
    dotted = set(re.findall(r'"((?:gen_ai|http|url|server|error)\.[\w.]+)"', code))

    assert 15 < len(dotted)
    assert set() == dotted - known
    gen_ai = importlib.import_module(f"{installed.__name__}.gen_ai_attributes")
    providers = {one.value for one in gen_ai.GenAiProviderNameValues}
    operations = {one.value for one in gen_ai.GenAiOperationNameValues}
    assert {one.provider for one in UPSTREAM_FORMATS.values() if one.provider} <= providers
    assert {one.operation for one in UPSTREAM_FORMATS.values()} <= operations


async def test_library_says_nothing_by_itself(collector):
    """It would log the headers of the collector, and a line for each span that it drops."""
    async with serve_relay(traces="true"):
        quiet = logging.getLogger("opentelemetry.sdk.trace.export")
        assert not quiet.isEnabledFor(logging.ERROR)
        await asyncio.sleep(0)


def test_what_is_off_loads_no_library():
    code = (
        "import asyncio, sys\n"
        "from app.composition import build_tracing\n"
        "from app.relay import Relay\n"
        "from app.settings import load_settings\n"
        "async def build():\n"
        "    settings = load_settings({})\n"
        "    assert build_tracing(settings) is None\n"
        "    async with Relay.open(settings):\n"
        "        pass\n"
        "asyncio.run(build())\n"
        "print([name for name in sys.modules if name.startswith(('opentelemetry', 'app.telemetry.tracing', 'jwt', 'cryptography'))])\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert "[]" == told.stdout.strip()
