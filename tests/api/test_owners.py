"""What is another's is not there: every route that names a stream, asked by somebody else.

Who asks is said by a header here; nothing but the tests reads that.
"""

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from starlette.requests import Request
from starlette.routing import Route

from app.api import principal
from app.generation.hub import Hub
from app.identity.principal import ANYONE, Principal
from app.main import build_hub, build_routes
from app.settings import load_settings
from tests.api.test_openai_responses import HI
from tests.serving import HELLO, Relay, serve_relay
from tests.upstream import serve_upstream

M = "openai/m"

ME, OTHER = Principal("t", "me"), Principal("t", "other")

# Those that name no stream: what they start is the asker's own.
NAMELESS = {
    ("POST", path) for path in ("/v1/chat", "/v1/chat/completions", "/v1/messages", "/v1/responses")
} | {
    *(("POST", "/v1/ui/chat"), ("POST", "/v1/ag-ui"), ("POST", "/v1/completions")),
    *(("POST", "/v1/messages/count_tokens"), ("POST", "/v1/responses/input_tokens")),
    ("POST", "/v1/embeddings"),
    *(("GET", path) for path in ("/v1/models", "/v1/models/{model:path}", "/healthz", "/readyz")),
}
# What each of the others is answered with where there is no such stream.
NAMING = {
    ("GET", "/v1/streams/{stream}/events"): 404,
    ("GET", "/v1/streams/{stream}"): 404,
    ("DELETE", "/v1/streams/{stream}"): 404,
    ("POST", "/v1/streams/{stream}/cancel"): 404,
    ("GET", "/v1/responses/{response}"): 404,
    ("DELETE", "/v1/responses/{response}"): 404,
    ("GET", "/v1/responses/{response}/input_items"): 404,
    ("POST", "/v1/responses/{response}/cancel"): 404,
    ("GET", "/v1/ui/chat/{chat:path}/stream"): 204,
    ("POST", "/v1/ui/chat/{chat:path}/stop"): 204,
}
STARTS = sorted(
    path
    for _, path in NAMELESS
    if path
    in (
        "/v1/chat",
        "/v1/chat/completions",
        "/v1/messages",
        "/v1/responses",
        "/v1/ui/chat",
        "/v1/ag-ui",
        "/v1/completions",
    )
)


@pytest.fixture
async def relay(monkeypatch) -> AsyncIterator[Relay]:
    def by_header(request: Request) -> Principal:
        return {"me": ME, "other": OTHER}.get(request.headers.get("x-test", ""), ANYONE)

    monkeypatch.setattr(principal, "principal_of", by_header)
    async with serve_upstream() as upstream, serve_relay(upstream, default_model=M) as relay:
        upstream.script = HI
        yield relay


async def ask(relay: Relay, who: str, method: str, path: str, **how: Any) -> httpx2.Response:
    headers = {**how.pop("headers", {}), "x-test": who, "x-request-id": "req"}
    return await relay.client.request(method, path, headers=headers, **how)


def body_of(path: str) -> dict[str, Any]:
    message = {"role": "user", "content": "hello"}
    match path:
        case "/v1/responses":
            return {"model": M, "input": "hello", "stream": True}
        case "/v1/completions":
            return {"model": M, "prompt": "hello", "max_tokens": 99, "stream": True}
        case "/v1/ui/chat":
            parts = [{"type": "text", "text": "hello"}]
            return {"id": "a chat", "messages": [{"id": "1", "role": "user", "parts": parts}]}
        case "/v1/ag-ui":
            messages = [{**message, "id": "1"}]
            more: dict[str, Any] = {"state": {}, "tools": [], "context": [], "forwardedProps": {}}
            return {"threadId": "a", "runId": "b", "messages": messages, **more}
        case _:
            return {"model": M, "messages": [message], "max_tokens": 99, "stream": True}


def test_every_route_is_known_here():
    """A new one belongs into a row above: it names a stream, or it does not."""
    settings = load_settings({})
    hub = build_hub(settings)
    found = {
        (method, route.path)
        for route in build_routes(settings, hub)
        if isinstance(route, Route)
        for method in (route.methods or set()) - {"HEAD"}
        if route.path.startswith(("/v1", "/health", "/ready"))
    }

    assert found == NAMELESS | set(NAMING)


def test_hub_itself_names_no_stream():
    """What starts, reads and ends a stream is reached by a principal only, or is a type error."""
    public = {name for name in dir(Hub) if not name.startswith("_")}

    assert public == {
        *("streams_of", "ask", "models", "health", "readiness"),
        *("open", "close", "drain", "drain_once", "stop_now"),
    }


@pytest.mark.parametrize(("method", "path"), sorted(NAMING))
async def test_stream_of_another_is_answered_as_none(relay, method: str, path: str):
    started = await ask(relay, "me", "POST", "/v1/responses", json=body_of("/v1/responses"))
    response = json.loads(started.text.partition("data: ")[2].partition("\n")[0])["response"]["id"]
    chat = await ask(relay, "me", "POST", "/v1/ui/chat", json=body_of("/v1/ui/chat"))
    assert started.status_code == chat.status_code == 200
    names = {"{stream}": started.headers["stream-id"], "{response}": response}
    names["{chat:path}"] = "a%20chat"
    mine, none = path, path
    for place, name in names.items():
        mine, none = mine.replace(place, name), none.replace(place, f"{name[:-4]}none")
    for who in ("other", "nobody"):
        of_mine = await ask(relay, who, method, mine)
        of_none = await ask(relay, who, method, none)
        name = next(name for place, name in names.items() if place in path)
        assert NAMING[method, path] == of_mine.status_code == of_none.status_code
        assert of_mine.text.replace(name, f"{name[:-4]}none") == of_none.text
    assert 400 > (await ask(relay, "me", method, mine)).status_code
    if method == "DELETE":  # nor is it told to others that there was one
        assert 404 == (await ask(relay, "other", method, mine)).status_code


@pytest.mark.parametrize("path", STARTS)
async def test_key_of_another_starts_a_stream_of_its_own(relay, path: str):
    streams: dict[str, str] = {}
    for who in ("me", "other", "nobody", "me"):
        reply = await ask(
            relay, who, "POST", path, json=body_of(path), headers={"idempotency-key": "a-key"}
        )
        assert reply.status_code == 200, reply.text
        streams.setdefault(who, reply.headers["stream-id"])
        assert streams[who] == reply.headers["stream-id"]

    assert 3 == len(set(streams.values()))


@pytest.mark.parametrize("path", STARTS)
async def test_cursor_of_another_is_not_read_on(relay, path: str):
    started = await ask(relay, "me", "POST", path, json=body_of(path))
    cursor = f"{started.headers['stream-id']}.1"
    for who in ("other", "nobody"):
        headers = {"last-event-id": cursor}
        reply = await ask(relay, who, "POST", path, json=body_of(path), headers=headers)
        assert reply.status_code in (400, 404), reply.text
        assert "hello" not in reply.text


@pytest.mark.parametrize("field", ["previous_response_id", "item_reference"])
async def test_response_of_another_is_not_gone_on_from(relay, field: str):
    first = await ask(relay, "me", "POST", "/v1/responses", json={"model": M, "input": "hi"})
    answer = first.json()
    reference = {"type": "item_reference", "id": answer["output"][0]["id"]}
    body: dict[str, Any] = {"model": M, "input": [{"role": "user", "content": "more"}]}
    if field == "previous_response_id":
        body["previous_response_id"] = answer["id"]
    else:
        body["input"].insert(0, reference)
    for who in ("other", "nobody"):
        reply = await ask(relay, who, "POST", "/v1/responses", json=body)
        assert "not found" in reply.json()["error"]["message"]
    assert 200 == (await ask(relay, "me", "POST", "/v1/responses", json=body)).status_code


def test_owner_is_the_user_whatever_the_key_and_nobody_else():
    owners = [
        who.owner
        for who in (
            *(Principal("t", "u", "k1"), Principal("t", "u", "k2")),
            *(Principal("t", "", "k1"), Principal("t", "k1"), Principal("t", "", "")),
            *(Principal("t:user", "u"), Principal("t", "user:u"), Principal("", "u"), ANYONE),
        )
    ]

    assert owners[0] == owners[1]
    assert 8 == len(set(owners))
    assert "" == owners[-1]


async def test_chat_started_natively_is_read_by_its_own(relay):
    reply = await ask(relay, "me", "POST", "/v1/chat", json={**HELLO, "model": M})
    url = f"/v1/streams/{reply.headers['stream-id']}/events"

    assert reply.text.count("event:") == (await ask(relay, "me", "GET", url)).text.count("event:")
