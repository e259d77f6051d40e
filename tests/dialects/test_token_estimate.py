"""What a request may take is estimated wherever it stands, also where only one dialect has it."""

from typing import Any

import msgspec
import pytest

from app.dialects.client_formats import CLIENT_FORMATS
from app.dialects.writing.token_estimate import IMAGE, estimate_tokens

pytestmark = pytest.mark.pure

WORDS = "word " * 4000
"""5,000 tokens, by the estimate."""
TEXTS = [{"type": "text", "text": WORDS}]
ASK = {"role": "user", "content": "x"}


def messages(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"max_tokens": 50, "messages": [{"role": "user", "content": [*parts]}]}


def items(*given: dict[str, Any]) -> dict[str, Any]:
    return {"input": [*given, ASK]}


SAID: list[tuple[str, dict[str, Any]]] = [
    ("anthropic", messages({"type": "search_result", "source": "s", "title": "t", "content": TEXTS})),
    ("anthropic", {**messages({"type": "text", "text": "x"}), "tools": [{"name": "f", "input_schema": {"type": "object"}, "input_examples": [WORDS]}]}),
    ("anthropic", {**messages({"type": "text", "text": "x"}), "mcp_servers": [{"name": WORDS}]}),
    ("openai_responses", items({"type": "mcp_call", "id": "i", "output": WORDS})),
    ("openai_responses", items({"type": "web_search_call", "id": "i", "action": {"query": WORDS}})),
    ("openai_chat", {"messages": [ASK], "documents": [WORDS]}),
    ("native", {"messages": [ASK], "provider_options": {"messages": [WORDS]}}),
]  # fmt: skip


@pytest.mark.parametrize(("client", "body"), SAID)
def test_all_that_is_said_is_estimated(client, body):
    parse = CLIENT_FORMATS[client].parse_request
    chat = parse(msgspec.json.encode({"model": "u/m", **body})).chat

    assert 5000 <= estimate_tokens(chat) < 5500


def test_a_picture_is_no_text():
    screen = {"type": "computer_screenshot", "image_url": f"data:image/png;base64,{'A' * 40_000}"}
    body = items({"type": "computer_call_output", "call_id": "c", "output": screen})
    chat = CLIENT_FORMATS["openai_responses"].parse_request(msgspec.json.encode(body)).chat

    assert IMAGE <= estimate_tokens(chat) < 2 * IMAGE
