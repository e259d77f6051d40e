"""Reasoning goes back to a host without a preset in the field in which the host sent it."""

from typing import Any

import pytest

from app.testing.upstream import DONE, FINISH, Upstream, event, head, reply, send, serve_upstream
from tests.serving import HELLO, Relay, serve_relay

CALL = {"id": "c1", "type": "function", "function": {"name": "now", "arguments": "{}"}}
CALLED = event({"tool_calls": [{"index": 0, **CALL}]}) + FINISH + DONE
GO_ON = [
    *HELLO["messages"],
    {"role": "assistant", "content": None, "reasoning_content": "Hm.", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "noon"},
]
MISSED = "The `reasoning_content` in the thinking mode must be passed back to the API."
UNKNOWN = "'messages.1' : property 'FIELD' is unsupported"


def answer(**delta: str) -> list[Any]:
    return [head(), send((event(delta) if delta else "") + CALLED)]


def refusal(message: str) -> Any:
    return reply("400 Bad Request", f'{{"error": {{"message": "{message}"}}}}')


async def send_back(relay: Relay, upstream: Upstream, model: str = "openai/m") -> dict[str, str]:
    """Send a conversation with reasoning; return what the host got of it, by its field."""
    body = {"model": model, "messages": GO_ON}
    await relay.client.post("/v1/chat/completions", json=body)
    sent: dict[str, Any] = upstream.calls[-1].json["messages"][1]
    assert [CALL] == sent["tool_calls"]
    return {name: text for name, text in sent.items() if name.startswith("reasoning")}


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
async def test_reasoning_goes_back_in_the_field_of_the_host(field: str) -> None:
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.script = answer()
        before = await send_back(relay, upstream)
        upstream.script = answer(**{field: "Hm."})
        await relay.client.post("/v1/chat", json={**HELLO, "model": "openai/m"})
        after = await send_back(relay, upstream)
        other = await send_back(relay, upstream, "openai/other")
        upstream.script = refusal(UNKNOWN.replace("FIELD", field))
        asked = len(upstream.calls)
        await send_back(relay, upstream)
        refused = upstream.calls[asked].json["messages"][1][field]
        upstream.script = answer(**{field: "Hm."})
        again = [await send_back(relay, upstream) for _ in range(2)]

    assert ({}, {field: "Hm."}, {}, "Hm.") == (before, after, other, refused)
    assert [{}, {}] == again


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
async def test_what_a_host_quotes_of_one_client_changes_nothing_for_others(field: str) -> None:
    quoted = {"type": "json_schema", "json_schema": {"name": field, "schema": {"type": "x"}}}
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        for learnt in ({}, {field: "Hm."}):
            upstream.script = refusal(f"Invalid schema for response_format '{field}'")
            for messages in (HELLO["messages"], GO_ON):
                body = {"model": "openai/m", "messages": messages, "response_format": quoted}
                await relay.client.post("/v1/chat/completions", json=body)
            upstream.script = answer(**{field: "Hm."})

            assert learnt == await send_back(relay, upstream)


async def test_a_host_that_misses_its_reasoning_is_sent_it_from_then_on() -> None:
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.script = refusal(MISSED)
        sent = [await send_back(relay, upstream) for _ in range(2)]

    assert [{}, {"reasoning_content": "Hm."}] == sent
