"""The official Node clients beside their generations: vectors, counts, models, failures."""

import json
from pathlib import Path

import pytest

from tests.clients.programs import ROOT, run
from tests.needs import file, program
from tests.serving import VECTOR, serve_script

pytestmark = pytest.mark.proving

HERE = Path(__file__).parent


async def test_the_node_clients_find_all_that_is_beside_an_answer() -> None:
    node = program("node")
    for package in ("openai", "@anthropic-ai/sdk"):
        file(ROOT / "node_modules" / package / "package.json", how="run npm ci")
    async with serve_script(VECTOR, demo_pace=0) as (relay, _):
        found = json.loads(await run(node, HERE / "beside.mjs", relay.url))

    assert [[0.5, -0.25]] == found["vectors"]
    assert found["completion"] == found["streamed"] != ""
    assert 128_000 == found["models"]
    assert found["input"] > 0 < found["counted"]
    assert ["demo", "2026-01-01T00:00:00Z"] in found["claudes"]
    assert ["NotFoundError", "NotFoundError"] == [name for name, _ in found["failures"]]
    assert all(
        one.startswith("req_") for one in found["ids"] + [one for _, one in found["failures"]]
    )
