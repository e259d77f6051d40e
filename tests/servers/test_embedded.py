"""The relay inside another ASGI app, and without a server."""

import contextlib
import re

import httpx2
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route
from starlette.testclient import TestClient

from app.main import App, create_app
from app.settings import load_settings
from tests.serving import HELLO

SHORT = {**HELLO, "max_tokens": 3}
"""The demo writes as fast as people read: a whole answer takes five seconds."""


def relay(**settings: object) -> App:
    environ = {f"SESERAGI_{name.upper()}": str(value) for name, value in settings.items()}
    return create_app(load_settings(environ))


def ids(text: str) -> list[int]:
    return [int(found) for found in re.findall(r"^id: st_.*\.(\d+)$", text, re.MULTILINE)]


def test_every_endpoint_is_reached_by_the_test_client():
    with TestClient(relay(attempts=1)) as client:
        answer = client.post("/v1/chat", json=SHORT)
        assert '"status":"completed"' in answer.text
        assert list(range(1, len(ids(answer.text)) + 1)) == ids(answer.text)

        stream = answer.headers["stream-id"]
        again = client.get(f"/v1/streams/{stream}/events", headers={"last-event-id": "3"})
        assert ids(answer.text)[3:] == ids(again.text)
        assert "completed" == client.get(f"/v1/streams/{stream}").json()["status"]
        assert 204 == client.delete(f"/v1/streams/{stream}").status_code
        assert 410 == client.get(f"/v1/streams/{stream}").status_code

        whole = client.post("/v1/chat/completions", json={**SHORT, "model": "demo"})
        assert "length" == whole.json()["choices"][0]["finish_reason"]
        assert 400 == client.post("/v1/chat", json={"messages": 1}).status_code
        assert 503 == client.post("/v1/chat", json={**HELLO, "model": "demo-error"}).status_code
        assert "<html" in client.get("/").text


async def test_every_endpoint_is_reached_by_a_transport_within_the_process():
    app = relay()
    transport = httpx2.ASGITransport(app)
    async with (
        app.lifespan(),
        httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client,
    ):
        answer = await client.post("/v1/chat", json=SHORT)
        assert '"status":"completed"' in answer.text
        events = f"/v1/streams/{answer.headers['stream-id']}/events"
        assert ids(answer.text) == ids((await client.get(events)).text)


@pytest.mark.parametrize("kind", ["starlette", "fastapi"])
def test_mounted_relay_gives_urls_under_its_prefix(kind):
    inner = relay()

    async def own(request: Request) -> PlainTextResponse:
        return PlainTextResponse("the app's own")

    if kind == "starlette":
        app: Starlette = Starlette(
            routes=[Route("/own", own), Mount("/llm", inner)], lifespan=inner.lifespan
        )
    else:
        app = FastAPI(lifespan=inner.lifespan)
        app.add_route("/own", own)
        app.mount("/llm", inner)
    with TestClient(app) as client:
        assert "the app's own" == client.get("/own").text
        started = client.post("/llm/v1/chat", json=SHORT, headers={"prefer": "respond-async"})
        urls = started.json()
        for name in ("url", "events_url", "cancel_url"):
            assert urls[name].startswith("/llm/v1/streams/st_")
        assert started.headers["location"] == urls["url"]
        streamed = client.get(urls["events_url"])
        assert '"status":"completed"' in streamed.text
        assert streamed.headers["content-location"] == urls["events_url"]
        assert 202 == client.post(urls["cancel_url"]).status_code

        # Errors are in the dialect of the path, which is named as the relay knows it.
        missing = client.post("/llm/v1/messages/nothing", json={})
        assert "not_found_error" == missing.json()["error"]["type"]
        assert "'/v1/messages/nothing'" in missing.json()["error"]["message"]
        wrong = client.get("/llm/v1/chat")
        assert (405, "POST") == (wrong.status_code, wrong.headers["allow"])
        page = client.get("/llm/").text
        script = re.search(r'src="(static/chat.js)"', page)
        assert script is not None
        assert 200 == client.get(f"/llm/{script[1]}").status_code
        assert {"status": "ok"} == client.get("/llm/healthz").json()


def test_prefix_that_a_proxy_strips_is_in_every_url():
    with TestClient(relay(), root_path="/llm") as client:
        started = client.post("/v1/chat", json=SHORT, headers={"prefer": "respond-async"})
        assert started.json()["events_url"].startswith("/llm/v1/streams/st_")


def test_relay_whose_lifespan_is_not_run_says_what_to_do():
    client = TestClient(Starlette(routes=[Mount("/llm", relay())]))
    answer = client.post("/llm/v1/chat", json=SHORT)
    assert 500 == answer.status_code
    assert "lifespan=relay.lifespan" in answer.json()["detail"]


async def test_lifespan_that_fails_says_why_in_one_line(tmp_path, monkeypatch):
    said = []

    async def receive():
        return {"type": "lifespan.startup"}

    async def send(message):
        said.append(message)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SESERAGI_PROT", "8000")
    await create_app()({"type": "lifespan"}, receive, send)
    [message] = said
    assert "lifespan.startup.failed" == message["type"]
    assert "SESERAGI_PROT is unknown; did you mean 'SESERAGI_PORT'?" in message["message"]
    assert 1 == len(message["message"].splitlines())

    monkeypatch.delenv("SESERAGI_PROT")
    monkeypatch.setenv("SESERAGI_LOG", f"sqlite:///{tmp_path}/there/is/none.db")
    said.clear()
    with contextlib.suppress(OSError):
        await create_app()({"type": "lifespan"}, receive, send)
    [message] = said
    assert 1 == len(message["message"].splitlines())
