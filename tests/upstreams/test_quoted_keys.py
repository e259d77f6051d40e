"""Errors of providers that quote the relay's key: no part of it is in what the relay shows."""

import base64
import json
import logging
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
import structlog

from app.dialects.reading.provider_errors import parse_error, parse_failure
from app.dialects.upstream_formats import UPSTREAM_FORMATS
from app.testing.upstream import Step, head, reply, send, serve_upstream, wait
from app.upstreams.redaction import Redactor
from tests.dialects.clients import REQUESTS
from tests.framing import frames
from tests.serving import HELLO, serve_relay

KEYS = {
    "OpenAI": "sk-proj-Zq8-tK2mVx_9LwRb4TnYc7HdPf3GsJe5QaUi6oNz",
    "Anthropic": "sk-ant-api03-Vb7_xQ2-LmK9tRz4WnPc8HdYf3GsJe5QaUiAA",
    "Z.ai": "3f9c1d7a5b2e48d6a0c4e8f1b7d39a62.Qm7xKpT2vLr9ZsWd",
    "dotted": "Tk1.aZ3-kQ9_x4.Pp7Lm2Vw6Jd.Rt5Yh8Nc0Bd3Xs",
    "slashed": "Gh2/kX9pLm+Qr4/ZuTV=wB/5mN7pK/3sDyA8cE",
    "AWS secret": "wJalr8UtnFEM1/K7MDENG/bPxRfiCYzQ4mplT9Xk",
    "AWS token": "IQoJb3JpZ2luX2VjEHoaCXVz/ZWFzdC0xIkcwRQIh+AKp9sV4xTz2Lm7/QnW8bYc3RdHf5GsJe6A==",
    "Google": "AIzaSyD4-kQ9_xVb7LmTz2RwNc8HdYf3GsJe5Q",
    "Google token": "ya29.c.b0Aaek1Zq8-tK2mVx_9LwRb4TnYc7HdPf3GsJe5QaUi6oNz",
    "Azure": "8c1f4e7a9b2d4f6e8a0c3b5d7f9e1a2c",
    "Azure, long": "5FzQ8vLm2TxK9RwNb4YcHdPf7GsJe3QaUi6oZkVtXy1CMBgJQQJ99BKACYeBjFXJ3w3AAABACOGq4mT",
}

WORDINGS: dict[str, Callable[[str], str]] = {
    "OpenAI": lambda key: f"Incorrect API key provided: {key}. You can find your API key online.",
    "OpenAI, masked": lambda key: f"Incorrect API key provided: {key[:8]}********{key[-4:]}.",
    "Google": lambda key: f"Permission denied: Consumer 'api_key:{key}' has been suspended.",
    "Z.ai": lambda key: f"令牌{key}已过期或验证不正确",
    "AWS": lambda key: (
        f"The canonical string was\nhost:a\nx-amz-security-token:{key}\n\nhost;x-amz-date"
    ),
    "Azure": lambda key: f"Access denied due to invalid subscription key '{key}'.",
    "LiteLLM": lambda key: f"Authentication Error, LiteLLM Virtual Key expected. Received={key}, .",
    "a header": lambda key: f"the header Authorization: Bearer {key} is not accepted",
    "a named value": lambda key: f"api-key: {key}; secret: {key}; token={key}; signature={key}",
    "a URL": lambda key: f"GET /v1/models?key={quote(key, safe='')}&alt=sse was refused",
    "a path": lambda key: f"GET https://user:{key}@host/{quote(key)}/v1 was refused",
    "basic": lambda key: f"Basic {base64.b64encode(f'relay:{key}'.encode()).decode()} is wrong",
    "JSON": lambda key: json.dumps({"key": key}).replace("/", "\\/"),
    "cut": lambda key: f"the key {key[:17]}... is unknown",
    "cut short": lambda key: f"the key {key[:9]}… is unknown, as is {key[:10]}**",
    "cut at the end": lambda key: f"unknown: {key[:-1]}",
}


def pieces(key: str) -> set[str]:
    """Return what no text may have: 8 characters of the key in a row, in each encoding."""
    forms = [key, quote(key, safe=""), key.replace("/", "\\/")]
    forms += [base64.b64encode(b"relay:" + key.encode()).decode()[8:]]
    public = {"sk-proj-", "sk-ant-a", "k-ant-ap", "-ant-api"}
    return {form[at : at + 8] for form in forms for at in range(len(form) - 7)} - public


@pytest.mark.pure
@pytest.mark.parametrize("wording", WORDINGS.values(), ids=WORDINGS)
@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_no_part_of_a_quoted_key_is_in_an_error(key, wording):
    redact, said = Redactor(key).redact, wording(key)
    documents: list[Any] = [
        {"error": {"message": said, "code": key, "param": key, "type": "invalid_request_error"}},
        {"message": said},
        {"detail": [{"msg": said}]},
        [{"error": {"code": 400, "message": said, "status": "INVALID_ARGUMENT"}}],
        said,
    ]
    errors = [parse_error(one, upstream="u", redact=redact) for one in documents]
    bodies = [one if isinstance(one, str) else json.dumps(one) for one in documents]
    bodies += [body.replace("/", "\\/") for body in bodies] + [f"<html>{said}</html>"]
    errors += [
        parse_failure(status, {}, body.encode(), upstream="u", now=0.0, redact=redact)
        for body in bodies
        for status in (400, 401, 500)
    ]
    for error in errors:
        shown = f"{error.message} {error.provider_message} {error.provider_code} {error.param}"
        assert not {one for one in pieces(key) if one in shown}


def sse(document: object, name: str = "") -> bytes:
    return (
        f"event: {name}\n" if name else ""
    ).encode() + f"data: {json.dumps(document)}\n\n".encode()


def refuse(dialect: str, said: str) -> bytes:
    """Return an error within an answer, in the words of a format."""
    error = {"code": "invalid_request", "type": "invalid_request_error", "message": said}
    match dialect:
        case "openai_responses":
            failed = {"id": "r", "status": "failed", "error": error, "own": said}
            return sse({"type": "response.failed", "response": failed}, "response.failed")
        case "anthropic" | "vertex_anthropic":
            return sse({"type": "error", "error": error, "own": said}, "error")
        case "gemini_interactions":
            return sse({"event_type": "error", "error": error}, "error")
        case "bedrock_converse" | "bedrock_anthropic":
            return frames.exception("validationException", {"message": said})
        case "cohere":
            end = {"type": "message-end", "delta": {"finish_reason": "ERROR", "error": said}}
            return sse(end, "message-end")
        case "ollama":
            return json.dumps({"error": said}).encode() + b"\n"
    return sse({"error": error, "own": said})


CALLS: dict[str, dict[str, Any]] = {
    "/v1/embeddings": {"input": "a"},
    "/v1/moderations": {"input": "a"},
    "/v1/images/generations": {"prompt": "a"},
    "/v1/messages/count_tokens": {"messages": [{"role": "user", "content": "a"}]},
}


@pytest.mark.parametrize("dialect", UPSTREAM_FORMATS)
async def test_no_part_of_a_quoted_key_leaves_the_relay(dialect, caplog):
    """By any door, in the head or the body of an answer, in a log or a record of a call."""
    caplog.set_level(logging.DEBUG)
    key = KEYS["Z.ai"]
    async with (
        serve_upstream() as upstream,
        serve_relay(upstream, key=key, dialect=dialect) as relay,
    ):
        with structlog.testing.capture_logs() as logs:
            shown: list[str] = []
            for wording in ("Z.ai", "a URL", "basic"):
                said = WORDINGS[wording](key)
                ids = {"x_request_id": key, "x_ratelimit_reset": key}
                body = json.dumps({"error": {"message": said, "code": key}})
                kind = "application/x-ndjson" if dialect == "ollama" else "text/event-stream"
                if "bedrock" in dialect:
                    kind = "application/vnd.amazon.eventstream"
                broken = refuse(dialect, said)
                within = broken.find(key[-4:].encode())
                cut: list[Step] = [send(broken[:within]), wait(0.01), send(broken[within:])]
                scripts: list[list[Step]] = [
                    reply("400 Bad Request", body, **ids),
                    reply("401 Unauthorized", body, **ids),
                    [head(content_type=kind, **ids), send(broken)],
                    [head(content_type=kind), *cut],
                ]
                for number, script in enumerate(scripts):
                    upstream.script = script
                    requests: list[tuple[str, dict[str, Any]]] = [
                        ("/v1/chat", HELLO),
                        ("/v1/chat/completions", REQUESTS["openai_chat"]),
                        ("/v1/responses", {**REQUESTS["openai_responses"], "stream": True}),
                        ("/v1/messages", {**REQUESTS["anthropic"], "stream": True}),
                        *(CALLS.items() if number < 2 else ()),
                    ]
                    for path, request in requests:
                        answer = await relay.client.post(
                            path, json={**request, "model": f"openai/{len(shown)}"}
                        )
                        shown.append(f"{path} {answer.headers} {answer.text}")
            assert len(upstream.calls) > 3 * 4 * 4
        everything = "\n".join([*shown, str(logs), caplog.text])
        assert not {one for one in pieces(key) if one in everything}
        assert "[key]" in everything
