"""Clients of Chat Completions other than OpenAI's newest, over real sockets."""

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import openai
import pytest

from app.testing.upstream import (
    DONE,
    FINISH,
    Upstream,
    event,
    head,
    send,
    serve_upstream,
    text,
)
from tests.serving import Relay, serve_relay

ANSWER = [head(), send(text("a") + FINISH + DONE)]
ASK: dict[str, Any] = {"model": "r", "messages": [{"role": "user", "content": "hi"}]}
CHAT = "/v1/chat/completions"


@contextlib.asynccontextmanager
async def routed(
    folder: Path, *upstreams: tuple[str, str]
) -> AsyncIterator[tuple[Relay, list[Upstream]]]:
    """Serve a relay with a route over upstreams: for each its dialect, and lines of its table."""
    async with contextlib.AsyncExitStack() as stack:
        served = [await stack.enter_async_context(serve_upstream()) for _ in upstreams]
        table = []
        for number, ((dialect, lines), upstream) in enumerate(zip(upstreams, served, strict=True)):
            upstream.script = ANSWER
            url = upstream.base_url.removesuffix("/v1")
            table.append(
                f'[upstream.u{number}]\nbase_url = "{url}"\ndialect = "{dialect}"\n{lines}'
            )
        targets = [f"u{number}/m" for number in range(len(served))]
        table.append(f'[[route]]\nname = "r"\ntargets = {json.dumps(targets)}\n')
        config = folder / "seseragi.toml"
        config.write_text("\n".join(table))
        environ = {"SESERAGI_CONFIG": str(config)}
        yield await stack.enter_async_context(serve_relay(environ=environ)), served


def openai_client(relay: Relay) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{relay.url}/v1", api_key="x", max_retries=0)


async def notices(relay: Relay, body: dict[str, Any]) -> list[str]:
    answer = await relay.client.post(CHAT, json={**body, "stream": True})
    assert answer.status_code == 200, answer.text
    events = await relay.client.get(f"/v1/streams/{answer.headers['stream-id']}/events")
    found = [json.loads(line[6:]) for line in events.text.splitlines() if line.startswith("data: ")]
    return [event["message"] for event in found if event["type"] == "notice"]


async def test_what_has_no_place_is_left_out_with_a_notice(tmp_path: Path) -> None:
    messages = [
        *ASK["messages"],
        {"role": "assistant", "content": "a", "provider_specific_fields": {"x": 1}, "id": "m1"},
        {"role": "user", "content": [{"type": "text", "text": "b", "cache_control": {"type": "ephemeral"}}]}
    ]  # fmt: skip
    async with routed(tmp_path, ("openai_chat", "")) as (relay, (upstream,)):
        body = {**ASK, "messages": messages, "client_metadata": {"a": "b"}, "temprature": 0.5}
        unset, unknown = sorted(await notices(relay, body))

    assert (
        "upstream 'u0' does not allow temprature from clients (setting `options`): dropped" == unset
    )
    assert "upstream 'u0' does not support cache_control, client_metadata: dropped" == unknown
    sent = upstream.calls[0].json
    assert messages[1] == sent["messages"][1]
    assert "client_metadata" not in sent


CALLS = [
    head(),
    send(event({"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "f", "arguments": ""}}]})),
    send(event({"tool_calls": [{"index": 0, "function": {"arguments": '{"input":"x y"}'}}]})),
    send(event(finish_reason="tool_calls") + DONE)
]  # fmt: skip


@pytest.mark.parametrize("streams", [True, False])
async def test_custom_tools_are_answered_with_their_text(streams: bool, tmp_path: Path) -> None:
    tool: Any = {"type": "custom", "custom": {"name": "f"}}
    async with routed(tmp_path, ("openai_chat", "")) as (relay, (upstream,)):
        upstream.script = CALLS
        async with openai_client(relay) as client:
            if streams:
                async with client.chat.completions.stream(**ASK, tools=[tool]) as stream:
                    raw = [chunk.chunk async for chunk in stream if chunk.type == "chunk"]
                calls = [c for chunk in raw for c in chunk.choices[0].delta.tool_calls or ()]
                extra: list[Any] = [
                    (c.model_extra or {}).get("custom") or c.model_dump().get("custom")
                    for c in calls
                ]
                found = (extra[0]["name"], "".join(e["input"] for e in extra))
            else:
                answer: Any = await client.chat.completions.create(**ASK, tools=[tool])
                (call,) = answer.choices[0].message.tool_calls
                assert "custom" == call.type
                found = (call.custom.name, call.custom.input)

    assert ("f", "x y") == found
