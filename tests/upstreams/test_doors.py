"""Which requests take another API of their provider."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app.dialects.client_formats import CLIENT_FORMATS
from app.dialects.upstream_formats import UPSTREAM_FORMATS
from app.requests import ChatRequest
from app.settings import load_settings
from app.upstreams.presets import PRESETS
from app.upstreams.targets import Target

pytestmark = pytest.mark.pure

FUNCTION = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}
CALL = {"type": "custom_tool_call", "name": "x", "call_id": "c", "input": "y"}
OUTPUT = {"type": "custom_tool_call_output", "call_id": "c", "output": "z"}
SPACE = {"type": "namespace", "name": "s", "description": "", "tools": [FUNCTION]}

CASES: list[tuple[str, str, str, dict[str, Any], bool]] = [
    ("xai", "grok-4.7", "openai_responses", {"tools": [FUNCTION, {"type": "web_search"}]}, True),
    ("xai", "grok-4.7", "openai_responses", {"tools": [SPACE]}, False),
    ("xai", "grok-4.7", "openai_responses", {"tools": [{"type": "custom", "name": "x"}]}, False),
    ("xai", "grok-4.7", "openai_responses", {"input": [CALL, OUTPUT]}, False),
    ("openai", "gpt-6-luna", "openai_responses", {"tools": [SPACE], "input": [CALL, OUTPUT]}, True),
    ("openai", "o3-pro", "native", {}, True),
    ("openai", "gpt-5.2-codex", "openai_chat", {}, True),
    ("openai", "gpt-4o", "openai_chat", {}, False),
    ("xai", "grok-4.20-multi-agent-0309", "openai_chat", {}, True),
]


@pytest.mark.parametrize(("name", "model", "client", "more", "takes"), CASES)
def test_request_takes_responses(name, model, client, more, takes):
    variable = PRESETS[name].key_env[0]
    (upstream,) = load_settings({variable: "sk-0123456789abcdef"}).upstreams
    target = Target(upstream, model).for_request(request_of(client, more))

    assert ("openai_responses" if takes else "openai_chat") == target.dialect.client_format
    assert f"{name}/{model}" == target.name


def request_of(client: str, more: dict[str, Any]) -> ChatRequest:
    own = {"input": "hello"} if client == "openai_responses" else {"messages": [{"role": "user", "content": "hello"}]}  # fmt: skip
    return CLIENT_FORMATS[client].parse_request(msgspec.json.encode({**own, **more})).chat


def test_documents_name_the_presets_with_doors():
    text = (Path(__file__).parents[2] / "docs/providers/README.md").read_text(encoding="utf-8")
    line = next(one for one in text.splitlines() if one.startswith("The presets `openai`"))

    named = set(re.findall(r"`([a-z]+)`", line))
    assert {name for name, preset in PRESETS.items() if preset.doors} == named


def test_doors_of_presets_have_quirks_of_their_dialect():
    for preset in PRESETS.values():
        for dialect, door in preset.doors.items():
            msgspec.convert(dict(door.quirks), UPSTREAM_FORMATS[dialect].quirks)


def test_fields_that_groq_refuses_are_left_out_with_a_notice():
    (upstream,) = load_settings({"GROQ_API_KEY": "sk-0123456789abcdef"}).upstreams
    chat = request_of("openai_responses", {"store": True, "truncation": "auto", "include": ["reasoning.encrypted_content"]})  # fmt: skip
    request = Target(upstream, "m").for_request(chat).build_request(chat)

    assert {"input": "hello", "model": "m", "store": False, "stream": True} == request.body
    assert "truncation" in request.notices[-1].message
