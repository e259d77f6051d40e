"""Free connections of each owner: an upstream that answers twice shifts nobody else's answers."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from app.identity.principal import Principal
from app.testing.upstream import DONE, FINISH, text
from app.upstreams import transport as transport_module
from app.upstreams.endpoints import Upstream
from app.upstreams.http import fetch, open_client
from app.upstreams.http_call import CallUrl, HttpCall
from app.upstreams.targets import build
from app.upstreams.transport import Transport, owner
from tests.identities import bearer, known
from tests.serving import serve_relay
from tests.tcp_server import serve_tcp
from tests.waiting import until

Answer = tuple[str, bytes]
"""A media type and a body."""


class Shifted:
    """Answers the first request on a connection twice, so that each later one gets the answer to
    the request before it.

    An answer is the text after `say ` in the request. The second one comes once the next request
    is there, so that the connection looks free until then.
    """

    def __init__(self) -> None:
        self.base_url = ""
        self.connections = self.open = 0
        self.heads: list[bytes] = []

    def render(self, path: str, said: str) -> Answer:
        if "chat/completions" in path:
            return "text/event-stream", (text(said) + FINISH + DONE).encode()
        if "embeddings" in path:
            found = {"data": [{"index": 0, "embedding": [1.0]}], "model": said}
            return "application/json", json.dumps(found).encode()
        field = "note" if path.endswith("/hook") else "said"
        return "application/json", json.dumps({field: said}).encode()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open += 1
        before: bytes | None = None
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                self.heads.append(head)
                size = head.partition(b"content-length: ")[2].partition(b"\r")[0]
                content = await reader.readexactly(int(size or b"0"))
                method, path, _ = head.split(b" ", 2)
                if method == b"GET":  # the list of models
                    writer.write(b"HTTP/1.1 404 No\r\ncontent-length: 0\r\n\r\n")
                    continue
                said = content.partition(b"say ")[2].partition(b" ")[0].decode()
                kind, body = self.render(path.decode(), said)
                answer = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}"
                now = answer.encode() + b"\r\n\r\n" + body
                writer.write(before or now)
                before = now
        self.open -= 1


@contextlib.asynccontextmanager
async def serve_shifted() -> AsyncIterator[Shifted]:
    shifted = Shifted()
    async with serve_tcp(shifted.serve) as port:
        shifted.base_url = f"http://127.0.0.1:{port}/v1"
        yield shifted


class Client:
    def __init__(self, shifted: Shifted, *, shared: bool = False) -> None:
        self.http = open_client(connect_timeout_s=5, mounts={}, shared=shared)
        self.url = CallUrl.of(httpx2.URL(shifted.base_url))

    async def ask(self, name: str, headers: dict[str, str] | None = None) -> str:
        owner.set(name)
        call = HttpCall("POST", self.url, headers or {}, f"say {name} ".encode())
        body = await fetch(self.http, call, upstream="up", max_bytes=1000)
        said: str = json.loads(body)["said"]
        return said


@contextlib.asynccontextmanager
async def opened(*, shared: bool = False) -> AsyncIterator[tuple[Shifted, Client]]:
    async with serve_shifted() as shifted:
        client = Client(shifted, shared=shared)
        async with client.http:
            yield shifted, client


NAMES = [f"owner-{number}" for number in range(5)]


async def test_each_owner_gets_answers_of_its_own_only() -> None:
    async with opened() as (shifted, client):
        for _ in range(40):
            for name in NAMES:
                assert name == await client.ask(name)

        assert len(NAMES) == shifted.connections  # each is used again


async def test_owners_share_connections_if_the_settings_say_so() -> None:
    async with opened(shared=True) as (shifted, client):
        found = [await client.ask(name) == name for _ in range(40) for name in NAMES]

        assert 1 == shifted.connections
        assert 1 == sum(found)  # the rest are those of another owner


async def test_owners_at_the_same_time_get_answers_of_their_own() -> None:
    async with opened() as (_, client):

        async def ask_often(name: str) -> None:
            for _ in range(20):
                assert name == await client.ask(name)

        async with asyncio.TaskGroup() as group:
            for name in NAMES * 3:
                group.create_task(ask_often(name))


async def test_free_connections_of_all_owners_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transport_module, "SURPLUS_S", 0.1)
    monkeypatch.setattr(transport_module, "MAX_KEPT", 3)
    async with opened() as (shifted, client):
        for name in NAMES:
            await client.ask(name)
        assert 5 == shifted.open
        await client.ask(NAMES[0])  # which is the last one then
        await until(lambda: shifted.open == 3)
        for name in (NAMES[4], NAMES[3], NAMES[0]):
            assert name == await client.ask(name)
        assert 5 == shifted.connections


async def test_pools_that_are_empty_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport_module, "SURPLUS_S", 0.05)
    monkeypatch.setattr(transport_module, "KEEPALIVE_S", 0.05)
    async with opened() as (shifted, client):
        for number in range(30):
            await client.ask(f"owner-{number}")
        found = client.http._transport
        assert isinstance(found, Transport)
        await until(lambda: not found._free)
        await until(lambda: shifted.open == 0)


@pytest.mark.parametrize("times", [1, 3])
async def test_call_that_asks_to_close_has_a_connection_of_its_own(times: int) -> None:
    async with opened() as (shifted, client):
        await client.ask("a")
        for _ in range(times):
            assert "a" == await client.ask("a", {"connection": "close"})
        await until(lambda: shifted.open == 1)

        assert 1 + times == shifted.connections


async def test_upstream_without_keepalive_is_asked_to_close() -> None:
    for keepalive, expected in ((True, None), (False, "close")):
        upstream = Upstream("up", "http://up.invalid/v1", keepalive=keepalive)
        call = await build(upstream, "POST", upstream.base_url, content=b"{}")
        assert expected == call.headers.get("connection")


OWNERS = {
    "ann": Principal(tenant="one", user="ann"),
    "bob": Principal(tenant="one", user="bob"),
    "cid": Principal(tenant="two", user="ann"),
    "key": Principal(tenant="two", key="k"),
}
MODEL = "openai/m-1"


def messages(name: str) -> dict[str, Any]:
    return {"model": MODEL, "messages": [{"role": "user", "content": f"say {name} "}]}


def asks(name: str) -> dict[str, tuple[str, dict[str, Any]]]:
    return {
        "stream": ("/v1/chat/completions", {**messages(name), "stream": True}),
        "own stream": ("/v1/chat", messages(name)),
        "JSON": ("/v1/chat/completions", messages(name)),
        "embeddings": ("/v1/embeddings", {"model": MODEL, "input": f"say {name} "}),
        "forwarded": ("/v1/moderations", {"model": MODEL, "input": f"say {name} "}),
    }


@pytest.mark.parametrize("kind", asks(""))
async def test_no_tenant_gets_the_answer_of_another_at_any_door(kind: str) -> None:
    async with (
        serve_shifted() as shifted,
        serve_relay(shifted, authenticator=known(**OWNERS)) as relay,  # type: ignore[arg-type]
    ):
        for _ in range(4):
            for name in OWNERS:
                path, body = asks(f"for-{name}")[kind]
                reply = await relay.client.post(path, json=body, headers=bearer(name))
                assert 200 == reply.status_code, reply.text
                others = [one for one in OWNERS if one != name and f"for-{one}" in reply.text]
                assert f"for-{name}" in reply.text
                assert [] == others

        assert len(OWNERS) <= shifted.connections < 4 * len(OWNERS)


CONFIG = """
[upstream.openai]
base_url = "{url}"
keepalive = {keepalive}
[[route]]
name = "fast"
targets = ["openai/m-1"]
[[hook]]
url = "{hook}/hook"
on = ["request"]
"""


@pytest.mark.parametrize("keepalive", ["true", "false"])
async def test_no_tenant_gets_the_verdict_of_a_hook_on_another(
    keepalive: str, tmp_path: Path
) -> None:
    config = tmp_path / "seseragi.toml"
    async with serve_shifted() as shifted, serve_shifted() as hook:
        urls = {"url": shifted.base_url, "hook": hook.base_url}
        config.write_text(CONFIG.format(**urls, keepalive=keepalive))
        async with serve_relay(config=config, authenticator=known(**OWNERS)) as relay:
            for _ in range(3):
                for name in OWNERS:
                    body = {**messages(f"for-{name}"), "model": "fast"}
                    reply = await relay.client.post("/v1/chat", json=body, headers=bearer(name))
                    assert 2 <= reply.text.count(f"for-{name}"), reply.text
                    assert 1 == len([one for one in OWNERS if f"for-{one}" in reply.text])

        chats = [head.lower() for head in shifted.heads if b"chat/completions" in head]
        assert 3 * len(OWNERS) == len(chats)
        closing = [head for head in chats if b"\r\nconnection: close\r\n" in head]
        assert closing == ([] if keepalive == "true" else chats)
        calls = len(OWNERS) if keepalive == "true" else len(chats)
        assert (len(OWNERS), calls) == (hook.connections, shifted.connections)


async def test_setting_lets_tenants_share_connections() -> None:
    async with (
        serve_shifted() as shifted,
        serve_relay(
            shifted,  # type: ignore[arg-type]
            authenticator=known(**OWNERS),
            share_upstream_connections=True,
        ) as relay,
    ):
        for name in OWNERS:
            path, body = asks(f"for-{name}")["forwarded"]
            await relay.client.post(path, json=body, headers=bearer(name))

        assert 1 == shifted.connections
