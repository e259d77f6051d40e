"""The AI SDK's own chat, versions 5, 6 and 7, against the relay."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from app.testing.upstream import DONE, FINISH, USAGE, Call, Hold, Step, Until, event, head, send
from app.testing.upstream import text as said
from tests.needs import file, program
from tests.serving import Relay, serve_relay, serve_script

pytestmark = pytest.mark.proving

ROOT = Path(__file__).parents[2]
CLEAN: list[Step] = [head(), send(said("a") + said("b") + FINISH + USAGE + DONE)]


def once_resumed() -> tuple[list[Step], Callable[[ASGIApp], ASGIApp]]:
    """Return an answer whose rest comes once the chat is resumed, and what watches for that."""
    resumed = Until()

    def watch(app: ASGIApp) -> ASGIApp:
        async def watched(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http" and scope["path"].endswith("/stream"):
                resumed.told.set()
            await app(scope, receive, send)

        return watched

    return [head(), send(said("a")), resumed, send(said("b") + FINISH + DONE)], watch


CLIENTS = ROOT / "tests" / "clients"
VERSIONS = {
    5: CLIENTS / "ai5" / "node_modules" / "ai",
    6: ROOT / "node_modules" / "ai6",
    7: ROOT / "node_modules" / "ai",
}


@pytest.fixture(params=VERSIONS)
def play(request: pytest.FixtureRequest) -> Any:
    """Play a scene through the client, and give what a page would have."""
    binary, package = program("node"), VERSIONS[request.param]
    file(package / "package.json", how="run npm ci, there too")

    async def play(relay: Relay, scene: str) -> dict[str, Any]:
        """Return the `version` too."""
        process = await asyncio.create_subprocess_exec(
            binary,
            str(CLIENTS / "ui.mjs"),
            str(package),
            f"{relay.url}/v1/ui/chat",
            scene,
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await asyncio.wait_for(process.communicate(), 60)
        assert process.returncode == 0
        found: dict[str, Any] = json.loads(out)
        return {**found, "version": request.param}

    return play


def text_of(message: dict[str, Any]) -> str:
    assert all(part.get("state", "done") == "done" for part in message["parts"])
    return "".join(part["text"] for part in message["parts"] if part["type"] == "text")


async def test_answer_is_complete(play):
    async with serve_script(CLEAN) as (relay, upstream):
        found = await play(relay, "send")

        assert ("ready", None) == (found["status"], found["error"])
        _, answer = found["messages"]
        assert "ab" == text_of(answer)
        usage = {"inputTokens": 3, "outputTokens": 2, "totalTokens": 5}
        assert {"model": "m-1", "usage": usage} == answer["metadata"]
        assert [{"finishReason": "stop", "isError": False, "isAbort": False}] == found["finished"]
        assert ["stream.start", "stream.target"] == found["heard"]
        assert 0.5 == upstream.calls[0].json["temperature"]


async def test_answer_can_be_regenerated(play):
    async with serve_script(CLEAN) as (relay, upstream):
        found = await play(relay, "regenerate")

        assert 2 == len(found["messages"])
        assert "ab" == text_of(found["messages"][1])
        assert found["first"] != found["messages"][1]["id"]
        assert [call.json["messages"] for call in upstream.calls] == [
            [{"role": "user", "content": "hello"}]
        ] * 2


ASKS = {"type": "mcp_approval_request", "id": "mcpr_1", "name": "roll", "server_label": "dice", "arguments": "{}"}  # fmt: skip
ASKED = [
    {"type": "response.output_item.done", "output_index": 0, "item": ASKS},
    {"type": "response.completed", "response": {"id": "r", "model": "m", "status": "completed"}},
]


async def test_call_that_the_provider_runs_is_approved(play):
    events = "".join(f"data: {json.dumps(event)}\n\n" for event in ASKED)
    script: list[Step] = [head(), send(events)]
    async with serve_script(script, dialect="openai_responses") as (relay, upstream):
        found = await play(relay, "approve")
        if found["version"] == 5:
            assert "error" == found["status"]  # it does not know the chunk
            return

        assert ("ready", None) == (found["status"], found["error"])
        assert "approval-requested" == found["asked"]
        *_, asked, decided = upstream.calls[1].json["input"]
        assert ASKS == asked
        wanted = {"approval_request_id": "mcpr_1", "approve": True}
        assert {"type": "mcp_approval_response", **wanted} == decided


@pytest.mark.parametrize("how", ["reload", "reloadBare"])
async def test_page_that_is_loaded_again_has_the_whole_answer_once(play, how):
    """And then keeps what it has added to it: an ended answer is not sent again."""
    script, watch = once_resumed()
    async with serve_script(script, watch=watch) as (relay, upstream):
        found = await play(relay, how)

        assert "ready" == found["left"]["status"]
        ((answer,), (again,)) = (found[who]["messages"][1:] for who in ("stored", "again"))
        assert "ab" == text_of(answer) == text_of(again)
        assert found["left"]["messages"][1]["id"] == answer["id"] == again["id"]
        assert "up" == again["metadata"]["rating"]
        assert 1 == len(upstream.calls)


async def test_connection_that_broke_is_taken_up(play):
    script, watch = once_resumed()
    async with serve_script(script, watch=watch) as (relay, upstream):
        found = await play(relay, "cut")

        assert ("error", "network error") == (found["broken"]["status"], found["broken"]["error"])
        assert ("ready", None) == (found["status"], found["error"])
        (answer,) = found["messages"][1:]
        if found["version"] == 5:
            # It adds the whole answer to the half: docs/clients/ai-sdk.md says what to do.
            assert ["a", "ab"] == [p["text"] for p in answer["parts"] if p["type"] == "text"]
        else:
            assert "ab" == text_of(answer)
        assert 1 == len(upstream.calls)


async def test_chat_without_a_stream_stays_as_it_is(play):
    async with serve_relay() as relay:
        found = await play(relay, "nothing")

        assert ("ready", []) == (found["status"], found["messages"])


async def test_stopped_answer_keeps_its_text(play):
    async with serve_script([head(), send(said("a")), Hold()]) as (relay, upstream):
        found = await play(relay, "stop")

        assert (204, "ready", None) == (found["stopped"], found["status"], found["error"])
        assert "a" == text_of(found["messages"][1])
        await asyncio.wait_for(upstream.calls[0].closed.wait(), 20)


FAILURES: dict[str, tuple[list[Step], str]] = {
    "before the answer": ([head("429 Too Many"), send("{}")], "rate limit"),
    "in the answer": ([head(), send(said("a"))], "ended its answer early"),
}


@pytest.mark.parametrize("when", FAILURES)
async def test_failure_is_an_error_with_its_words(play, when):
    script, words = FAILURES[when]
    async with serve_script(script) as (relay, _):
        found = await play(relay, "send")

        assert "error" == found["status"]
        assert words in found["error"]
        assert not found["error"].startswith("{")
        assert [True] == [one["isError"] for one in found["finished"]]


async def test_tools_of_the_page_are_run_and_answered(play):
    function = {"name": "weather", "arguments": '{"city": "Ōsaka"}'}
    call = {"index": 0, "id": "call_a", "type": "function", "function": function}
    asking: list[Step] = [
        head(),
        send(event({"tool_calls": [call]}) + event(finish_reason="tool_calls") + DONE),
    ]

    def choose(asked: Call) -> list[Step]:
        return CLEAN if asked.json["messages"][-1]["role"] == "tool" else asking

    async with serve_script([]) as (relay, upstream):
        upstream.choose = choose
        found = await play(relay, "tools")

        assert ("ready", None) == (found["status"], found["error"])
        assert ["tool-calls", "stop"] == [one["finishReason"] for one in found["finished"]]
        _, answer = found["messages"]
        kinds = [part["type"] for part in answer["parts"]]
        assert ["step-start", "dynamic-tool", "step-start", "text"] == kinds
        *_, told, result = upstream.calls[1].json["messages"]
        assert ("call_a", '{"city":"Ōsaka"}') == (
            told["tool_calls"][0]["id"],
            told["tool_calls"][0]["function"]["arguments"],
        )
        assert {"sky": "blue", "asked": {"city": "Ōsaka"}} == json.loads(result["content"])


def responses(*items: dict[str, Any], cut: bool = False) -> list[Step]:
    """Say output items as an upstream of Responses does."""
    created = {"type": "response.created", "response": {"id": "resp_1", "model": "m-1"}}
    told: list[dict[str, Any]] = [created]
    for number, item in enumerate(items):
        for when in ("added", "done"):
            kind = f"response.output_item.{when}"
            told.append({"type": kind, "output_index": number, "item": item})
    whole = {"id": "resp_1", "model": "m-1", "status": "completed", "output": list(items)}
    if not cut:
        told.append({"type": "response.completed", "response": whole})
    return [head(), send("".join(f"data: {json.dumps(one)}\n\n" for one in told))]


SEARCH = {
    "type": "web_search_call",
    "id": "ws_1",
    "status": "completed",
    "action": {"type": "search", "query": "sea"},
}
MESSAGE = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "wet", "annotations": []}],
}
TOOLS: dict[str, tuple[list[Step], str]] = {
    "and is followed by a text": (responses(SEARCH, MESSAGE), "output-available"),
    "and is all": (responses(SEARCH), "output-available"),
    "and is cut": (responses(SEARCH, cut=True), "output-error"),
}


@pytest.mark.parametrize("how", TOOLS)
async def test_tool_of_the_provider_that_tells_no_result_ends(play, how):
    script, state = TOOLS[how]
    async with serve_script(script, dialect="openai_responses") as (relay, upstream):
        found = await play(relay, "automatic")

        _, answer = found["messages"]
        (tool,) = [part for part in answer["parts"] if part["type"] == "dynamic-tool"]
        assert (state, "web_search", True) == (
            tool["state"],
            tool["toolName"],
            tool["providerExecuted"],
        )
        assert "sea" == tool["input"]["query"]
        assert 1 == len(upstream.calls), "the page was made to send results of its own"
