"""Who is let in, under every ASGI server: by keys, client secrets and the URLs of a stream."""

import asyncio
import contextlib
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import httpx2
import pytest

from app.identity.keys import digest
from tests.servers.programs import ROOT, SERVERS, Served, serve
from tests.serving import HELLO
from tests.watching import watching

pytestmark = pytest.mark.proving

every_server = pytest.mark.parametrize("name", SERVERS)

LONG = {**HELLO, "model": "demo-long"}

PATHS = [
    *("//v1/models", "/./v1/models", "/healthz/../v1/models", "/v1%2fmodels", "/V1/models"),
    *("/static/../v1/models", "/static/%2e%2e/v1/models", "/%2e/v1/models", "/v1/models/"),
    *("/healthz%2f..%2fv1/models", "/healthz?x", "/readyz?verbose", "/nothing", "/v1/models%00"),
]


def make_key(folder: Path, name: str, *options: str) -> str:
    made = subprocess.run(
        [sys.executable, "-m", "app", "key", "new", name, *options],
        cwd=ROOT,
        env={"PATH": "", "SESERAGI_KEYS_FILE": str(folder / "keys.json")},
        capture_output=True,
        text=True,
        check=True,
    )
    return next(word for word in made.stdout.split() if word.startswith("ssk_"))


class Keys(NamedTuple):
    """A file that all servers of the module read, and keys in it."""

    file: Path
    backend: str
    other: str


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    folder = tmp_path_factory.mktemp("keys")
    backend = make_key(folder, "backend", "--role", "client_secrets", "--tenant", "acme")
    other = make_key(folder, "other", "--tenant", "other")
    return Keys(folder / "keys.json", backend, other)


def bearer(credential: str) -> dict[str, str]:
    return {"authorization": f"Bearer {credential}"}


async def ask_raw(served: Served, head: str) -> bytes:
    """Send a head as it is; return the head of the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.write(f"{head}\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode())
    # After a denied WebSocket granian leaves the connection open.
    answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 20)
    writer.close()
    return answer


@every_server
async def test_credentials_are_asked_for_and_taken(name: str, keys: Keys, tmp_path: Path):
    backend, other = keys.backend, keys.other
    async with serve(name, tmp_path, keys_file=keys.file) as served:
        client = served.client
        assert 200 == (await client.get("/")).status_code
        refused = await client.post("/v1/messages", content=b"{}" * 50_000)
        assert "authentication_error" == refused.json()["error"]["type"]
        assert 'Bearer realm="seseragi"' == refused.headers["www-authenticate"]
        assert (401, "DENY") == (refused.status_code, refused.headers["x-frame-options"])

        made = await client.post(
            "/v1/client_secrets", json={"user": "ann"}, headers=bearer(backend)
        )
        ann = made.json()["value"]
        assert 401 == (await client.get("/v1/models", headers=bearer(f"{ann}x"))).status_code
        accepted = await client.post(
            "/v1/chat", json=LONG, headers=bearer(ann) | {"prefer": "respond-async"}
        )
        urls = accepted.json()
        for headers, status in (
            *((bearer(ann), 200), (bearer(other), 404), (bearer(backend), 404), ({}, 401)),
            *((bearer(ann) | {"x-api-key": other}, 401), ({"x-api-key": ann}, 200)),
        ):
            assert status == (await client.get(urls["url"], headers=headers)).status_code
        async with client.stream("GET", urls["events_url"]) as reply:
            assert 200 == reply.status_code
        assert (
            403 == (await client.post(urls["events_url"].replace("events", "cancel"))).status_code
        )
        stopped = await client.post(urls["cancel_url"])
        assert (202, {"id": urls["id"]}) == (stopped.status_code, stopped.json())
        state = await client.get(urls["url"], headers=bearer(ann))
        assert "cancelled" == state.json()["status"]
        await check_paths(name, served)
        await client.aclose()
        out = (await served.stop()).decode()
    assert "Traceback" not in out
    for secret in (backend, other, ann, urls["events_url"].partition("token=")[2]):
        assert secret not in out


@pytest.mark.parametrize("name", SERVERS)
async def test_watch_is_served_and_ends_with_the_server(name: str, keys: Keys, tmp_path: Path):
    key = keys.other
    settings = {"keys_file": keys.file, "drain_s": 0.5, "heartbeat_s": 1}
    async with serve(name, tmp_path, **settings) as served:
        async with watching(served.client, "?events=true", who=key) as watched:
            assert {"type": "watch.ready", "running": []} == await watched.take()
            accepted = await served.client.post(
                "/v1/chat",
                json={**LONG, "model": "demo", "max_tokens": 3},
                headers=bearer(key) | {"prefer": "respond-async"},
            )
            ended = await watched.until("stream.ended", stream=accepted.json()["id"])
            assert "completed" == ended["status"]
            assert "stream.end" == watched.told[-2]["type"]
            began, stopping = time.monotonic(), asyncio.create_task(served.stop())
            with contextlib.suppress(httpx2.HTTPError):  # where the server cuts it off
                assert await watched.take() is None
        await served.client.aclose()
        out = (await stopping).decode()
    assert time.monotonic() - began < 15
    assert "Traceback" not in out or not SERVERS[name].drains  # hypercorn's, of what it cuts off


async def check_paths(name: str, served: Served) -> None:
    """See that no spelling of a path gets around it."""
    for method in ("GET", "POST", "OPTIONS", "DELETE"):
        for path in PATHS:
            if SERVERS[name].http2:  # with a client that mends paths
                url = served.client.base_url.copy_with(raw_path=path.encode())
                status = str((await served.client.request(method, url)).status_code)
            else:
                raw = await ask_raw(served, f"{method} {path} HTTP/1.1")
                status = raw.split(b" ", 2)[1].decode()
            # A server may refuse a path; what is below /static/ is a file, or there is none.
            expected = {"401", "400"}
            if path.startswith("/static/") and method == "GET":
                expected.add("404")
            assert status in expected, (method, path)
    if SERVERS[name].http2:
        return
    upgrade = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13"
    key = "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ=="
    for path in ("/v1/chat", "/", "/static/chat.js"):
        raw = await ask_raw(served, f"GET {path} HTTP/1.1\r\n{upgrade}\r\n{key}")
        assert raw.startswith(b"HTTP/1.1 426"), raw


async def test_workers_take_what_each_other_has_signed(keys: Keys, tmp_path: Path):
    """Nothing says what to sign with: it is made up once, and not by each of them."""
    key = keys.other
    row = f'[[key]]\nname = "k"\nsha256 = "{digest(key)}"\nroles = ["client_secrets"]\n'
    (tmp_path / "seseragi.toml").write_text(row)
    async with serve(
        "command", tmp_path, workers=3, log=f"sqlite:///{tmp_path}/streams.db"
    ) as served:
        made = await served.client.post("/v1/client_secrets", headers=bearer(key))
        secret = made.json()["value"]
        for _ in range(12):  # connections, which the system spreads
            async with served.connect() as client:
                answer = await client.get("/v1/models", headers=bearer(secret))
            assert 200 == answer.status_code
