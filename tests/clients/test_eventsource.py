"""Libraries that read event streams and come back by themselves, cut after every byte.

What is lost or comes twice with one of them is lost or doubled in somebody's page.
"""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from app.testing.upstream import DONE, FINISH, head, send, serve_upstream, text
from tests.needs import file, program
from tests.serving import HELLO, read_messages, serve_relay

pytestmark = pytest.mark.proving

FOLDER = Path(__file__).parent / "eventsource"

BEFORE = 3
"""The library begins after so many events, with the cursor in its URL, and goes on after it."""

LIBRARIES: dict[str, str | None] = {
    "eventsource2": r"\n(id: .*\n)\n",
    "eventsource3": None,
    "eventsource5": None,
    "launchdarkly-eventsource": None,
    "event-source-polyfill": None,
    "reconnecting-eventsource": None,
    "@microsoft/fetch-event-source": r"\nid: .*\n()\n",
    "eventsource-client": None,
}
"""Each with what a cut may not fall into (group 1 and its ends), where no server can mend it.

eventsource 2 puts the data of half a frame before that of the next one. fetch-event-source
takes an id at its line end, which leaves it one byte of a frame to lose the frame by.
"""


def hopeless(body: str, pattern: str) -> set[int]:
    """Return the numbers of bytes after which a cut loses something whatever is sent."""
    return {
        len(body[:place].encode())
        for found in re.finditer(pattern, body)
        for place in range(found.start(1), found.end(1) + 1)
    }


async def run(library: str, url: str) -> dict[str, Any]:
    process = await asyncio.create_subprocess_exec(
        program("node"), str(FOLDER / "read.mjs"), library, url, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await asyncio.wait_for(process.communicate(), 240)
    assert process.returncode == 0
    found: dict[str, Any] = json.loads(out)
    return found


async def test_libraries_that_are_cut_anywhere_have_each_event_once():
    """All of them at once: what takes long is that they wait before they come back."""
    for library in LIBRARIES:
        file(FOLDER / "node_modules" / library / "package.json", how=f"run npm ci in {FOLDER.name}")
    async with serve_upstream() as upstream, serve_relay(upstream, retry_ms=500) as relay:
        upstream.script = [head(), send(text("せ")), send(FINISH + DONE)]
        started = await relay.client.post(
            "/v1/chat", json=HELLO, headers={"prefer": "respond-async"}
        )
        url = f"{relay.url}{started.json()['events_url']}"
        async with relay.client.stream("GET", url) as reply:
            count = len(await read_messages(reply))
        found = await asyncio.gather(*(run(name, f"{url}?after={BEFORE}") for name in LIBRARIES))

    assert 4 == count - BEFORE
    faults = {name: wrong(name, one, count) for name, one in zip(LIBRARIES, found, strict=True)}
    assert {name: {} for name in LIBRARIES} == faults


def wrong(library: str, found: dict[str, Any], count: int) -> dict[int, Any]:
    """Return what was seen after the cuts that lost or doubled something, and are not excused."""
    numbers = range(BEFORE + 1, count + 1)
    pattern = LIBRARIES[library]
    excused = hopeless(found["whole"], pattern) if pattern is not None else set()
    assert (pattern is None) == (not excused)
    assert len(found["whole"].encode()) + 1 == len(found["found"])
    return {
        cut: (seen, *why)
        for cut, seen, *why in found["found"]
        if (why or [[number, True] for number in numbers] != seen) and cut not in excused
    }
