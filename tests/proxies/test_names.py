"""A public name in front of the relay: the proxy hands it on, and the settings know it."""

import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from app.testing.upstream import answer, serve_upstream
from tests.proxies.programs import nginx, plain_nginx
from tests.proxies.test_others import haproxy
from tests.serving import HELLO, serve_relay

pytestmark = pytest.mark.proving

NAME = "chat.example.com"


@contextlib.asynccontextmanager
async def through(name: str, folder: Path, port: int) -> AsyncIterator[httpx2.AsyncClient]:
    """Run a proxy in front of a relay, and give a client of it."""
    match name:
        case "nginx":
            running = nginx(folder, port)
        case "haproxy":
            running = haproxy(folder, port)
        case _:
            running = plain_nginx(folder, port)
    async with running as proxy:
        url = proxy.http or proxy.https
        trust = ssl.create_default_context(cafile=str(proxy.authority)) if proxy.https else True
        async with httpx2.AsyncClient(base_url=url, verify=trust, trust_env=False) as client:
            yield client


def page(host: str, origin: str | None = None) -> dict[str, str]:
    return {"host": host, "origin": origin or f"https://{host}"}


@pytest.mark.parametrize("proxy", ["nginx", "haproxy"])
async def test_page_of_an_allowed_name_is_answered_and_no_other(proxy, tmp_path):
    settings: dict[str, Any] = {"host": "0.0.0.0", "allowed_hosts": NAME, "auth": "none"}  # noqa: S104  (only said, not bound)
    async with serve_upstream() as upstream, serve_relay(upstream, **settings) as relay:
        upstream.script = answer("fine")
        async with through(proxy, tmp_path, relay.port) as client:
            for headers, status in [
                (page(NAME), 200),
                (page(f"{NAME}:8443"), 200),
                (page("evil.test"), 403),
                (page(NAME, "https://evil.test"), 403),
                (page(NAME, "http://localhost:5173"), 403),
            ]:
                reply = await client.post("/v1/chat", json=HELLO, headers=headers)

                assert status == reply.status_code, headers
    assert 2 == len(upstream.calls)


async def test_name_that_nobody_allowed_is_refused_with_the_setting(tmp_path):
    async with serve_relay() as relay, through("nginx", tmp_path, relay.port) as client:
        reply = await client.get("/v1/models", headers={"host": NAME})

    error = reply.json()["error"]
    assert (403, "forbidden") == (reply.status_code, error["code"])
    assert "allowed_hosts" in error["message"]


async def test_proxy_that_hands_on_no_name_needs_the_origins_of_its_pages(tmp_path):
    """nginx without `proxy_set_header Host` says the relay's address."""
    for origins, status in (("", 403), (f"https://{NAME}", 200)):
        settings: dict[str, Any] = {"cors_origins": origins, "local_origins": False}
        async with (
            serve_relay(**settings) as relay,
            through("plain", tmp_path, relay.port) as client,
        ):
            body = {**HELLO, "stream": False, "max_tokens": 2}
            reply = await client.post("/v1/chat", json=body, headers=page(NAME))

        assert status == reply.status_code
