"""The access log: one line a request, which says what the client got and nothing secret."""

import asyncio
import json
import re
import subprocess
import urllib.parse
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import httpx2
import pytest
from starlette.types import ASGIApp, Receive, Scope, Send
from structlog.testing import capture_logs

from app.identity.principal import Principal
from app.testing.upstream import DONE, FINISH, Hold, head, send, serve_upstream, text
from tests.commands.test_command import COMMAND, environment, running
from tests.identities import bearer, known
from tests.serving import HELLO, serve_relay
from tests.waiting import until

HI = [head(), send(text("hi") + FINISH + DONE)]
ME = Principal("t", "me", "my-app")


@pytest.fixture(params=[True, False], ids=["own server", "any server"])
async def watch(request: pytest.FixtureRequest) -> AsyncIterator[Callable[[ASGIApp], ASGIApp]]:
    """What stands around the app: nothing, or what makes our own server look like any other."""
    yield (lambda app: app) if request.param else as_any_server
    # sse-starlette watches for the end of its server, in a task that lasts as long as the loop.
    for task in asyncio.all_tasks():
        if "_shutdown_watcher" in repr(task):
            task.cancel()
            await asyncio.wait([task])


def as_any_server(app: ASGIApp) -> ASGIApp:
    """Take our own server's extension away."""

    async def called(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, "extensions": {}}, receive, send)

    return called


def lines_of(logs: Any) -> list[dict[str, Any]]:
    return [line for line in logs if line["event"] == "request"]


async def test_line_says_what_the_client_got(watch):
    async with (
        serve_upstream() as upstream,
        serve_relay(upstream, authenticator=known(me=ME), watch=watch, access_log="true") as relay,
    ):
        upstream.script = HI
        headers = {**bearer("me"), "x-request-id": "request-1"}
        with capture_logs() as logs:
            streamed = await relay.client.post("/v1/chat", json=HELLO, headers=headers)
            stream = streamed.headers["stream-id"]
            whole = await relay.client.get(f"/v1/streams/{stream}", headers=headers)
            nobody = await relay.client.get("/v1/models?key=sk-secret")
            for reply in (streamed, whole, nobody):
                assert reply.content

    lines = lines_of(logs)
    assert [
        ("POST", "/v1/chat", 200, len(streamed.content), "my-app", stream),
        ("GET", f"/v1/streams/{stream}", 200, len(whole.content), "my-app", stream),
        ("GET", "/v1/models", 401, len(nobody.content), None, None),
    ] == [
        tuple(line[name] for name in ("method", "path", "status", "bytes", "key", "stream"))
        for line in lines
    ]
    assert [("t", "me", None)] * 2 + [(None, None, "unauthenticated")] == [
        (line["tenant"], line["user"], line["code"]) for line in lines
    ]
    assert ["request-1"] * 2 == [line["request_id"] for line in lines[:2]]
    assert nobody.headers["x-request-id"] == lines[2]["request_id"]
    assert all(line["complete"] and 0 <= line["duration_s"] < 20 for line in lines)
    assert "key-me" not in repr(logs)
    assert "sk-secret" not in repr(logs)


async def test_answer_that_the_client_left_is_not_complete(watch):
    async with (
        serve_upstream() as upstream,
        serve_relay(upstream, watch=watch, access_log="true") as relay,
    ):
        upstream.script = [head(), send(text("so far")), Hold()]
        with capture_logs() as logs:
            async with relay.client.stream("POST", "/v1/chat", json=HELLO) as reply:
                await anext(reply.aiter_raw())
            await until(lambda: lines_of(logs))

    (line,) = lines_of(logs)
    assert (200, False, None) == (line["status"], line["complete"], line["key"])
    assert line["bytes"] > 0


async def test_client_of_http_1_0_is_counted_too():
    async with serve_upstream() as upstream, serve_relay(upstream, access_log="true") as relay:
        upstream.script = HI
        body = json.dumps(HELLO).encode()
        with capture_logs() as logs:
            reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
            writer.write(
                b"POST /v1/chat HTTP/1.0\r\ncontent-type: application/json\r\n"
                b"content-length: %d\r\n\r\n%b" % (len(body), body)
            )
            answer = await reader.read()
            writer.close()

    (line,) = lines_of(logs)
    assert len(answer.partition(b"\r\n\r\n")[2]) == line["bytes"]


async def test_tokens_in_paths_are_hidden_and_long_ones_cut():
    async with serve_relay(access_log="true") as relay:
        with capture_logs() as logs:
            await relay.client.get("/v1/streams/st_1/events%3Ftoken=s3cret.t0ken&x=1")
            await relay.client.get(f"/{'x' * 4000}?token=s3cret.t0ken")

    shown = [line["path"] for line in lines_of(logs)]
    assert ["/v1/streams/st_1/events?token=...&x=1", f"/{'x' * 999}"] == shown
    assert "s3cret" not in repr(logs)  # of letters that no random id has


async def test_without_the_setting_there_is_no_line():
    async with serve_relay() as relay:
        with capture_logs() as logs:
            await relay.client.get("/healthz")

    assert [] == lines_of(logs)


ODD = "\x1b[31m\x1b]0;owned\x07\r\n2026 [info     ] forged\u2028\u2029\x85\x9b2J\u202e\x7f\x00"


@pytest.mark.parametrize("kind", ["console", pytest.param("json", marks=pytest.mark.proving)])
async def test_terminal_obeys_nothing_that_a_client_sends(kind: str, tmp_path):
    """In models, paths, headers and bodies, of requests that are served and of those that are not."""
    async with serve_upstream() as upstream:
        upstream.script = HI
        variables = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": upstream.base_url}
        variables["SESERAGI_AUTH"] = "none"
        process = await asyncio.create_subprocess_exec(
            *COMMAND,
            *("--port", "0"),
            cwd=tmp_path,
            env=environment(
                SESERAGI_LOG_FORMAT=kind,
                SESERAGI_LOG_LEVEL="debug",
                SESERAGI_ACCESS_LOG="true",
                **variables,
            ),
            stderr=subprocess.PIPE,
        )
        assert process.stderr is not None
        shown = b""
        while (match := re.search(rb"http://127.0.0.1:(\d+)", shown)) is None:
            shown += await asyncio.wait_for(process.stderr.readline(), 60)
        port = int(match[1])
        try:
            url = f"http://127.0.0.1:{port}"
            async with httpx2.AsyncClient(base_url=url, timeout=20, trust_env=False) as client:
                # A value with a blank in it is quoted anyhow.
                for model in (ODD, f"openai/{ODD}", f"openai/{ODD.replace(' ', '')}"):
                    await client.post("/v1/chat", json={**HELLO, "model": model})
                await client.get(f"/{urllib.parse.quote(ODD)}")
                await client.get(f"/v1/streams/{urllib.parse.quote(ODD, safe='')}")
                await client.request("POST", "/v1/chat", content=ODD.encode())
            names = (b"x-request-id", b"host", b"origin", b"content-type", b"user-agent", b"via")
            for name in names:
                odd = b"%b: \x1b[31m\x9b2J\xe2\x80\xa8" % name
                await speak(port, b"POST /v1/chat HTTP/1.1\r\n%b\r\n\r\n" % odd)
            await speak(port, b"GET /\x1b[31m\x9b HTTP/1.1\r\nhost: localhost\r\n\r\n")
            await speak(port, b"\x1b[31m \x9b\x85\r\n\r\n")
        finally:
            process.terminate()
            shown += await asyncio.wait_for(process.stderr.read(), 60)
            await process.wait()

    text = shown.decode()
    assert all(one.isprintable() or one == "\n" for one in text)
    assert [] == [line for line in text.splitlines() if line.startswith("2026 [info")]
    assert 3 == text.count("stream ended")
    lines = '"event":"request"' if kind == "json" else "] request  "
    assert 5 <= text.count(lines)
    assert ("\\u001b[31m" if kind == "json" else "\\x1b[31m") in text


async def speak(port: int, said: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(said)
    with suppress(TimeoutError, ConnectionError):
        await asyncio.wait_for(reader.read(1), 20)
    writer.close()


def test_lines_of_a_worker_have_its_number(tmp_path):
    log = f"sqlite:///{tmp_path}/log.db"
    settings = {"SESERAGI_ACCESS_LOG": "true", "SESERAGI_WORKERS": "2", "SESERAGI_LOG": log}
    with running(cwd=tmp_path, **settings) as (process, url):
        httpx2.get(f"{url}/nowhere", timeout=20)
        process.terminate()
        _, said = process.communicate(timeout=60)

    lines = [json.loads(line) for line in said.splitlines()]
    (request,) = lines_of(lines)
    assert (True, "not_found") == (request["worker"] in (1, 2), request["code"])
