"""The package in Bun: client, store and testing kit, as in Node.js, and a real relay."""

import os
import sys
from pathlib import Path

import pytest

from tests.clients.programs import run
from tests.needs import missing
from tests.serving import serve_relay

pytestmark = pytest.mark.proving

HERE = Path(__file__).parent
SUITES = ("client", "credential", "resume", "store", "testing")


@pytest.fixture
def bun() -> Path | str:
    """The program that its package for npm has for this machine."""
    if given := os.environ.get("BUN"):
        return given
    found = next((HERE / "bun" / "node_modules" / "@oven").glob("*/bin/bun"), None)
    return found or missing("no bun; run npm ci --ignore-scripts --prefix tests/clients/bun")


async def test_package_does_in_bun_what_it_does_in_node(bun):
    suites = [f"./tests/js/{name}.test.mjs" for name in SUITES]
    async with serve_relay(demo_pace=0) as relay:
        asked = ("tests/clients/parts.mjs", relay.url, "demo", "demo-reasoning", "demo-tools")
        for words in (asked, ("test", "--timeout", "60000", *suites)):
            await run(bun, *words, timeout_s=240, PYTHON=sys.executable)
