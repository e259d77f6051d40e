"""The refusing providers: each refuses what its own messages say, and takes a plain request."""

from typing import Any

import pytest

from app.dialects.upstream_format import MODEL
from app.dialects.upstream_formats import UPSTREAM_FORMATS
from app.testing.upstream import Call
from tests.refusing import FORMATS, Request, find_refusals
from tests.refusing.upstream import judge

pytestmark = pytest.mark.pure

Q = {"role": "user", "content": "Hi"}
CLAUDE: dict[str, Any] = {"model": "claude-opus-5", "max_tokens": 99, "messages": [Q]}
TEXT = {"role": "user", "content": [{"text": "Hi"}]}
PARTS = {"role": "user", "parts": [{"text": "Hi"}]}
USE = {"role": "assistant", "content": [{"toolUse": {"toolUseId": "a", "name": "f", "input": {}}}]}
FOUND = {"toolUseId": "a", "content": [{"text": "x"}]}
ANSWERED = {"role": "user", "content": [{"toolResult": FOUND}]}
CALLED = {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]}
NUMBER = {"q": {"type": "integer", "minimum": 1}}
BOUNDED = {"type": "object", "properties": NUMBER, "additionalProperties": False}
PLAIN: dict[str, dict[str, Any]] = {
    "openai_chat": {"model": "m", "messages": [Q]},
    "openai_responses": {"model": "m", "input": [Q]},
    "openai_completions": {"model": "m", "prompt": "Hi"},
    "anthropic": CLAUDE,
    "vertex_anthropic": {
        **{"max_tokens": 99, "messages": [Q]},
        "anthropic_version": "vertex-2023-10-16",
    },
    "bedrock_anthropic": {
        **{"max_tokens": 99, "messages": [Q]},
        "anthropic_version": "bedrock-2023-05-31",
    },
    "bedrock_converse": {"messages": [TEXT]},
    "gemini": {"contents": [PARTS]},
    "gemini_interactions": {
        "model": "m",
        "input": [{"type": "user_input", "content": [{"type": "text", "text": "Hi"}]}],
    },
    "cohere": {"model": "m", "messages": [Q]},
    "ollama": {"model": "m", "messages": [Q]},
}
WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("openai_chat", {"stop": ["a", "b", "c", "d", "e"]}, "array too long"),
    ("openai_chat", {"tools": []}, "empty array"),
    ("openai_chat", {"tool_choice": "none"}, "only allowed when 'tools'"),
    ("openai_chat", {"novel": 1}, "Unknown parameter"),
    ("openai_chat", {"model": "gpt-6", "max_tokens": 5}, "Unsupported parameter"),
    ("openai_responses", {"max_output_tokens": 1}, "below minimum"),
    ("openai_responses", {"input": []}, "must be provided"),
    ("openai_completions", {"stop": ["a", "b", "c", "d", "e"]}, "array too long"),
    ("anthropic", {"messages": []}, "at least one message"),
    ("anthropic", {"stop_sequences": ["\n"]}, "non-whitespace"),
    ("anthropic", {"tool_choice": {"type": "none"}}, "while providing tools"),
    ("anthropic", {"output_config": {"format": {"schema": BOUNDED}}}, "is not supported"),
    ("anthropic", {"messages": [Q, {"role": "assistant", "content": "A"}]}, "prefill"),
    ("anthropic", {"thinking": {"type": "adaptive"}, "temperature": 0.3}, "set to 1"),
    ("bedrock_anthropic", {"anthropic_beta": ["oauth-2025-04-20"]}, "anthropic-beta"),
    ("bedrock_converse", {"messages": []}, "is empty"),
    ("bedrock_converse", {"messages": [TEXT, USE, ANSWERED]}, "toolConfig"),
    ("bedrock_converse", {"messages": [USE, ANSWERED]}, "start with a user"),
    ("gemini", {"contents": []}, "not specified"),
    ("gemini", {"contents": [CALLED]}, "immediately after a user"),
    ("gemini", {"toolConfig": {"functionCallingConfig": {"mode": "NONE"}}}, "without function"),
    ("gemini", {"generationConfig": {"stopSequences": [*"abcdef"]}}, "at most 5"),
    ("gemini_interactions", {"input": []}, "must not be empty"),
    ("cohere", {"temperature": 1.5}, "between 0 and 1"),
    ("cohere", {"tool_choice": "NONE"}, "requires tools"),
    ("ollama", {"messages": [{**Q, "content": []}]}, "cannot unmarshal"),
]


@pytest.mark.parametrize("dialect", FORMATS)
def test_a_plain_request_is_taken(dialect: str) -> None:
    assert find_refusals(dialect, Request(PLAIN[dialect])) == []


@pytest.mark.parametrize(("dialect", "fields", "message"), WRONG)
def test_a_wrong_request_is_refused(dialect: str, fields: dict[str, Any], message: str) -> None:
    (found, *_) = find_refusals(dialect, Request({**PLAIN[dialect], **fields}))

    assert message in found


def test_only_unknown_betas_are_refused_on_vertex() -> None:
    def refused(names: str) -> list[str]:
        request = Request(PLAIN["vertex_anthropic"], {"anthropic-beta": names})
        return find_refusals("vertex_anthropic", request)

    assert refused("context-1m-2025-08-07") == []
    assert "oauth-2025-04-20" in refused("context-1m-2025-08-07,oauth-2025-04-20")[0]


@pytest.mark.parametrize("dialect", UPSTREAM_FORMATS)
def test_calls_are_judged_by_their_path(dialect: str) -> None:
    path = "/v1/" + UPSTREAM_FORMATS[dialect].path.replace(MODEL, "m")
    (found, *_) = judge(Call("POST", path, {}, b"{}"))

    assert found.startswith(f"{dialect}: ")
    assert judge(Call("POST", "/v1/embeddings", {}, b"{}")) == []
