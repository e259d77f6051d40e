"""OpenAI's Node client against the relay."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from app.testing.upstream import (
    DONE,
    FINISH,
    USAGE,
    Call,
    Step,
    event,
    head,
    reply,
    send,
    text,
    wait,
)
from tests.cutting import cutting_proxy, randomly
from tests.needs import file, program
from tests.serving import serve_script

pytestmark = pytest.mark.proving

ROOT = Path(__file__).parents[2]
WORDS = [f"{number} せせらぎ🌊 " for number in range(60)]
CALL = {"index": 0, "id": "c1", "function": {"name": "now", "arguments": '{"a":1}'}}
SCRIPTS: dict[str, Sequence[Step]] = {
    "m": [head(), send(text("Hi ") + text("🌊")), send(FINISH + USAGE + DONE)],
    "busy": reply("503 Busy", "{}"),
    "cut": [head(), send(text("Hi"))],
    "paced": [
        head(),
        *(step for word in WORDS for step in (send(text(word)), wait(0.01))),
        send(FINISH + DONE),
    ],
    "calls": [
        head(),
        send(event({"content": "one"}, index=1)),
        send(event({"reasoning_content": "Hm.", "tool_calls": [CALL]})),
        send(event(finish_reason="tool_calls") + event(finish_reason="stop", index=1) + DONE),
    ],
}


def choose(call: Call) -> Sequence[Step]:
    return SCRIPTS[call.json["model"]]


async def test_node_client_gets_all_that_it_asks_for():
    node = program("node")
    file(ROOT / "node_modules" / "openai" / "package.json", how="run npm ci")
    async with serve_script([]) as (relay, upstream):
        upstream.choose = choose
        upstream.models = reply("200 OK", '{"data": [{"id": "m"}]}')
        async with cutting_proxy(relay.port, randomly(3, least=1500, most=4000)) as proxy:
            process = await asyncio.create_subprocess_exec(
                node,
                str(ROOT / "tests" / "clients" / "openai.mjs"),
                f"{relay.url}/v1",
                f"http://127.0.0.1:{proxy.port}/v1",
                stdout=asyncio.subprocess.PIPE,
            )
            out, _ = await asyncio.wait_for(process.communicate(), 60)
            assert proxy.cuts > 2
    found = json.loads(out)

    assert {"openai/m", "demo"} <= {*found["models"]}
    assert ("Hi 🌊", "Hi 🌊") == (found["chat"], found["whole"])
    assert 5 == found["usage"]["total_tokens"]
    assert [[None, '{"a":1}', "tool_calls"], ["one", None, "stop"]] == found["calls"]
    assert ["InternalServerError", "upstream_overloaded"] == found["busy"]
    assert ["BadRequestError", "invalid_request"] == found["refused"]
    assert ["APIError", "upstream_truncated"] == found["cut"]
    assert ["APIError", "upstream_truncated"] == found["cutHelper"]
    assert ["completed", "Hi 🌊"] == found["response"]
    assert ["APIError", "server_error"] == found["failed"]
    assert found["background"] in ("queued", "in_progress")
    assert found["cuts"] > 2
    assert [*range(len(found["numbers"]))] == found["numbers"]
    assert WORDS == found["deltas"]
    assert (10, "".join(WORDS)) == (found["replayed"], found["replay"])
    assert [True, ["user: hello", "assistant: Hi 🌊", "user: more"]] == found["stored"]
    assert ["BadRequestError", "previous_response_not_found"] == found["gone"]
    assert ("completed", "completed", 0) == (found["retrieved"], found["cancelled"], found["empty"])
