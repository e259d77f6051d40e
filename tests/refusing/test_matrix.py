"""Requests of every client format at every provider: each is taken, or is refused by the relay."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import pytest

from app.dialects.client_formats import CLIENT_FORMATS
from app.dialects.upstream_formats import UPSTREAM_FORMATS
from app.errors import RequestError
from app.upstreams.endpoints import Upstream
from app.upstreams.request_builder import RequestBuilder, TargetRequest
from tests.refusing import Request, find_refusals
from tests.refusing.cases import CASES, USER
from tests.refusing.conversions import CONVERSIONS, NotExpressible

pytestmark = pytest.mark.pure


class Target(NamedTuple):
    dialect: str
    model: str
    quirks: Mapping[str, Any] = {}


LIMITS = {"openai_limits": True}
OPENAIS = {
    **{"max_tokens_field": "max_completion_tokens", "allowed_tools": True, "call_ids": "40"},
    **LIMITS,
}
TARGETS = (
    Target("openai_chat", "gpt-6", OPENAIS),
    Target("openai_responses", "gpt-6", LIMITS),
    Target("anthropic", "claude-sonnet-4-5"),
    Target("anthropic", "claude-opus-5"),
    Target("vertex_anthropic", "claude-haiku-4-5@20251001"),
    Target("bedrock_anthropic", "anthropic.claude-sonnet-4-6-v1:0"),
    Target("bedrock_converse", "anthropic.claude-sonnet-4-5-v1:0"),
    Target("bedrock_converse", "amazon.nova-pro-v1:0"),
    Target("gemini", "gemini-2.5-pro"),
    Target("gemini", "gemini-3.5-flash"),
    Target("gemini_interactions", "gemini-3.5-flash"),
    Target("cohere", "command-a"),
    Target("ollama", "llama4"),
)


@cache
def builder(dialect: str, model: str, quirks: str) -> RequestBuilder:
    upstream = Upstream(
        name="u",
        base_url="http://127.0.0.1:9",
        dialect=dialect,
        quirks=UPSTREAM_FORMATS[dialect].quirks(**json.loads(quirks)),
    )
    return RequestBuilder(upstream, model)


def build(client: str, body: dict[str, Any], target: Target) -> TargetRequest:
    """Return what a provider is sent for the body of a client.

    Raises:
        RequestError: the relay refuses the request itself.
    """
    named = {} if client in ("ui", "ag_ui") else {"model": "m"}
    data = json.dumps({**named, **body}).encode()
    chat = CLIENT_FORMATS[client].parse_request(data).chat
    return builder(target.dialect, target.model, json.dumps({**target.quirks})).build(
        chat, last=True
    )


def judge(target: Target, request: TargetRequest) -> list[str]:
    body = json.loads(json.dumps(request.body))
    return find_refusals(target.dialect, Request(body, request.headers, model=target.model))


def is_clients_fault(client: str, body: dict[str, Any], target: Target) -> bool:
    """Return whether the provider refuses the client's own body, in its own dialect."""
    if UPSTREAM_FORMATS[target.dialect].client_format != client and client != target.dialect:
        return False
    own = {"model": target.model, "stream": True, **body}
    return bool(find_refusals(target.dialect.replace("vertex_", ""), Request(own)))


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: f"{target.dialect}-{target.model}")
@pytest.mark.parametrize("client", CONVERSIONS)
def test_a_request_is_taken_or_refused_by_the_relay(client: str, target: Target) -> None:
    found = {}
    for name, case in CASES.items():
        try:
            body = CONVERSIONS[client](json.loads(json.dumps(case)))
            sent = build(client, body, target)
        except NotExpressible:
            continue
        except RequestError:
            continue
        refused = judge(target, sent)
        if refused and not is_clients_fault(client, body, target):
            found[name] = refused

    assert found == {}


def test_every_format_has_a_provider_and_every_client_a_conversion() -> None:
    assert {target.dialect for target in TARGETS} == set(UPSTREAM_FORMATS)
    assert set(CONVERSIONS) == set(CLIENT_FORMATS)
    assert build("native", {"messages": [USER]}, TARGETS[0]).body["messages"] == [USER]
