"""Judgement of the requests that scripted upstreams receive, as their providers would judge them."""

import json
import re
from typing import Any

import pytest

from app.testing import upstream
from app.testing.upstream import Call

from . import Request, find_refusals

_PATHS = {
    "openai_chat": r".*/chat/completions",
    "openai_responses": r".*/responses",
    "openai_completions": r".*(?<!/chat)/completions",
    "anthropic": r".*/v1/messages",
    "vertex_anthropic": r".*/(?P<model>[^/]+):streamRawPredict",
    "bedrock_anthropic": r".*/model/(?P<model>[^/]+)/invoke-with-response-stream",
    "bedrock_converse": r".*/model/(?P<model>[^/]+)/converse-stream",
    "gemini": r".*/(?P<model>[^/]+):streamGenerateContent",
    "gemini_interactions": r".*/interactions",
    "cohere": r".*/v2/chat",
    "ollama": r".*/api/chat",
}
"""The paths of the formats, without a query."""


def judge(call: Call) -> list[str]:
    """Return why the provider of the format that a path belongs to refuses a call."""
    path = call.path.partition("?")[0]
    for dialect, pattern in _PATHS.items():
        found = re.fullmatch(pattern, path)
        if call.method != "POST" or found is None:
            continue
        try:
            body = json.loads(call.body)
        except ValueError:
            return [f"{path}: the body is not JSON"]
        model = found.groupdict().get("model") or ""
        # Hosts of OpenAI's formats differ, and here is none of OpenAI's own.
        host = call.headers.get("host", "") if dialect.startswith("openai") else ""
        request = Request(body, call.headers, host, model)
        return [f"{dialect}: {message}" for message in find_refusals(dialect, request)]
    return []


def watch(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Judge all calls of scripted upstreams from now on; return the list of refusals."""
    found: list[str] = []
    read_call = upstream._read_call

    async def read(*args: Any) -> Call | None:
        call = await read_call(*args)
        if call is not None:
            found.extend(judge(call))
        return call

    monkeypatch.setattr(upstream, "_read_call", read)
    return found
