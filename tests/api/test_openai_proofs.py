"""What Claude signed goes back to it by way of OpenAI's clients, which know no signatures."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from openai import AsyncOpenAI

from app.testing.upstream import Upstream, head, serve_upstream
from tests.api.test_dialects import ANTHROPIC, sse
from tests.serving import serve_relay

ASK: Any = {"role": "user", "content": "hello"}
FUNCTION: dict[str, Any] = {"name": "now", "parameters": {"type": "object", "properties": {}}}
USAGE = {"input_tokens": 3, "output_tokens": 1}
THOUGHT_AND_CALL = [
    head(),
    sse(
        {"type": "message_start", "message": {"id": "msg_1", "model": "claude-x", "usage": USAGE}},
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "thinking", "thinking": "", "signature": ""},
        },
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "thinking_delta", "thinking": "Hm."},
        },
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "signature_delta", "signature": "U0lH"},
        },
        {"type": "content_block_stop", "index": 0},
        {
            "type": "content_block_start",
            "index": 1,
            "content_block": {"type": "tool_use", "id": "t1", "name": "now", "input": {}},
        },
        {"type": "content_block_stop", "index": 1},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use", "stop_sequence": None},
            "usage": {"output_tokens": 4},
        },
        {"type": "message_stop"},
    ),
]
SENT_BACK = {
    "role": "assistant",
    "content": [
        {"type": "thinking", "thinking": "Hm.", "signature": "U0lH"},
        {"type": "tool_use", "id": "t1", "name": "now", "input": {}},
    ],
}


@asynccontextmanager
async def serve() -> AsyncIterator[tuple[Upstream, AsyncOpenAI]]:
    async with (
        serve_upstream() as upstream,
        serve_relay(upstream, dialect="anthropic") as relay,
        AsyncOpenAI(api_key="k", base_url=f"{relay.url}/v1", max_retries=0) as client,
    ):
        upstream.script = THOUGHT_AND_CALL
        yield upstream, client


async def test_chat_completions_brings_it_back():
    async with serve() as (upstream, client):
        usual: dict[str, Any] = {
            "model": "openai/m",
            "tools": [{"type": "function", "function": FUNCTION}],
        }
        async with client.chat.completions.stream(**usual, messages=[ASK]) as stream:
            answer = (await stream.get_final_completion()).choices[0].message
        upstream.script = ANTHROPIC
        result: Any = {"role": "tool", "tool_call_id": "t1", "content": "12:00"}
        turns: Any = [ASK, answer.model_dump(), result]
        await client.chat.completions.create(**usual, messages=turns)

        assert SENT_BACK == upstream.calls[-1].json["messages"][1]


async def test_responses_brings_it_back():
    async with serve() as (upstream, client):
        usual: dict[str, Any] = {
            "model": "openai/m",
            "tools": [{"type": "function", "strict": False, **FUNCTION}],
        }
        answer = await client.responses.create(**usual, input=[ASK])
        upstream.script = ANTHROPIC
        result = {"type": "function_call_output", "call_id": "t1", "output": "12:00"}
        turns: Any = [ASK, *answer.output, result]
        await client.responses.create(**usual, input=turns)

        assert SENT_BACK == upstream.calls[-1].json["messages"][1]


async def test_stored_response_brings_it_back():
    """The relay itself, to those who name the response or its items."""
    async with serve() as (upstream, client):
        usual: dict[str, Any] = {
            "model": "openai/m",
            "tools": [{"type": "function", "strict": False, **FUNCTION}],
        }
        first = await client.responses.create(**usual, input=[ASK])
        upstream.script = ANTHROPIC
        result: Any = {"type": "function_call_output", "call_id": "t1", "output": "12:00"}
        await client.responses.create(**usual, input=[result], previous_response_id=first.id)
        assert SENT_BACK == upstream.calls[-1].json["messages"][1]
        items: Any = [{"type": "item_reference", "id": item.id} for item in first.output]
        await client.responses.create(**usual, input=[ASK, *items, result])

        assert SENT_BACK == upstream.calls[-1].json["messages"][1]
