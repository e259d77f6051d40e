"""The browser's side of docs/backends.md, in a page of another origin with a backend of its own.

The page has no key: its backend, which is the recipe for FastAPI, gives it secrets.
"""

import os
import subprocess
from pathlib import Path

import httpx2
import pytest
from playwright.async_api import Page, Route

from app.testing.upstream import DONE, FINISH, Step, head, send, serve_upstream, text, wait
from tests.clients.test_backends import DOCUMENT, fastapi_app
from tests.e2e.asking import Asking
from tests.needs import file, program
from tests.serving import Relay, serve_relay
from tests.test_docs import block
from tests.waiting import until

pytestmark = [pytest.mark.proving, pytest.mark.browser]

ROOT = Path(__file__).parents[2]
MODULES = ROOT / "node_modules"
BASE = "http://localhost:8000"
APP = "http://app.test"
MORE_FLAGS = (
    "--host-resolver-rules=MAP app.test 127.0.0.1",
    # Chromium's own question before a page may reach this machine, which not all browsers ask.
    "--disable-features=LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests",
)
EXPECTED_ERRORS = ("net::ERR_",)
ANSWER = "せせらぎ🌊 from the relay"
SCRIPT: list[Step] = [head(), send(text("せせらぎ🌊 ")), wait(0.1), send(text("from the relay") + FINISH + DONE)]  # fmt: skip
SEND = """
const id = 'chat_4fJ9qXw0V1cT8mYb';
const messages = [{ id: 'm1', role: 'user', parts: [{ type: 'text', text: 'Hi' }] }];
const answer = await transport.sendMessages({ trigger: 'submit-message', chatId: id, messages });
for await (const chunk of answer) document.body.append(chunk.delta ?? '');
// What a page has had whole is not sent again.
document.body.dataset.rest = String(await transport.reconnectToStream({ chatId: id }));
"""


def bundle(name: str, folder: Path, relay: Relay, *, more: str) -> str:
    """Build the script of a page from a block of the document; only the address and the model differ."""
    program("node")
    esbuild = file(MODULES / ".bin" / "esbuild", how="run npm ci")
    code = block(name, DOCUMENT)
    assert 1 == code.count(BASE)
    code = code.replace(BASE, relay.url).replace("'demo'", "'openai/gpt-6-luna'")
    (folder / "page.js").write_text(code + more, encoding="utf-8")
    (folder / "secret.js").write_text(block("secret", DOCUMENT), encoding="utf-8")
    (folder / "seseragi.js").write_bytes((ROOT / "static" / "seseragi.js").read_bytes())
    command = [str(esbuild), str(folder / "page.js"), "--bundle", "--format=esm"]
    environ = {**os.environ, "NODE_PATH": str(MODULES)}
    done = subprocess.run(command, env=environ, capture_output=True, check=True, text=True)
    return done.stdout


async def open_app(page: Page, script: str) -> None:
    """Open the page of the app, where Mr 1234 is signed in."""
    transport = httpx2.ASGITransport(fastapi_app(block("fastapi", DOCUMENT)))

    async def serve(route: Route) -> None:
        path = route.request.url.removeprefix(APP)
        if path == "/page.js":
            await route.fulfill(content_type="text/javascript; charset=utf-8", body=script)
        elif path == "/":
            body = "<!doctype html><meta charset=utf-8><body><script type=module src=/page.js></script>"
            await route.fulfill(content_type="text/html; charset=utf-8", body=body)
        else:
            async with httpx2.AsyncClient(transport=transport, base_url=APP) as client:
                reply = await client.request(route.request.method, path, headers={"x-user": "1234"})
            await route.fulfill(status=reply.status_code, body=reply.content)

    await page.route(f"{APP}/**", serve)
    await page.goto(APP)


@pytest.mark.parametrize("client", ["seseragi", "openai", "usechat"])
async def test_a_page_without_a_key_is_answered(page, client, tmp_path, monkeypatch):
    asking = Asking()
    more = SEND if client == "usechat" else ""
    async with (
        serve_upstream() as upstream,
        serve_relay(upstream, watch=asking, cors_origins=APP) as relay,
    ):
        upstream.script = SCRIPT
        monkeypatch.setenv("RELAY_URL", relay.url)
        monkeypatch.setenv("RELAY_KEY", "ssk_backend")
        script = bundle(client, tmp_path, relay, more=more)
        await open_app(page, script)
        await page.wait_for_function(f"() => document.body.innerText.trim() === '{ANSWER}'")
        if more:
            await until(lambda: ("GET", "ek_1") in asking.kinds)
            await page.wait_for_function("() => document.body.dataset.rest === 'null'")

    assert ["1234"] == asking.users
    assert {"ssk_backend", "ek_1"} == {given for _, given in asking.shown}
    assert 1 == len(upstream.calls)
