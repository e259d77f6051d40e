"""What the page of another site can do to a relay on its reader's machine: nothing.

Chromium takes `other.test` for a site of its own: its document is the attacker's, what it asks
for is real. Names that were rebound are refused by their `Host`: tests/api/test_guard.py.
"""

import asyncio
from typing import Any

import pytest
from starlette.types import ASGIApp

from app.testing.upstream import Hold, Upstream, head, send, text
from tests.serving import HELLO, Relay, serve_relay
from tests.waiting import until

pytestmark = [pytest.mark.proving, pytest.mark.browser]

MORE_FLAGS = (
    "--host-resolver-rules=MAP other.test 127.0.0.1",
    # Chromium's own question before a page may reach this machine, which not all browsers ask.
    "--disable-features=LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests",
)
EXPECTED_ERRORS = ("CORS policy", "Failed to load resource")


async def open_page(page: Any, url: str) -> None:
    """Open a page of the attacker's; what it asks for later is not touched."""

    async def answer(route: Any) -> None:
        await route.fulfill(content_type="text/html", body="<!doctype html><body>")

    await page.route(url, answer, times=1)
    await page.goto(url)


async def running(upstream: Upstream, relay: Relay) -> str:
    """Start a stream that goes on, and give its id."""
    upstream.script = [head(), send(text("a")), Hold()]
    reply = await relay.client.post("/v1/chat", json=HELLO, headers={"prefer": "respond-async"})
    stream: str = reply.json()["id"]
    return stream


class Cancels:
    """Notes the statuses that cancels are answered with: browsers show them to nobody."""

    def __init__(self) -> None:
        self.statuses: asyncio.Queue[int] = asyncio.Queue()

    def __call__(self, app: ASGIApp) -> ASGIApp:
        async def watched(scope: Any, receive: Any, send: Any) -> None:
            async def note(message: Any) -> None:
                if message["type"] == "http.response.start" and scope["path"].endswith("/cancel"):
                    self.statuses.put_nowait(message["status"])
                await send(message)

            await app(scope, receive, note)

        return watched


async def status(relay: Relay, stream: str) -> str:
    found: str = (await relay.client.get(f"/v1/streams/{stream}")).json()["status"]
    return found


ATTACKS = {
    "fetch": "url => fetch(url, {method: 'POST', mode: 'no-cors', body: 'x'}).catch(() => 0)",
    "keepalive": """url => fetch(url, {
        method: 'POST', mode: 'no-cors', keepalive: true, body: new Blob(['{}'], {type: 'text/plain'})
    }).catch(() => 0)""",
    "beacon": "url => { navigator.sendBeacon(url, 'x') }",
    "form": """url => {
        document.body.innerHTML = "<iframe name='target'></iframe><form method='POST'></form>";
        const form = document.querySelector("form");
        Object.assign(form, {action: url, target: "target"});
        form.submit();
    }""",
    # The origin of a sandbox is "null".
    "sandbox": """url => {
        const frame = document.createElement("iframe");
        frame.sandbox = "allow-scripts";
        frame.srcdoc = `<script>fetch("${url}", {method: "POST", mode: "no-cors"}).catch(() => 0)</script>`;
        document.body.append(frame);
    }""",
}


async def test_another_site_cannot_stop_a_stream(page, upstream):
    cancels = Cancels()
    async with serve_relay(upstream, watch=cancels) as relay:
        stream = await running(upstream, relay)
        await open_page(page, "http://other.test/")
        for name, attack in ATTACKS.items():
            await page.evaluate(attack, f"{relay.url}/v1/streams/{stream}/cancel")

            assert (name, 403) == (name, await asyncio.wait_for(cancels.statuses.get(), 20))
            assert (name, "running") == (name, await status(relay, stream))


async def test_development_server_of_this_machine_may_start_and_stop(page, upstream, relay):
    stream = await running(upstream, relay)
    await open_page(page, "http://localhost:1/")
    cancel = f"{relay.url}/v1/streams/{stream}/cancel"
    await page.evaluate("url => { navigator.sendBeacon(url, 'x') }", cancel)

    async def is_stopped() -> bool:
        return await status(relay, stream) != "running"

    await until(is_stopped)


async def test_allowed_site_imports_the_client_and_reads(page):
    async with serve_relay(cors_origins="http://other.test") as relay:
        await open_page(page, "http://other.test/")
        chat = """async (url) => {
            const { chat } = await import(`${url}/static/seseragi.js`);
            const messages = [{ role: "user", content: "hello" }];
            let last;
            for await (last of chat({ messages }, { url: `${url}/v1/chat` }));
            const state = await fetch(`${url}/v1/streams/${last.id.split(".")[0]}`);
            return [last.event.status, state.status, state.headers.get("request-id")?.length];
        }"""

        assert ["completed", 200, 28] == await page.evaluate(chat, relay.url)
