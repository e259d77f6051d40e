"""Providers that refuse: what each API answers with 400, written apart from the relay's rules.

`find_refusals` returns the messages of a provider of a format for a request. Each rule has its
source: an error message in a public report, or the provider's reference. Rules of this package
never come from `app`, so that one mistake cannot be in both.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from . import claude, cohere, converse, google, ollama, openai


class Request(NamedTuple):
    """A request as a provider receives it."""

    body: Mapping[str, Any]
    headers: Mapping[str, str] = {}
    host: str = ""
    """The host of the provider itself, unless it is another with the same format."""
    model: str = ""
    """The model in the path, where the body has none."""


FORMATS: Mapping[str, Callable[..., list[str]]] = {
    "openai_chat": openai.refuse_chat,
    "openai_responses": openai.refuse_responses,
    "openai_completions": openai.refuse_completions,
    "anthropic": claude.refuse_api,
    "vertex_anthropic": claude.refuse_vertex,
    "bedrock_anthropic": claude.refuse_bedrock,
    "bedrock_converse": converse.refuse,
    "gemini": google.refuse_content,
    "gemini_interactions": google.refuse_interactions,
    "cohere": cohere.refuse,
    "ollama": ollama.refuse,
}


def find_refusals(dialect: str, request: Request) -> list[str]:
    """Return why a provider of this format refuses a request; nothing if it takes it."""
    model = request.model or str(request.body.get("model", ""))
    return FORMATS[dialect](request.body, request.headers, request.host, model=model)
