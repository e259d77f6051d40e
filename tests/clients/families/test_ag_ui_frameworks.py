"""CopilotKit and TanStack AI, which speak AG-UI, against the relay."""

import json
from collections.abc import Sequence
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
    wait,
)
from app.testing.upstream import text as said
from tests.clients.families.faults import ERROR
from tests.clients.programs import run
from tests.needs import file, program
from tests.serving import Relay, chat, serve_relay, serve_script, text_of
from tests.test_docs import block

pytestmark = pytest.mark.proving

HERE = Path(__file__).parent
CLIENTS = {"copilotkit": "@copilotkit/core", "tanstack": "@tanstack/ai-client"}
PAGES = {"copilotkit": "copilotkit", "tanstack": "tanstack-ai"}
CLEAN: list[Step] = [head(), send(said("a") + said("b") + FINISH + USAGE + DONE)]


def node(client: str) -> str:
    how = "run npm ci --prefix tests/clients/families"
    file(HERE / "node_modules" / CLIENTS[client] / "package.json", how=how)
    return program("node")


async def talk(client: str, relay: Relay, *runs: dict[str, Any]) -> dict[str, Any]:
    """Return what a client has after some runs; it must not complain of what it got."""
    command = (node(client), HERE / f"{client}.mjs", relay.url, json.dumps(runs))
    found: dict[str, Any] = json.loads(await run(*command))
    assert [] == found["complaints"]
    return found


def texts(found: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the messages' roles and texts, but for those without a text."""
    parts = (
        (message["role"], one.get("content"))
        for message in found["messages"]
        for one in message.get("parts") or [message]
        if one.get("type", "text") == "text" and message["role"] in ("user", "assistant")
    )
    return [(role, text) for role, text in parts if text]


def calling(name: str) -> list[Step]:
    function = {"name": name, "arguments": '{"city": "Ōsaka"}'}
    call = {"index": 0, "id": "call_a", "type": "function", "function": function}
    thought = event({"reasoning_content": "Hm"}) + said("Let me see")
    finish = event(finish_reason="tool_calls")
    return [head(), send(thought + event({"tool_calls": [call]}) + finish + DONE)]


@pytest.mark.parametrize("client", CLIENTS)
async def test_conversation_is_whole(client):
    async with serve_script(CLEAN) as (relay, upstream):
        found = await talk(client, relay, {"say": "hello"}, {"say": "why?"})

        answer = ("assistant", "ab")
        assert [("user", "hello"), answer, ("user", "why?"), answer] == texts(found)
        assert [] == found["errors"]
        asked = upstream.calls[1].json
        assert ["hello", "ab", "why?"] == [one["content"] for one in asked["messages"]]
        assert (0.5, "weather") == (asked["temperature"], asked["tools"][0]["function"]["name"])


@pytest.mark.parametrize("client", CLIENTS)
async def test_client_runs_its_tool_and_goes_on_with_the_result(client):
    def choose(asked: Call) -> Sequence[Step]:
        return CLEAN if asked.json["messages"][-1]["role"] == "tool" else calling("weather")

    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.choose = choose
        found = await talk(client, relay, {"say": "hello"})

        assert ([{"city": "Ōsaka"}], []) == (found["given"], found["errors"])
        assert ("assistant", "ab") == texts(found)[-1]
        _, answer, result = upstream.calls[1].json["messages"]
        assert ("Hm", "call_a") == (answer["reasoning_content"], answer["tool_calls"][0]["id"])
        assert ("call_a", {"sky": "blue"}) == (
            result["tool_call_id"],
            json.loads(result["content"]),
        )


async def test_call_that_waits_for_the_person_is_answered_later():
    def choose(asked: Call) -> Sequence[Step]:
        return CLEAN if asked.json["messages"][-1]["role"] == "tool" else calling("confirm")

    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.choose = choose
        result = {"toolCallId": "call_a", "tool": "confirm", "output": "yes"}
        found = await talk("tanstack", relay, {"say": "hello"}, {"answer": result})

        assert ([], "ready") == (found["errors"], found["states"][-1])
        assert ("assistant", "ab") == texts(found)[-1]
        assert "yes" == upstream.calls[1].json["messages"][-1]["content"]


@pytest.mark.parametrize("client", CLIENTS)
async def test_stop_ends_the_call_to_the_provider_and_keeps_the_text(client):
    async with serve_script([head(), send(said("a")), Hold()]) as (relay, upstream):
        found = await talk(client, relay, {"say": "hello", "stop": True})

        assert [("user", "hello"), ("assistant", "a")] == texts(found)
        await upstream.calls[0].closed.wait()


@pytest.mark.parametrize(
    ("end", "code"), [("", "upstream_truncated"), (ERROR, "upstream_unavailable")]
)
@pytest.mark.parametrize("client", CLIENTS)
async def test_answer_that_is_not_whole_is_an_error_and_keeps_the_text(client, end, code):
    async with serve_script([head(), send(said("a") + end)]) as (relay, _):
        found = await talk(client, relay, {"say": "hello"})

        assert [("user", "hello"), ("assistant", "a")] == texts(found)
        ((message, told),) = found["errors"]
        assert "upstream 'openai'" in message
        # CopilotKit's own code says only that the run has failed.
        assert {"tanstack": code, "copilotkit": "agent_run_error_event"}[client] == told


async def test_lost_connection_is_resumed_and_nothing_shown_twice():
    rest: list[Step] = [
        send(said("a")),
        wait(0.02),
        send(said("b")),
        wait(0.02),
        send(said("c") + FINISH + DONE),
    ]
    async with serve_script([head(), *rest]) as (relay, upstream):
        found = await talk("tanstack", relay, {"say": "hello", "leave": "continue"})

        assert [("user", "hello"), ("assistant", "abc")] == texts(found)
        assert ([], ["ready"], 1) == (found["errors"], found["states"], len(upstream.calls))
        assert 2 == found["requests"]


@pytest.mark.parametrize("client", CLIENTS)
async def test_block_of_its_page_writes_the_whole_answer(client):
    async with serve_relay(demo_pace=0) as relay:
        code = block(client, f"docs/clients/{PAGES[client]}.md")
        assert 1 == code.count("localhost:8000")
        code = code.replace("localhost:8000", f"127.0.0.1:{relay.port}")
        start = (node(client), "--input-type=module", "--eval")
        written = await run(*start, code, folder=HERE, quiet=True)
        answer = text_of(await chat(relay, messages=[{"role": "user", "content": "Hi"}]))

    assert len(answer) > 100
    assert answer == written
