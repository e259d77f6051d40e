"""A tool loop over the Interactions API, for clients that return what they received."""

from collections.abc import Callable
from typing import Any

import pytest

from app.testing.upstream import Send, head, serve_upstream
from tests.dialects.gemini_interactions.written import (
    START,
    answer,
    asked,
    end,
    said,
    thought,
)
from tests.serving import serve_relay

Json = dict[str, Any]
FORM = {"type": "object", "properties": {}}
FUNCTION = {"name": "f", "parameters": FORM}
ASK = {"role": "user", "content": "Hi"}
RESULT = {"role": "tool", "tool_call_id": "i", "content": "r"}
OUTPUT = {"type": "function_call_output", "call_id": "i", "output": "r"}
CLIENTS: dict[str, tuple[Json, Callable[[Json], Json]]] = {
    "/v1/chat/completions": (
        {"messages": [ASK], "tools": [{"type": "function", "function": FUNCTION}]},
        lambda told: {"messages": [ASK, told["choices"][0]["message"], RESULT]},
    ),
    "/v1/messages": (
        {"messages": [ASK], "tools": [{"name": "f", "input_schema": FORM}], "max_tokens": 9},
        lambda told: {
            "messages": [
                ASK,
                {"role": "assistant", "content": told["content"]},
                {
                    "role": "user",
                    "content": [{"type": "tool_result", "tool_use_id": "i", "content": "r"}],
                },
            ]
        },
    ),
    "/v1/responses": (
        {"input": "Hi", "tools": [{"type": "function", **FUNCTION}]},
        lambda told: {"input": [ASK, *told["output"], OUTPUT]},
    ),
}
"""By path: a request, and what of it differs once its answer has called the tool."""


@pytest.mark.parametrize("summary", [(), ("Hm.",)], ids=["signature alone", "with summary"])
@pytest.mark.parametrize("path", CLIENTS)
async def test_a_signature_comes_back_before_its_call(path: str, summary: tuple[str, ...]) -> None:
    calls = answer(START, thought("c2ln", *summary), asked(1, "{}"), end("requires_action"))
    says = answer(START, said("ok"), end())
    request, goes_on = CLIENTS[path]
    async with (
        serve_upstream() as upstream,
        serve_relay(upstream, dialect="gemini_interactions") as relay,
    ):
        upstream.choose = lambda call: [
            head(),
            Send(says if b"function_result" in call.body else calls),
        ]
        model = {"model": "openai/gemini-3.8-flash"}
        first = await relay.client.post(path, json={**model, **request})
        second = await relay.client.post(path, json={**model, **request, **goes_on(first.json())})

    assert 200 == second.status_code
    assert upstream.calls[1].json["input"][1:] == [
        {"type": "thought", "signature": "c2ln"},
        {"type": "function_call", "id": "i", "name": "f", "arguments": {}},
        {"type": "function_result", "call_id": "i", "name": "f", "result": "r"},
    ]
