"""A relay that stood still for longer than a deadline reads what has come meanwhile."""

import json
import os
import signal
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from app.testing import Relay, start_relay
from app.testing.upstream import DONE, FINISH, Hold, Step, head, send, text, wait
from tests.leaks import children

pytestmark = pytest.mark.proving

SILENT_S = 0.5
STANDS_STILL_S = 1.5
"""Longer than the upstream may be silent, and than it takes to send the rest."""


@pytest.fixture(scope="module")
def relay() -> Iterator[tuple[Relay, int]]:
    """Start the command, with the number of its process."""
    before = children()
    times = {"idle_timeout_s": SILENT_S, "event_gap_timeout_s": SILENT_S, "attempts": 1}
    with start_relay(settings=times) as relay:
        (process,) = children() - before
        yield relay, process


def ask(relay: Relay, process: int, script: list[Step]) -> list[dict[str, Any]]:
    """Read an answer of a relay that is stopped after its first piece of text."""
    relay.upstream.script = script
    body = {"model": "scripted/any", "messages": [{"role": "user", "content": "hi"}]}
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(f"{relay.url}/v1/chat", json.dumps(body).encode(), headers)
    found: list[dict[str, Any]] = []
    stopped = False
    with urllib.request.urlopen(request, timeout=20) as reply:
        for line in reply:
            if line.startswith(b"data: "):
                found.append(json.loads(line[6:]))
            if found and found[-1]["type"] == "text.delta" and not stopped:
                stopped = True
                time.sleep(0.1)  # it waits for the next piece
                os.kill(process, signal.SIGSTOP)
                time.sleep(STANDS_STILL_S)
                os.kill(process, signal.SIGCONT)
    return found


@pytest.mark.parametrize("number", range(5))
def test_what_came_meanwhile_counts(relay: tuple[Relay, int], number: int):
    pieces = [step for piece in "abcdefgh" for step in (send(text(piece)), wait(0.25))]
    events = ask(*relay, [head(), *pieces, send(FINISH + DONE)])

    assert "completed" == events[-1]["status"]
    assert "abcdefgh" == "".join(e["text"] for e in events if e["type"] == "text.delta")


def test_upstream_that_is_silent_is_called_so_all_the_same(relay: tuple[Relay, int]):
    events = ask(*relay, [head(), send(text("a")), Hold()])

    assert ("failed", "upstream_timeout") == (events[-1]["status"], events[-1]["error"]["code"])
