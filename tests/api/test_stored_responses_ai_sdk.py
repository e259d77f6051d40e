"""The AI SDK's default provider against the relay: it refers to what the model has said before."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from app.testing.upstream import Call, Step, head, send
from tests.api.test_openai_responses import HI
from tests.api.test_stored_responses import CALLS
from tests.dialects.openai_responses.own_items import ITEMS, body
from tests.needs import file, program
from tests.serving import serve_script

pytestmark = pytest.mark.proving

FOLDER = Path(__file__).parents[1] / "clients" / "ai_sdk"


def choose(call: Call) -> Sequence[Step]:
    return CALLS if "when?" in str(call.json["messages"][-1]["content"]) else HI


@pytest.mark.parametrize("version", ["5", "6", "7"])
async def test_default_provider_refers_to_items_and_is_understood(version):
    node = program("node")
    file(FOLDER / "node_modules" / f"openai{version}", how=f"run npm ci --prefix {FOLDER}")
    async with serve_script([]) as (relay, upstream):
        upstream.choose = choose
        process = await asyncio.create_subprocess_exec(
            node,
            "turns.mjs",
            version,
            f"{relay.url}/v1",
            cwd=FOLDER,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await asyncio.wait_for(process.communicate(), 60)
        assert process.returncode == 0, err.decode()[-3000:]

        got = json.loads(out)
        assert [] == got["failures"]
        assert ["Hi 🌊"] * 4 == got["texts"]
        assert [] == got["references"][0] == got["references"][-1]
        # Only version 5 refers to calls; the later ones send them as they are.
        assert (["rs", "fc"] if version == "5" else ["rs"]) == got["references"][1]
        assert [*got["references"][1], "msg"] == got["references"][2]
        roles = [[m["role"] for m in call.json["messages"]] for call in upstream.calls]
        asked = ["user", "assistant", "tool", "assistant", "user", "assistant", "user"]
        assert [asked[:1], asked[:3], asked[:5], asked, [*asked, "assistant", "user"]] == roles
        turn = upstream.calls[-1].json["messages"]
        assert "c1" == turn[1]["tool_calls"][0]["id"] == turn[2]["tool_call_id"]
        assert "12:00" in turn[2]["content"]


@pytest.mark.parametrize("version", ["5", "6", "7"])
async def test_it_refers_to_a_search_that_the_provider_ran(version):
    node = program("node")
    file(FOLDER / "node_modules" / f"openai{version}", how=f"run npm ci --prefix {FOLDER}")
    answer = [head(), send(body(*ITEMS["a web search between two messages"]))]
    async with serve_script(answer, dialect="openai_responses") as (relay, upstream):
        process = await asyncio.create_subprocess_exec(
            *(node, "hosted.mjs", version, f"{relay.url}/v1"),
            cwd=FOLDER,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await asyncio.wait_for(process.communicate(), 60)
        assert process.returncode == 0, err.decode()[-3000:]

        got = json.loads(out)
        assert [] == got["failures"]
        assert {"tool-call", "tool-result"} <= {*got["parts"]}
        assert "Let me see.Tea." == got["text"]
        assert ["ws_1"] == [
            item["id"]
            for item in upstream.calls[1].json["input"]
            if "search" in str(item.get("type"))
        ]
