"""Every member that Anthropic's types ask for is there: compared with both official SDKs."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from anthropic.types import Message, RawMessageDeltaEvent, TextBlock, ThinkingBlock, ToolUseBlock
from anthropic.types.beta import BetaMessage, BetaRawMessageDeltaEvent
from pydantic import BaseModel

from app import events as e
from app.dialects.reasoning_signatures import UNSIGNED, pack
from tests.dialects import examples as ex
from tests.dialects.anthropic.messages_protocol import payloads_of
from tests.dialects.clients import render_result
from tests.needs import file

ROOT = Path(__file__).parents[3]
TYPES = ROOT / "node_modules" / "@anthropic-ai" / "sdk" / "resources"
FOUND = [
    {
        "type": "web_search_result",
        "url": "https://a.example",
        "title": "A",
        "page_age": None,
        "encrypted_content": "e",
    }
]
CALLER = {"caller": {"type": "direct"}}
USE: dict[str, Any] = {"type": "server_tool_use", **CALLER}
RESULT: dict[str, Any] = {"type": "web_search_tool_result", **CALLER}


def raw(**fields: Any) -> e.Raw:
    return e.Raw("anthropic", json.dumps(fields))


EVENTS: list[e.Event] = [
    e.StreamStart("st_T", "m", 1700000000),
    *ex.thought(0, "Hm"),
    e.ProviderTool(1, "web_search", {"query": "q"}, raw=raw(id="s", name="web_search", **USE)),
    e.ProviderTool(1, "web_search", output=FOUND, raw=raw(tool_use_id="s", **RESULT)),
    *(e.TextStart(2), e.TextDelta(2, "Hi"), e.Source(url="https://a.example", block=2), e.TextEnd(2)),
    *ex.text(3, "uncited"),
    *ex.call(4, "i", "f", "{}"),
    e.ChoiceEnd("tool_calls", "tool_use"),
    e.StreamEnd("completed", "tool_calls", e.TokenCounts(input_tokens=3, output_tokens=2)),
]  # fmt: skip
# What may be left out, though pydantic does not tell it from what may be null.
OPTIONAL = {
    "citations",  # Anthropic's own answers have no such key, and AI SDK refuses null
    "input_transformations",  # of a beta; TypeScript's type has a question mark
    "toolset_name",
}


def members(kind: str, *, beta: bool) -> set[str]:
    """Read the members of an interface that TypeScript wants to be there."""
    path = TYPES / ("beta/messages/messages.d.ts" if beta else "messages/messages.d.ts")
    file(path, how="run npm ci")
    body = re.search(rf"interface {kind} {{(.*?)\n( *)}}", path.read_text(), re.DOTALL)
    assert body is not None, kind
    plain = re.sub(r"/\*\*.*?\*/", "", body[1], flags=re.DOTALL)
    return set(re.findall(r"^\s+(\w+): ", plain, re.MULTILINE))


def whole() -> dict[str, Any]:
    message: dict[str, Any] = render_result("anthropic", EVENTS)
    return message


def started() -> dict[str, Any]:
    message: dict[str, Any] = payloads_of(EVENTS)[0]["message"]
    return message


def ending() -> dict[str, Any]:
    return payloads_of(EVENTS)[-2]


def block(kind: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in whole()["content"] if one["type"] == kind)
    return found


KINDS = {
    "Message": (whole, started),
    "Usage": (lambda: whole()["usage"], lambda: started()["usage"]),
    "RawMessageDeltaEvent": (ending,),
    "MessageDeltaUsage": (lambda: ending()["usage"],),
    "TextBlock": (
        lambda: block("text"),
        lambda: whole()["content"][-2],
        lambda: next(
            p["content_block"]
            for p in payloads_of(EVENTS)
            if p["type"] == "content_block_start" and p["content_block"]["type"] == "text"
        ),
    ),
    "ThinkingBlock": (lambda: block("thinking"),),
    "ToolUseBlock": (lambda: block("tool_use"),),
    "ServerToolUseBlock": (lambda: block("server_tool_use"),),
    "WebSearchToolResultBlock": (lambda: block("web_search_tool_result"),),
    "CitationsWebSearchResultLocation": (lambda: block("text")["citations"][0],),
}


@pytest.mark.proving  # the types come with npm
@pytest.mark.parametrize("beta", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_every_member_of_typescripts_type_is_there(kind: str, beta: bool) -> None:
    name = kind.replace("Citations", "Citation") if beta and "Citations" in kind else kind
    prefix = "Beta" if beta else ""
    if kind == "CitationsWebSearchResultLocation" and beta:
        name = "CitationsWebSearchResultLocation"
    asked = members(f"{prefix}{name}", beta=beta)

    assert asked
    for made in KINDS[kind]:
        assert asked - OPTIONAL <= made().keys()


@pytest.mark.proving
@pytest.mark.parametrize("beta", [False, True])
def test_every_member_of_the_delta_is_there(beta: bool) -> None:
    assert members("Delta", beta=beta) <= ending()["delta"].keys()


@pytest.mark.parametrize(
    ("model", "value"),
    [
        (Message, whole),
        (BetaMessage, whole),
        (Message, started),
        (BetaMessage, started),
        (RawMessageDeltaEvent, ending),
        (BetaRawMessageDeltaEvent, ending),
        (TextBlock, lambda: block("text")),
        (ThinkingBlock, lambda: block("thinking")),
        (ToolUseBlock, lambda: block("tool_use")),
    ],
)
def test_every_field_of_pythons_type_is_there(model: type[BaseModel], value: Any) -> None:
    given = value()
    model.model_validate(given)

    assert {*model.model_fields} - OPTIONAL <= given.keys()
    for name, field in model.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            assert {*inner.model_fields} <= given[name].keys()


def test_thinking_ends_with_a_signature_also_where_the_provider_has_none() -> None:
    deltas = [p["delta"] for p in payloads_of(EVENTS) if p["type"] == "content_block_delta"]

    assert deltas[:2] == [
        {"type": "thinking_delta", "thinking": "Hm"},
        {"type": "signature_delta", "signature": pack(UNSIGNED)},
    ]
