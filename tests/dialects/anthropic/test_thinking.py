"""What Claude refuses beside thinking: left out by every builder, and told."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from app.dialects.anthropic.upstream.request import (
    Quirks,
    render_bedrock_request,
    render_request,
    render_vertex_request,
)
from app.dialects.bedrock.upstream import request as converse
from app.dialects.upstream_format import RenderedRequest
from app.requests import ChatRequest, parse_chat_request

pytestmark = pytest.mark.pure

TEMPERATURE = "requires temperature 1 for a model that thinks: dropped"
TOP_P = "does not allow top_p below 0.95 for a model that thinks: dropped"
FORCED = "does not allow a forced tool_choice for a model that thinks: sent 'auto'"

ONE = "allows only one of temperature and top_p for this model: dropped {}"

TOOL = {"type": "function", "function": {"name": "f"}}
BY_NAME = {"type": "function", "function": {"name": "f"}}
OLD, NEWER, NEW = "claude-sonnet-4-5-20250929", "claude-opus-4-6", "claude-opus-5"
ENABLED = {"type": "enabled", "budget_tokens": 2000}
DISABLED = {"type": "disabled"}
EFFORT = {"reasoning_effort": "low"}


def thinks(config: dict[str, Any]) -> dict[str, Any]:
    return {"provider_options": {"thinking": config}}


Row = tuple[str, str, dict[str, Any], dict[str, Any], list[str]]
ROWS: list[Row] = [
    ("temperature", OLD, {**EFFORT, "temperature": 0.2}, {}, [TEMPERATURE]),
    ("temperature-0", OLD, {**EFFORT, "temperature": 0}, {}, [TEMPERATURE]),
    ("temperature-1", OLD, {**EFFORT, "temperature": 1}, {"temperature": 1}, []),
    ("temperature-2", OLD, {**EFFORT, "temperature": 2}, {"temperature": 1}, []),
    ("top-p", OLD, {**EFFORT, "top_p": 0.9}, {}, [TOP_P]),
    ("top-p-0.95", OLD, {**EFFORT, "top_p": 0.95}, {"top_p": 0.95}, []),
    ("adaptive", NEWER, {**EFFORT, "temperature": 0, "top_p": 0}, {}, [TEMPERATURE, TOP_P]),
    ("newest", NEW, {**EFFORT, "temperature": 0}, {}, [TEMPERATURE]),
    ("no-version", "mine", {**EFFORT, "temperature": 0}, {}, [TEMPERATURE]),
    ("required", OLD, {**EFFORT, "tool_choice": "required"}, {"tool_choice": "auto"}, [FORCED]),
    ("by-name", OLD, {**EFFORT, "tool_choice": BY_NAME}, {"tool_choice": "auto"}, [FORCED]),
    ("forced-4.6", NEWER, {**EFFORT, "tool_choice": "required"}, {"tool_choice": "auto"}, [FORCED]),
    ("forced-5", NEW, {**EFFORT, "tool_choice": "required"}, {"tool_choice": "any"}, []),
    ("not-forced", OLD, {**EFFORT, "tool_choice": "none"}, {"tool_choice": "none"}, []),
    ("no-thought", OLD, {"temperature": 0}, {"temperature": 0}, []),
    ("no-thought-p", OLD, {"top_p": 0.5}, {"top_p": 0.5}, []),
    ("both", OLD, {"temperature": 0, "top_p": 0.5}, {"temperature": 0}, [ONE.format("top_p")]),
    (
        *("both-4.1", "claude-opus-4-1-20250805", {"temperature": 0.2, "top_p": 1}),
        *({"temperature": 0.2}, [ONE.format("top_p")]),
    ),
    (
        "both-1",
        NEWER,
        {"temperature": 1, "top_p": 0.5},
        {"top_p": 0.5},
        [ONE.format("temperature")],
    ),
    (
        *("both-4.0", "claude-sonnet-4-20250514", {"temperature": 0, "top_p": 0.5}),
        *({"temperature": 0, "top_p": 0.5}, []),
    ),
    ("both-mine", "mine", {"temperature": 0, "top_p": 0.5}, {"temperature": 0, "top_p": 0.5}, []),
    (
        *("no-effort", OLD, {"reasoning_effort": "none", "temperature": 0}),
        *({"temperature": 0}, []),
    ),
    ("by-options", OLD, {**thinks(ENABLED), "temperature": 0}, {}, [TEMPERATURE]),
    (
        *("not-by-options", OLD, {**EFFORT, **thinks(DISABLED), "temperature": 0}),
        *({"temperature": 0}, []),
    ),
]


def parse(fields: dict[str, Any]) -> ChatRequest:
    hi = [{"role": "user", "content": "hi"}]
    more = {"tools": [TOOL]} if "tool_choice" in fields else {}
    body = {"messages": hi, "max_tokens": 8000, **more, **fields}
    return parse_chat_request(json.dumps(body).encode())


@pytest.mark.parametrize("render", [render_request, render_vertex_request, render_bedrock_request])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_claude_is_sent_what_it_takes(row: Row, render: Callable[..., RenderedRequest]) -> None:
    _, model, fields, sent, told = row
    request = parse(fields)
    body = render(request, model=model).body
    found: dict[str, Any] = {n: body[n] for n in ("temperature", "top_p") if n in body}
    if "tool_choice" in body:
        found["tool_choice"] = body["tool_choice"]["type"]

    assert found == sent
    assert render_request(request, model=model, quirks=Quirks()).changes == told


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_converse_is_sent_what_claude_takes(row: Row) -> None:
    _, model, fields, sent, told = row
    options = fields.get("provider_options", {})
    effort = fields.get("reasoning_effort", "none")
    thinking = options.get("thinking", ENABLED if effort != "none" else DISABLED)
    if model != OLD and thinking == ENABLED:
        thinking = {"type": "adaptive"}
    more = {"provider_options": {"additionalModelRequestFields": {"thinking": thinking}}}
    name = f"us.anthropic.{model}-v1:0"
    request = parse({**fields, **more})
    body = converse.render_request(request, model=name).body
    given = body.get("inferenceConfig", {})
    found = {ours: given[name] for ours, name in NAMES.items() if name in given}
    if choice := body.get("toolConfig", {}).get("toolChoice"):
        found["tool_choice"] = next(iter(choice))
    if sent.get("tool_choice") == "none":  # which it has no word for
        sent = {}

    assert found == sent
    assert converse.render_request(request, model=name).changes == told


NAMES = {"temperature": "temperature", "top_p": "topP"}
LADDER = [
    *(("low", {}, "low"), ("high", {}, "high"), ("xhigh", {}, "high"), ("max", {}, "high")),
    *(("ultra", {}, "high"), ("xhigh", ENABLED, "xhigh"), ("max", ENABLED, "max")),
    *(("ultra", ENABLED, "max"), ("max", DISABLED, "high")),
]


@pytest.mark.parametrize(("effort", "thinking", "sent"), LADDER)
def test_converse_takes_no_more_effort_than_the_model_thinks(
    effort: str, thinking: dict[str, Any], sent: str
) -> None:
    options: dict[str, Any] = {}
    if thinking:
        options = {"additionalModelRequestFields": {"thinking": thinking}}
    request = parse({"reasoning_effort": effort, "provider_options": options})
    told = [f"does not support reasoning_effort {effort!r}: sent {sent!r}"]

    assert converse.render_request(request, model=OLD).body["outputConfig"] == {"effort": sent}
    changes = converse.render_request(request, model=OLD).changes
    assert changes == ([] if effort == sent else told)


def test_claude_5_thinks_unasked() -> None:
    request = parse({"reasoning_effort": "max"})
    assert converse.render_request(request, model=NEW).body["outputConfig"] == {"effort": "max"}
