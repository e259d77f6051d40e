"""Broken tool calls of a provider, as the clients of the relay are told of them."""

from typing import Any

import pytest

from app.testing.upstream import Step, head, send
from tests.api.bodies import M
from tests.dialects.openai_chat.written import DONE, chunk, sse, tool
from tests.serving import serve_script

HELLO = [{"role": "user", "content": "hello"}]


def script(*chunks: dict[str, Any], used: int = 5) -> list[Step]:
    usage = {"prompt_tokens": 9, "completion_tokens": used}
    return [head(), send(sse(*chunks, {"choices": [], "usage": usage}) + DONE)]


CUT = script(chunk(tool(0, "i", "f", '{"a":')), chunk({}, "tool_calls"))


@pytest.mark.parametrize(("limit", "status"), [(5, 200), (6, 502), (None, 502)])
async def test_a_cut_call_at_the_limit_is_incomplete_else_an_error(limit: int | None, status: int):
    tools = [{"type": "function", "function": {"name": "f"}}]
    body = {"model": M, "messages": HELLO, "stream": False, "tools": tools}
    async with serve_script(CUT, attempts=1) as (relay, _):
        more = {} if limit is None else {"max_tokens": limit}
        reply = await relay.client.post("/v1/chat/completions", json={**body, **more})
        more = {} if limit is None else {"max_output_tokens": limit}
        body = {"model": M, "input": "hello", "stream": False}
        other = await relay.client.post("/v1/responses", json={**body, **more})

    assert (reply.status_code, other.status_code) == (status, status)
    if status == 200:
        assert reply.json()["choices"][0]["finish_reason"] == "length"
        assert other.json()["status"] == "incomplete"
        assert [item["status"] for item in other.json()["output"]] == ["incomplete"]
    else:
        assert "upstream_tool_failed" in reply.text


async def test_a_stop_for_tools_without_a_call_is_tried_again():
    async with serve_script(script(chunk({}, "tool_calls")), attempts=2) as (relay, upstream):
        reply = await relay.client.post("/v1/chat", json={"model": M, "messages": HELLO})

    assert reply.status_code == 502
    assert reply.json()["code"] == "upstream_tool_failed"
    assert len(upstream.calls) == 2
