"""Observers of streams: each is told of everything, and none harms a stream or another."""

from contextlib import AsyncExitStack
from typing import Any

from structlog.testing import capture_logs

from app.errors import RequestError
from app.eventlog.stream_info import StreamInfo
from app.telemetry.observer import AttemptStarted, Observer, Observers, Refused
from app.testing.upstream import head, send, serve_upstream
from tests.serving import VECTOR, chat, serve_relay, serve_script

METHODS = (
    *("started", "attempt_started", "attempt_failed", "first_event", "ended"),
    *("refused", "reader_joined", "call_ended"),
)
HI = 'data: {"choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\n'
DONE = 'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


class Noting(Observer):
    def __init__(self) -> None:
        self.told: list[tuple[str, Any]] = []
        for method in METHODS:
            setattr(self, method, lambda what, method=method: self.told.append((method, what)))


class Broken(Observer):
    def started(self, info: StreamInfo) -> None:
        raise ArithmeticError("a bug")

    def refused(self, refused: Refused) -> None:
        raise ArithmeticError("another")


class Silent(Observer):
    """Wants to hear nothing."""


def test_what_an_observer_raises_reaches_nobody_and_is_logged_once_a_method():
    noting = Noting()
    observers = Observers([Broken(), noting, Silent()])
    record = StreamInfo("st_1")
    refused = Refused(
        owner="", request_id="r", model=None, error=RequestError("invalid_request", "no")
    )
    with capture_logs() as lines:
        for _ in range(3):
            observers.started(record)
            observers.refused(refused)

    assert [("started", record), ("refused", refused)] * 3 == noting.told
    found = [(line["observer"], line["method"], line["log_level"]) for line in lines]
    assert [("Broken", "started", "error"), ("Broken", "refused", "error")] == found


async def test_observer_is_told_of_a_stream_in_order_and_of_its_request():
    noting = Noting()
    async with AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(serve_upstream())
        scripts = [[head("503 Busy"), send("{}")], [head(), send(HI), send(DONE)]]
        upstream.script = scripts[0]

        class Next(Observer):
            def attempt_failed(self, failed: object) -> None:
                upstream.script = scripts[1]

        observers = [Broken(), noting, Next()]
        relay = await stack.enter_async_context(
            serve_relay(upstream, attempts=2, observers=observers)
        )
        relay.client.headers["x-request-id"] = "request-1"
        await chat(relay, model="openai/m")
        reply = await relay.client.post("/v1/chat", json={"messages": [], "model": "nope"})
        assert reply.status_code >= 400

    told = [method for method, _ in noting.told if not method.startswith(("reader", "refused"))]
    attempts = ["attempt_started", "attempt_failed", "attempt_started"]
    assert ["started", *attempts, "first_event", "ended"] == told
    what = dict(noting.told)
    asked = what["attempt_started"]
    assert (what["started"].id, 2, "openai/m") == (asked.id, asked.attempt, asked.target.name)
    assert {"request-1"} == {
        what[method].info.request_id for method in ("attempt_failed", "first_event", "ended")
    } | {what["started"].request_id}
    assert ("completed", 2, False) == (
        *(what["ended"].end.status, what["ended"].attempts),
        what["ended"].lost,
    )
    assert (what["started"].id, False) == (
        what["reader_joined"].stream,
        what["reader_joined"].resumed,
    )


async def test_observer_is_told_of_a_call_that_makes_no_stream():
    noting = Noting()
    async with serve_script(VECTOR, observers=[noting]) as (relay, _):
        body = {"model": "openai/e", "input": "a river"}
        assert 200 == (await relay.client.post("/v1/embeddings", json=body)).status_code

    (_, started), (_, ended) = noting.told
    assert ["attempt_started", "call_ended"] == [method for method, _ in noting.told]
    assert (started.id, "embeddings", None) == (ended.id, started.operation, ended.code)
    assert ended.usage.input_tokens > 0


async def test_headers_that_observers_return_are_in_the_requests_of_attempts():
    class Traces(Observer):
        def attempt_started(self, started: AttemptStarted) -> dict[str, str]:
            return {"x-trace": f"{started.operation}-{started.attempt}", "x-first": "1"}

    class Adds(Observer):
        def attempt_started(self, started: AttemptStarted) -> dict[str, str]:
            return {"x-second": "2"}

    class Returns(Observer):
        def attempt_started(self, started: AttemptStarted) -> Any:
            return 3

    observers = [Traces(), Returns(), Silent(), Adds()]
    body = {"model": "openai/e", "input": "a river"}
    async with AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(serve_upstream())
        relay = await stack.enter_async_context(serve_relay(upstream, observers=observers))
        upstream.script = [head(), send(HI), send(DONE)]
        with capture_logs() as lines:
            await chat(relay, model="openai/m")
            upstream.script = VECTOR
            made = await relay.client.post("/v1/embeddings", json=body)

    assert 200 == made.status_code
    names = ("x-trace", "x-first", "x-second")
    found = [tuple(call.headers[name] for name in names) for call in upstream.calls]
    assert [("generation-1", "1", "2"), ("embeddings-1", "1", "2")] == found
    failed = [line["observer"] for line in lines if line["event"] == "observer failed"]
    assert ["Returns"] == failed
