"""Rendering of requests in tests of upstream formats, and words for what requests hold."""

import json
from typing import Any

import msgspec

from app.dialects.upstream_format import RenderedRequest
from app.dialects.upstream_formats import UPSTREAM_FORMATS
from app.requests import ChatRequest, parse_chat_request

HI = [{"role": "user", "content": "hi"}]
EMPTY = {"type": "object", "properties": {}}
BY_NAME = {"type": "function", "function": {"name": "f"}}
"""The choice of the tool that `function("f")` is."""


def parse(request: dict[str, Any]) -> ChatRequest:
    return parse_chat_request(json.dumps({"messages": HI, **request}).encode())


def rendered(
    dialect: str, request: dict[str, Any], model: str = "m", **quirks: Any
) -> RenderedRequest:
    spoken = UPSTREAM_FORMATS[dialect]
    settings = msgspec.convert(quirks, spoken.quirks)
    return spoken.render_request(parse(request), model=model, quirks=settings)


def render(dialect: str, request: dict[str, Any], model: str = "m", **quirks: Any) -> Any:
    """Return the body that a request becomes, which JSON can say."""
    body = rendered(dialect, request, model, **quirks).body
    assert json.loads(json.dumps(body)) == body
    return body


def function(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, **more}}


def call(id: str = "i", name: str = "f", arguments: str = "{}", **more: Any) -> dict[str, Any]:
    return {**function(name, arguments=arguments), "id": id, **more}


def part(kind: str, text: str | None = None, **more: Any) -> dict[str, Any]:
    return {"type": kind, **({} if text is None else {"text": text}), **more}


def said(text: str) -> dict[str, Any]:
    return part("text", text)


def image(url: str, **more: str) -> dict[str, Any]:
    return part("image_url", image_url={"url": url, **more})


def file(**fields: str) -> dict[str, Any]:
    return part("file", file=fields)


def user(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": [*parts]}


def assistant(*parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"role": "assistant", **({"content": [*parts]} if parts else {}), **more}


def result(content: Any, id: str = "i") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": content}


SOUND = part("input_audio", input_audio={"data": "x", "format": "wav"})
