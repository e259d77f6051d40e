"""Traces of several workers, some of which are killed: each span is told by one process."""

import asyncio
import http.client
import json
import os
import signal
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.collector import Span, collect
from tests.commands.test_command import running
from tests.replicas.processes import children

pytestmark = pytest.mark.proving

ROOT = Path(__file__).parents[2]
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
BODY = json.dumps({"model": "demo-pause", "messages": [{"role": "user", "content": "a river"}]})


def start(port: int, trace: str) -> str:
    """Start a stream that goes on for minutes; a new connection, so that any worker may take it."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    headers = {
        "content-type": "application/json",
        "prefer": "respond-async",
        "traceparent": f"00-{trace}-{PARENT}-01",
    }
    try:
        connection.request("POST", "/v1/chat", BODY, headers)
        stream: str = json.load(connection.getresponse())["id"]
        return stream
    finally:
        connection.close()


def get(port: int | None, path: str, trace: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("GET", path, headers={"traceparent": f"00-{trace}-{PARENT}-01"})
        assert 200 == connection.getresponse().status
    finally:
        connection.close()


async def test_streams_of_a_killed_worker_and_of_a_killed_relay_have_their_spans(tmp_path):
    with collect() as collector:
        environ = collector.environ(SESERAGI_WORKERS="2", SESERAGI_ACCESS_LOG="true")
        arguments = ("--log", f"sqlite:///{tmp_path}/streams.db")
        traces: dict[str, str] = {}

        async def start_some() -> dict[str, set[str]]:
            """Start streams until each worker has some; return those of each."""
            workers: dict[str, set[str]] = {}
            async with asyncio.timeout(60):  # one may take none for a while
                while len(workers) < 2:
                    for _ in range(4):
                        trace = f"{len(traces) + 1:032x}"
                        traces[start(port, trace)] = trace
                    posts = await collector.wait_for(lambda spans: requests(spans, len(traces)))
                    workers.clear()
                    for span in posts:
                        of_worker = workers.setdefault(span.resource["service.instance.id"], set())
                        of_worker.add(span.attributes["seseragi.stream"])
            return workers

        with running(*arguments, cwd=tmp_path, **environ) as (process, url):
            port = urlsplit(url).port or 0
            # Each has a thread of its own that sends them, begun after the fork.
            one, other = (await start_some()).values()
            os.kill(children(process.pid)[0], signal.SIGKILL)
            lost = await collector.wait_for(
                lambda spans: next((of for of in (one, other) if of <= ended(spans).keys()), None)
            )
            check(collector.spans, {stream: traces[stream] for stream in lost})
            left = traces.keys() - lost
            # Stopped first, so that none sees another die, and ends its streams.
            processes = (process.pid, *children(process.pid))
            for sent in (signal.SIGSTOP, signal.SIGKILL):
                for pid in processes:
                    os.kill(pid, sent)
            process.wait(60)
        with running(*arguments, cwd=tmp_path, **environ) as (process, url):
            await collector.wait_for(lambda spans: left <= ended(spans).keys())
            check(collector.spans, {stream: traces[stream] for stream in left})
            get(urlsplit(url).port, "/v1/models", "f" * 32)
            process.send_signal(signal.SIGTERM)
            assert 0 == process.wait(60)
            assert process.stderr is not None
            lines = [json.loads(line) for line in process.stderr]

    told = [span.attributes["seseragi.stream"] for span in collector.spans if span.name == "stream"]
    assert sorted(traces) == sorted(told)
    (line,) = [line for line in lines if line["event"] == "request"]
    assert "f" * 32 == line["trace_id"]


def requests(spans: list[Span], count: int) -> list[Span] | None:
    found = [span for span in spans if span.name == "POST /v1/chat"]
    return found if len(found) >= count else None


def ended(spans: list[Span]) -> dict[str, Span]:
    """The spans of streams, by their ids."""
    return {span.attributes["seseragi.stream"]: span for span in spans if span.name == "stream"}


def check(spans: list[Span], streams: dict[str, str]) -> None:
    """Each is in the trace of its request, whose span is its parent, by whomever it was ended."""
    found = ended(spans)
    parents = {
        span.attributes["seseragi.stream"]: span.id
        for span in spans
        if span.name == "POST /v1/chat"
    }
    for stream, trace in streams.items():
        span = found[stream]
        assert (trace, parents[stream]) == (span.trace, span.parent)
        assert (True, "interrupted", "producer_lost") == (
            span.attributes["seseragi.lost"],
            span.attributes["seseragi.status"],
            span.error,
        )
