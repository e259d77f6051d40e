"""Responses over WebSocket from a page of another site, by a client secret, as browsers do it."""

import asyncio
from pathlib import Path

import httpx2
import pytest
from playwright.async_api import Page

from app.identity.keys import digest
from app.testing.upstream import answer
from tests.serving import serve_relay

pytestmark = [pytest.mark.proving, pytest.mark.browser]

EXPECTED_ERRORS = ("WebSocket connection to",)

PAGE = b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 6\r\n\r\n<p>a\r\n"
TALK = """
([url, protocols]) => new Promise((done) => {
  const socket = new WebSocket(url, protocols), types = [];
  socket.onopen = () =>
    socket.send(JSON.stringify({type: "response.create", model: "openai/m", input: "hello"}));
  socket.onclose = () => done([socket.protocol, types]);
  socket.onmessage = ({data}) => {
    types.push(JSON.parse(data).type);
    if (types.at(-1) === "response.completed") socket.close();
  };
})
"""


async def show(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(PAGE)
    await writer.drain()
    writer.close()


@pytest.mark.parametrize("allowed", [True, False])
async def test_a_page_talks_by_a_client_secret(page: Page, upstream, tmp_path: Path, allowed: bool):
    upstream.script = answer("a", "b")
    key = "ssk_" + "k" * 43
    row = f'[[key]]\nname = "k"\nsha256 = "{digest(key)}"\nroles = ["client_secrets"]\n'
    (tmp_path / "seseragi.toml").write_text(row)
    environ = {"SESERAGI_CONFIG": str(tmp_path / "seseragi.toml")}
    site = await asyncio.start_server(show, "127.0.0.1", 0)
    own = f"http://localhost:{site.sockets[0].getsockname()[1]}"
    origins = own if allowed else "http://localhost:8"
    async with (
        site,
        serve_relay(
            upstream, environ=environ, cors_origins=origins, local_origins="false"
        ) as relay,
    ):
        made: httpx2.Response = await relay.client.post(
            "/v1/client_secrets",
            json={"user": "ann", "origins": [origins]},
            headers={"authorization": f"Bearer {key}"},
        )
        secret = made.json()["value"]
        await page.goto(own)
        url = relay.url.replace("http", "ws", 1) + "/v1/responses"
        key_protocol = f"openai-insecure-api-key.{secret}"
        protocol, types = await page.evaluate(TALK, [url, ["realtime", key_protocol]])

    assert ("realtime" if allowed else "") == protocol
    assert (["response.created"] if allowed else []) == types[:1]
    assert (["response.completed"] if allowed else []) == types[-1:]
