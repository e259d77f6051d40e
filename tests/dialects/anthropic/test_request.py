"""What Anthropic, Vertex AI and Bedrock's invoke are asked, beside the conversation."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from app.dialects.anthropic.upstream.request import (
    Quirks,
    render_bedrock_request,
    render_request,
    render_vertex_request,
)
from app.dialects.upstream_format import RenderedRequest
from app.requests import parse_chat_request

pytestmark = pytest.mark.pure

HI = [{"role": "user", "content": "hi"}]
SAID = [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]
PLAIN = {"model": "m", "max_tokens": 16384, "messages": SAID, "stream": True}


def render(
    request: dict[str, Any], how: Callable[..., RenderedRequest] = render_request, **quirks: Any
) -> dict[str, Any]:
    parsed = parse_chat_request(json.dumps({"messages": HI, **request}).encode())
    body = how(parsed, model="m", quirks=msgspec.convert(quirks, Quirks)).body
    assert json.loads(json.dumps(body)) == body
    return body


def added(request: dict[str, Any], **quirks: Any) -> dict[str, Any]:
    """Return what a request adds to the body of a plain one, or changes there."""
    body = render(request, **quirks)
    return {name: value for name, value in body.items() if PLAIN.get(name) != value}


ADAPTIVE = {"type": "adaptive", "display": "summarized"}


def budget(tokens: int) -> dict[str, Any]:
    return {"thinking": {"type": "enabled", "budget_tokens": tokens}}


@pytest.mark.parametrize(
    ("effort", "limit", "tokens"),
    [("low", 4000, 1024), ("medium", 16384, 4096), ("max", 16384, 8192), ("high", 1500, 1024)],
)
def test_older_models_think_within_a_budget(effort: str, limit: int, tokens: int) -> None:
    body = added({"reasoning_effort": effort, "max_tokens": limit}, thinking="budget")

    assert {"thinking": body["thinking"]} == budget(tokens)
    assert "output_config" not in body


MODELS = [
    *(("claude-2.1", True), ("claude-3-7-sonnet-20250219", True), ("claude-opus-4-20250514", True)),
    *(("anthropic.claude-sonnet-4-5-20250929-v1:0", True), ("claude-haiku-4-5@20251001", True)),
    *(("claude-opus-4-6", False), ("claude-sonnet-4-6", False), ("claude-opus-4-10", False)),
    *(("claude-opus-5", False), ("claude-haiku-5-5-20261001", False)),
    *(("claude-mythos-preview", False), ("mine", False)),
]


@pytest.mark.parametrize(("model", "older"), MODELS)
def test_the_models_name_says_how_it_thinks(model: str, older: bool) -> None:
    request = parse_chat_request(
        json.dumps({"messages": HI, "reasoning_effort": "low", "max_tokens": 4000}).encode()
    )
    for how in (render_request, render_vertex_request, render_bedrock_request):
        assert (how(request, model=model).body["thinking"]["type"] == "enabled") == older
    body = render_request(request, model=model, quirks=Quirks(thinking="adaptive")).body
    assert body["thinking"] == ADAPTIVE
