"""AG-UI's own agent against the relay."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from app.testing.upstream import (
    DONE,
    FINISH,
    USAGE,
    Call,
    Hold,
    Step,
    event,
    head,
    send,
    serve_upstream,
)
from app.testing.upstream import text as said
from tests.needs import file, program
from tests.serving import Relay, serve_relay, serve_script

pytestmark = pytest.mark.proving

ROOT = Path(__file__).parents[2]
HELLO = {"id": "u1", "role": "user", "content": "hello"}
CLEAN: list[Step] = [head(), send(said("a") + said("b") + FINISH + USAGE + DONE)]


OLDER = ROOT / "tests" / "clients" / "families" / "node_modules"
OLDER_NAMES = [f"ag-ui-{minor}" for minor in (50, 54, 57, 59)]
"""The versions before 1.0, whose schemas differ: CopilotKit pins the last one."""


NEWEST = "@ag-ui/client"


@pytest.fixture(params=[NEWEST, *OLDER_NAMES])
def client(request: pytest.FixtureRequest) -> str:
    """The name or path of a client's package."""
    name: str = request.param
    if name in OLDER_NAMES:
        file(OLDER / name / "package.json", how="run npm ci in tests/clients/families")
        return str(OLDER / name / "dist" / "index.mjs")
    file(ROOT / "node_modules" / name / "package.json", how="run npm ci")
    return name


@pytest.fixture
def run(client: str) -> Any:
    """Make runs with a client, and give what it has at the end."""
    binary = program("node")

    async def run(relay: Relay, *runs: dict[str, Any]) -> dict[str, Any]:
        process = await asyncio.create_subprocess_exec(
            binary,
            str(ROOT / "tests" / "clients" / "ag_ui.mjs"),
            f"{relay.url}/v1/ag-ui",
            json.dumps(runs),
            client,
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await asyncio.wait_for(process.communicate(), 60)
        assert process.returncode == 0
        found: dict[str, Any] = json.loads(out)
        assert [] == found["warned"]
        return found

    return run


SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
SEARCHED = [
    {"type": "response.output_item.done", "output_index": 0, "item": SEARCH | {"action": {"type": "search", "query": "sea"}}},
    {"type": "response.output_text.delta", "output_index": 1, "content_index": 0, "delta": "Blue."},
    {"type": "response.completed", "response": {"id": "r", "model": "m", "status": "completed"}},
]  # fmt: skip


async def test_tool_that_the_provider_ran_is_shown_and_not_run_again(run):
    events = "".join(f"data: {json.dumps(event)}\n\n" for event in SEARCHED)
    script: list[Step] = [head(), send(events)]
    async with serve_script(script, dialect="openai_responses") as (relay, upstream):
        again = {"id": "u2", "role": "user", "content": "why?"}
        found = await run(relay, {"messages": [HELLO]}, {"messages": [again]})

        assert None is found["failed"]
        _, answer, result, *_ = found["messages"]
        (call,) = answer["toolCalls"]
        assert ("Blue.", "web_search") == (answer["content"], call["function"]["name"])
        assert ("tool", call["id"]) == (result["role"], result["toolCallId"])
        assert "pendingToolCallIds" not in found["seen"][-1]["outcome"]
        roles = [item.get("role") for item in upstream.calls[1].json["input"]]
        assert ["user", "assistant", "user"] == roles


async def test_run_is_complete(run):
    async with serve_script(CLEAN) as (relay, upstream):
        context = [{"description": "User", "value": "Aoi"}]
        props = {"temperature": 0.5}
        found = await run(relay, {"messages": [HELLO], "context": context, "forwardedProps": props})

        assert None is found["failed"]
        assert ["hello", "ab"] == [message["content"] for message in found["messages"]]
        last = found["seen"][-1]
        assert ("RUN_FINISHED", "thread-1") == (last["type"], last["threadId"])
        usage = {"inputTokens": 3, "outputTokens": 2, "totalTokens": 5}
        assert [{"provider": "openai", "model": "m-1", **usage}] == last["usage"]
        asked = upstream.calls[0].json
        assert (0.5, "system") == (asked["temperature"], asked["messages"][0]["role"])


async def test_thoughts_and_tools_come_back_with_the_next_run(run, client):
    function = {"name": "weather", "arguments": '{"city": "Ōsaka"}'}
    call = {"index": 0, "id": "call_a", "type": "function", "function": function}
    thoughts = event({"reasoning_content": "Hm"})
    finish = event(finish_reason="tool_calls")
    asking: list[Step] = [
        head(),
        send(thoughts + said("Let me see") + event({"tool_calls": [call]}) + finish + DONE),
    ]

    def choose(asked: Call) -> list[Step]:
        return CLEAN if asked.json["messages"][-1]["role"] == "tool" else asking

    tools = [{"name": "weather", "description": "d", "parameters": {"type": "object"}}]
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.choose = choose
        found = await run(
            relay, {"messages": [HELLO], "tools": tools}, {"answer": "blue", "tools": tools}
        )

        assert None is found["failed"]
        roles = ["user", "reasoning", "assistant", "tool", "assistant"]
        assert roles == [message["role"] for message in found["messages"]]
        assert "ab" == found["messages"][-1]["content"]
        ends = [one for one in found["seen"] if one["type"] == "RUN_FINISHED"]
        pending = {"pendingToolCallIds": ["call_a"]} if client == NEWEST else {}
        assert {"type": "success", **pending} == ends[0]["outcome"]
        _, answer, result = upstream.calls[1].json["messages"]
        assert "call_a" == answer["tool_calls"][0]["id"] == result["tool_call_id"]
        assert "weather" == upstream.calls[1].json["tools"][0]["function"]["name"]


async def test_run_that_is_cancelled_keeps_its_text(run, client):
    async with serve_script([head(), send(said("a")), Hold()]) as (relay, _):
        found = await run(relay, {"messages": [HELLO], "stop": True})

        assert "a" == found["messages"][-1]["content"]
        last = found["seen"][-1]
        if client == NEWEST:
            assert (None, {"type": "cancelled"}) == (found["failed"], last["outcome"])
        else:
            assert ("RUN_ERROR", "cancelled") == (last["type"], last["code"])


async def test_failure_in_the_run_is_an_error_of_the_run(run):
    async with serve_script([head(), send(said("a"))]) as (relay, _):
        found = await run(relay, {"messages": [HELLO]})

        last = found["seen"][-1]
        assert ("RUN_ERROR", "upstream_truncated") == (last["type"], last["code"])
        assert "a" == found["messages"][-1]["content"]


async def test_failure_before_the_run_is_a_status(run):
    async with serve_script([head("429 Too Many"), send("{}")]) as (relay, _):
        found = await run(relay, {"messages": [HELLO]})

        assert "HTTP 429" in found["failed"]
        assert "upstream_rate_limited" in found["failed"]
