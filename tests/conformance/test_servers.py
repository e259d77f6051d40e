"""The conformance kit over servers: the relay passes, and other framings fail where they differ."""

import asyncio
import contextlib
import json
import socket
import threading

import pytest
import uvicorn
from sse_starlette import EventSourceResponse, JSONServerSentEvent
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from conformance.__main__ import main
from conformance.cases import load
from conformance.server import run_server
from conformance.wire import STREAM, event_id, frame, streams
from tests.serving import serve_relay


def outcomes(results):
    return {one.name: (one.state, one.reasons) for one in results if one.state != "pass"}


async def run(cases, **settings):
    async with serve_relay(demo_pace=0.0002, heartbeat_s=0.05, retry_ms=2000, **settings) as relay:
        return await asyncio.to_thread(run_server, relay.url, cases, headers={}, timeout_s=10)


@pytest.mark.parametrize("part", range(4))
async def test_the_relay_passes(part):
    results = await run(load("server")[part::4])

    assert {} == outcomes(results)


async def list_models(request):
    return JSONResponse({"object": "list", "data": [{"id": "demo"}]})


@contextlib.contextmanager
def serve(answer, *, models=list_models):
    """An app with the model `demo`, whose streams are this answer."""
    routes = [
        Route("/v1/models", models),
        Route("/v1/chat", answer, methods=["POST"]),
        Route("/v1/streams/{stream}/events", answer),
    ]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(Starlette(routes=routes), log_level="critical", lifespan="off")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


HEADERS = {"stream-id": STREAM, "content-location": f"/v1/streams/{STREAM}/events"}
EVENTS = streams()["hello"]
FRAMING = ("frames", "names-of-events", "ids", "retry", "headers", "start-and-end")


def judged(answer, *names):
    cases = [case for case in load("server") if case["name"] in names]
    with serve(answer) as url:
        found = outcomes(run_server(url, cases, headers={}, timeout_s=5))
    return {name: reasons[0] for name, (_, reasons) in found.items()}


def frames(after, **fields):
    return "".join(
        frame(event, number, retry_ms=2000 if number == after + 1 else None)
        for number, event in enumerate(EVENTS[after:], after + 1)
    )


async def right(request):
    after = int(request.query_params.get("after", "0"))
    return Response(frames(after), headers=HEADERS, media_type="text/event-stream")


def test_frames_as_the_protocol_states_them_pass():
    assert {} == judged(right, *FRAMING)


def test_frames_of_sse_starlette_pass_but_for_what_the_protocol_adds():
    """Its defaults end lines in CRLF and put the id first, where a cut takes the frame with it."""

    async def answer(request):
        after = int(request.query_params.get("after", "0"))

        async def events():
            for number, event in enumerate(EVENTS[after:], after + 1):
                retry = 2000 if number == after + 1 else None
                yield JSONServerSentEvent(
                    event, event=event["type"], id=event_id(number), retry=retry
                )

        return EventSourceResponse(events(), headers=HEADERS)

    found = judged(answer, *FRAMING)
    last = "retry: 2000"

    assert {
        "frames": "step 1, POST /v1/chat: a CR is in line 1: end lines in LF",
        "ids": f"step 1, POST /v1/chat: the last line of a frame is {last!r}, not its id",
    } == found


@pytest.mark.parametrize(
    ("case", "before", "after"),
    [
        ("frames", "\n\n", "\n\n\n"),
        ("frames", "data: {", "data: {\ndata: "),
        ("frames", "event: usage", "note: 1\nevent: usage"),
        ("frames", "\n", "\r\n"),
        ("names-of-events", "event: text.delta", "event: message"),
        ("names-of-events", "event: text.delta\n", ""),
        ("ids", f"id: {STREAM}.4\n", f"id: {STREAM}.3\n"),
        ("ids", f"id: {STREAM}.4\n", "id: 4\n"),
        ("ids", f"id: {STREAM}.4\n", f"id: {STREAM}.4\n: last\n"),
        ("retry", "retry: 2000\n", ""),
        ("retry", "event: usage", "retry: 2000\nevent: usage"),
        ("retry", "retry: 2000", "retry: 2s"),
        ("start-and-end", '"status":"completed"', '"status":"failed"'),
        ("start-and-end", '"type":"stream.end"', '"type":"stream.over"'),
        ("start-and-end", '"type":"stream.target"', '"type":"stream.aim"'),
    ],
)
def test_a_server_with_a_fault_fails(case, before, after):
    async def answer(request):
        text = frames(int(request.query_params.get("after", "0")))
        assert before in text or "after" in request.query_params
        changed = text.replace(before, after)
        return Response(changed, headers=HEADERS, media_type="text/event-stream")

    assert [case] == [*judged(answer, case)]


def test_a_server_without_the_demo_is_not_verified(capsys):
    with serve(right) as url:
        main(["--server", url, "--only", "b*", "--json", "--header", "x-api-key: none"])
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    found = {one["case"]: (one["result"], one["reasons"]) for one in printed}

    reason = "the server has no model demo-reasoning, demo-tools"
    assert ("not verified", [reason]) == found["blocks"]
    assert "fail" == found["behind-the-end"][0]


def test_a_server_that_does_not_answer_is_named(capsys):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(SystemExit) as ended:
        main(["--server", f"http://127.0.0.1:{port}"])

    assert 2 == ended.value.code
    assert f"--server: no answer from http://127.0.0.1:{port}: " in capsys.readouterr().err


def test_a_server_that_wants_a_credential_is_named(capsys):
    async def refuse(request):
        return Response(status_code=401)

    with serve(right, models=refuse) as url, pytest.raises(SystemExit) as ended:
        main(["--server", url])

    assert 2 == ended.value.code
    assert "GET /v1/models: the status is 401; is --header missing?" in capsys.readouterr().err
