"""What is learnt of the field in which models take reasoning back."""

import json
from typing import Any

import pytest

from app.upstreams.endpoints import MAX_MODELS, ReasoningFields

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    ("seen", "message", "expected"),
    [
        (None, "thinking is enabled but reasoning_content is missing", "reasoning_content"),
        (None, "unknown field 'reasoning'", "no"),
        ("reasoning_content", "property 'reasoning_content' is unsupported", "no"),
        ("reasoning_content", "no such model", "reasoning_content"),
        ("reasoning", "property 'reasoning' is unsupported", "no"),
        ("reasoning", "reasoning models take no temperature", "reasoning"),
    ],
)
def test_a_refusal_that_names_the_field_is_believed(
    seen: str | None, message: str, expected: str
) -> None:
    assert expected == learn(seen, message, {"messages": [sent(seen)]}, reasoned=True)


@pytest.mark.parametrize("seen", [None, "reasoning_content", "reasoning"])
@pytest.mark.parametrize(
    "own",
    [
        {"response_format": {"json_schema": {"name": "FIELD"}}},
        {"tools": [{"function": {"parameters": {"properties": {"FIELD": {}}}}}]},
        {"messages": [{"role": "user", "content": "call it 'FIELD'"}]},
        {"messages": [{"role": "user", "content": "FIELD"}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "a.Field"}]}]},
        {"FIELD": {}},
    ],
)
def test_a_refusal_that_may_quote_the_client_is_not(seen: str | None, own: dict[str, Any]) -> None:
    field = seen or "reasoning_content"
    body = json.loads(json.dumps(own).replace("FIELD", field).replace("Field", field.title()))
    body["messages"] = [*body.get("messages", ()), sent(seen)]

    assert (seen or "no") == learn(seen, f"not good: '{field}'", body, reasoned=True)


@pytest.mark.parametrize("seen", [None, "reasoning_content", "reasoning"])
def test_a_refusal_of_a_request_without_reasoning_is_not(seen: str | None) -> None:
    field = seen or "reasoning_content"

    assert (seen or "no") == learn(seen, f"no '{field}'", {"messages": [sent(None)]})


def sent(field: str | None) -> dict[str, str]:
    """An assistant's message with the field, whose text is prose."""
    return {"role": "assistant", **({field: "My reasoning is sound."} if field else {})}


def learn(seen: str | None, message: str, body: dict[str, Any], *, reasoned: bool = False) -> str:
    fields = ReasoningFields()
    if seen is not None:
        fields.learn("m", seen)
    fields.refused("m", message, content=json.dumps(body).encode(), reasoned=reasoned)
    return fields.of("m")


def test_names_that_clients_make_up_are_forgotten() -> None:
    fields = ReasoningFields()
    for number in range(MAX_MODELS + 1):
        fields.learn(str(number), "reasoning")

    assert ("no", "reasoning") == (fields.of("0"), fields.of("1"))
