"""EventSource as browsers have it, over connections that are cut on the way.

The cuts come after the head of the response. Chromium takes a head that ends early with a
FIN for a complete one, misses the content type in it and gives up for good, as the standard
says; no server can do anything about that.
"""

import asyncio
import json
from pathlib import Path

import pytest

from tests.cutting import cutting_proxy, randomly
from tests.e2e.react_page import serve_page
from tests.e2e.talk import paced
from tests.serving import HELLO, Relay, serve_relay

pytestmark = [pytest.mark.proving, pytest.mark.browser]

EXPECTED_ERRORS = ("net::ERR_",)

ROOT = Path(__file__).parents[2]
WORDS = [f"{number} せせらぎ🌊 " for number in range(24)]
TYPES = [
    *("stream.start", "stream.target", "text.start", "text.delta", "text.end", "choice.end"),
    "stream.end",
]
READ = """
url => new Promise((done) => {
  const seen = [], opened = [], lost = [];
  const source = new EventSource(url);
  source.onopen = () => opened.push(performance.now());
  source.onerror = () => {
    if (source.readyState === EventSource.CLOSED) done({seen, opened, lost});
    else lost.push(performance.now());
  };
  for (const type of TYPES)
    source.addEventListener(type, (event) => seen.push([event.lastEventId, JSON.parse(event.data)]));
})
""".replace("TYPES", json.dumps(TYPES))


async def start(relay: Relay) -> dict:
    reply = await relay.client.post("/v1/chat", json=HELLO, headers={"prefer": "respond-async"})
    return reply.json()


def check(stream: str, seen: list) -> None:
    """Every event once, in order."""
    assert [f"{stream}.{number}" for number in range(1, len(seen) + 1)] == [
        name for name, _ in seen
    ]
    assert "stream.end" == seen[-1][1]["type"]
    assert "completed" == seen[-1][1]["status"]
    assert WORDS == [event["text"] for _, event in seen if event["type"] == "text.delta"]


@pytest.mark.parametrize("how", ["fin", "rst"])
async def test_browser_comes_back_by_itself_and_stops_at_the_end(page, upstream, how):
    async with serve_relay(upstream, retry_ms=500) as relay:
        upstream.script = paced(WORDS)
        accepted = await start(relay)
        async with (
            cutting_proxy(relay.port, randomly(7, least=1020, most=2400, hows=(how,))) as proxy,
            serve_page("") as url,  # which has no policy of its own, as those of the relay have
        ):
            proxy.mercy = b"event: stream.end"  # or the head of the 204 may be cut
            await page.goto(url)
            # The source is never closed by the page: the 204 at the end has to stop it.
            found = await asyncio.wait_for(
                page.evaluate(READ, f"http://127.0.0.1:{proxy.port}{accepted['events_url']}"), 120
            )

        check(accepted["id"], found["seen"])
        assert proxy.cuts > 2
        assert 1 == len(upstream.calls)
        waits = [
            opened - max(lost for lost in found["lost"] if lost < opened)
            for opened in found["opened"][1:]
        ]
        assert min(waits) >= 490, "came back before the server's retry"
