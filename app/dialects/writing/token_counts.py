"""Token counting calls of the upstream formats that have one. No I/O.

Each sends the body of the request without the fields that only affect the answer, and returns one
number.
"""

import base64
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from ..reading.json_values import count, decode, mapping

GOOGLES: Final = "/publishers/"
"""A part of Vertex AI's base URLs, but not of the Gemini API's."""

_ANTHROPIC: Final = (
    "messages",
    "system",
    "tools",
    "tool_choice",
    "thinking",
    "output_config",
    "output_format",
    "cache_control",
    "context_management",
    "mcp_servers",
    "speed",
)
_RESPONSES: Final = (
    "input",
    "instructions",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "text",
    "reasoning",
    "truncation",
    "previous_response_id",
    "conversation",
    "personality",
)
_CONVERSE: Final = ("messages", "system", "toolConfig", "additionalModelRequestFields")
_VERTEX: Final = ("contents", "systemInstruction", "tools")


class Count(NamedTuple):
    """The counting call of a format."""

    path: str
    """The path after the base URL, which may contain `MODEL`."""
    render: Callable[..., dict[str, Any]]
    """(body, *, model, base_url) of the request for an answer, to the body of the call."""
    field: str
    """The field of the answer with the count."""

    def read(self, answer: bytes) -> int | None:
        """Parse the answer; None if it has no count."""
        try:
            return count(mapping(decode(answer.decode())).get(self.field))
        except ValueError:
            return None


def _some(body: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: body[name] for name in names if name in body}


def _anthropic(body: dict[str, Any], *, model: str, base_url: str) -> dict[str, Any]:
    return {**_some(body, _ANTHROPIC), "model": model}


def _vertex_anthropic(body: dict[str, Any], *, model: str, base_url: str) -> dict[str, Any]:
    version = _some(body, ("anthropic_version", "anthropic_beta"))
    return {**version, **_anthropic(body, model=model, base_url=base_url)}


def _invoke(body: dict[str, Any], *, model: str, base_url: str) -> dict[str, Any]:
    budget = count(mapping(body.get("thinking")).get("budget_tokens")) or 0
    # A count needs no `max_tokens`, but invoke requires one, above the thinking budget.
    whole = {**body, "max_tokens": max(count(body.get("max_tokens")) or 1, budget + 1)}
    encoded = base64.b64encode(msgspec.json.encode(whole)).decode()
    return {"input": {"invokeModel": {"body": encoded}}}


def _converse(body: dict[str, Any], *, model: str, base_url: str) -> dict[str, Any]:
    return {"input": {"converse": _some(body, _CONVERSE)}}


def _gemini(body: dict[str, Any], *, model: str, base_url: str) -> dict[str, Any]:
    if GOOGLES in base_url:
        return _some(body, _VERTEX)
    return {"generateContentRequest": {**body, "model": f"models/{model}"}}


def _responses(body: dict[str, Any], *, model: str, base_url: str) -> dict[str, Any]:
    return {**_some(body, _RESPONSES), "model": model}


COUNTS: Final[Mapping[str, Count]] = {
    "anthropic": Count("v1/messages/count_tokens", _anthropic, "input_tokens"),
    "vertex_anthropic": Count("count-tokens:rawPredict", _vertex_anthropic, "input_tokens"),
    "bedrock_anthropic": Count("model/{model}/count-tokens", _invoke, "inputTokens"),
    "bedrock_converse": Count("model/{model}/count-tokens", _converse, "inputTokens"),
    "gemini": Count("models/{model}:countTokens", _gemini, "totalTokens"),
    "openai_responses": Count("responses/input_tokens", _responses, "input_tokens"),
}
"""By the name of the dialect."""
