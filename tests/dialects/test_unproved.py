"""Reasoning that nothing proves comes back from clients, for the hosts that want it."""

import json
from typing import Any

import pytest

from app import events as e
from app.dialects.client_formats import CLIENT_FORMATS
from app.dialects.openai_chat.upstream.request import Quirks, render_request
from tests.dialects import examples as ex

pytestmark = pytest.mark.pure

EVENTS: list[e.Event] = [
    e.StreamStart("st_1", "m", 1),
    e.StreamTarget("u", "m", 1),
    *ex.thought(0, "Hm"),
    *ex.call(1, "call_1", "f", "{}"),
    e.ChoiceEnd("tool_calls"),
    e.StreamEnd("completed", "tool_calls"),
]


def go_on(name: str, result: Any) -> dict[str, Any]:
    """Return the request by which a client goes on from an answer."""
    if name == "anthropic":
        given = {"type": "tool_result", "tool_use_id": "call_1", "content": "1"}
        turns = [{"role": "assistant", "content": result["content"]}]
        return {"max_tokens": 9, "messages": [*turns, {"role": "user", "content": [given]}]}
    given = {"type": "function_call_output", "call_id": "call_1", "output": "1"}
    return {"input": [*result["output"], given]}


@pytest.mark.parametrize("name", ["anthropic", "openai_responses"])
def test_reasoning_without_a_proof_goes_back_to_hosts_that_want_it(name: str) -> None:
    client_format = CLIENT_FORMATS[name]
    result = json.loads(json.dumps(client_format.render_result("st_1", EVENTS)))
    # Clients leave out what has no proof.
    proofs = [
        part.get("signature") or part.get("encrypted_content")
        for part in result.get("content") or result.get("output")
        if part["type"] in ("thinking", "reasoning")
    ]
    assert all(proofs)
    assert len(proofs) == 1

    asked = client_format.parse_request(json.dumps({"model": "m", **go_on(name, result)}).encode())
    body = render_request(
        asked.chat, model="m", quirks=Quirks(send_reasoning="reasoning_content")
    ).body
    assert "Hm" == body["messages"][0]["reasoning_content"]
