"""What Anthropic, Vertex AI and Bedrock's invoke are asked, beside the conversation."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from app.dialects.anthropic.upstream.parser import Parser
from app.dialects.anthropic.upstream.request import (
    IGNORED,
    Quirks,
    render_bedrock_request,
    render_request,
    render_vertex_request,
)
from app.dialects.upstream_format import RenderedRequest
from app.dialects.upstream_formats import UPSTREAM_FORMATS
from app.dialects.writing.conversation import JSON_ONLY
from app.errors import RequestError
from app.framing.lenient import LenientDecoder
from app.requests import ChatRequest, parse_chat_request

pytestmark = pytest.mark.pure

HI = [{"role": "user", "content": "hi"}]
SAID = [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]
PLAIN = {"model": "m", "max_tokens": 16384, "messages": SAID, "stream": True}


def render(
    request: dict[str, Any], how: Callable[..., RenderedRequest] = render_request, **quirks: Any
) -> dict[str, Any]:
    parsed = parse_chat_request(json.dumps({"messages": HI, **request}).encode())
    body = how(parsed, model="m", quirks=msgspec.convert(quirks, Quirks)).body
    assert json.loads(json.dumps(body)) == body
    return body


def added(request: dict[str, Any], **quirks: Any) -> dict[str, Any]:
    """Return what a request adds to the body of a plain one, or changes there."""
    body = render(request, **quirks)
    return {name: value for name, value in body.items() if PLAIN.get(name) != value}


def function(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, **more}}


def use(**choice: Any) -> dict[str, Any]:
    return {"tools": [NO_INPUT], "tool_choice": choice}


SCHEMA = {"type": "object", "properties": {"x": {"type": "string"}}}
F = function("f")
NO_INPUT = {"name": "f", "input_schema": {"type": "object", "properties": {}}}
BY_NAME = {"type": "function", "function": {"name": "f"}}
IN_TURN = {"disable_parallel_tool_use": True}
FORM = {"type": "json_schema", "json_schema": {"name": "s", "schema": SCHEMA, "strict": True}}
ADAPTIVE = {"type": "adaptive", "display": "summarized"}


def thinks(effort: str) -> dict[str, Any]:
    return {"thinking": ADAPTIVE, "output_config": {"effort": effort}}


def budget(tokens: int) -> dict[str, Any]:
    return {"thinking": {"type": "enabled", "budget_tokens": tokens}}


ADDED: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("plain", {}, {}),
    ("what-is-ours", {"model": "r", "stream": False, "on_disconnect": 5, "n": 1}, {}),
    (
        "what-has-no-place",
        {
            **{"seed": 1, "frequency_penalty": 1, "presence_penalty": 1},
            **{"logprobs": True, "top_logprobs": 1, "metadata": {"a": "b"}},
        },
        {},
    ),
    ("a-limit", {"max_tokens": 5}, {"max_tokens": 5}),
    ("a-newer-limit", {"max_tokens": 5, "max_completion_tokens": 6}, {"max_tokens": 6}),
    ("cold", {"temperature": 0, "top_p": 0}, {"temperature": 0, "top_p": 0}),
    ("warm", {"temperature": 0.5, "top_p": 0.9}, {"temperature": 0.5, "top_p": 0.9}),
    ("hot", {"temperature": 1.7}, {"temperature": 1}),
    ("a-stop", {"stop": "a"}, {"stop_sequences": ["a"]}),
    ("stops", {"stop": ["a", "b"]}, {"stop_sequences": ["a", "b"]}),
    ("a-user", {"user": "u"}, {"metadata": {"user_id": "u"}}),
    ("a-tool", {"tools": [F]}, {"tools": [NO_INPUT]}),
    (
        "tools",
        {
            "tools": [
                function("f", description="d", parameters=SCHEMA, strict=True),
                function("g", description="", parameters={"properties": {}}, strict=False),
            ]
        },
        {
            "tools": [
                {"name": "f", "description": "d", "input_schema": SCHEMA, "strict": True},
                {
                    "name": "g",
                    "input_schema": {"type": "object", "properties": {}},
                    "strict": False,
                },
            ]
        },
    ),
    ("any-tool", {"tools": [F], "tool_choice": "required"}, use(type="any")),
    ("perhaps-a-tool", {"tools": [F], "tool_choice": "auto"}, use(type="auto")),
    ("no-tool", {"tools": [F], "tool_choice": "none"}, use(type="none")),
    ("that-tool", {"tools": [F], "tool_choice": BY_NAME}, use(type="tool", name="f")),
    ("one-at-a-time", {"tools": [F], "parallel_tool_calls": False}, use(type="auto", **IN_TURN)),
    (
        "that-tool-once",
        {"tools": [F], "parallel_tool_calls": False, "tool_choice": BY_NAME},
        use(type="tool", name="f", **IN_TURN),
    ),
    (
        "no-tool-at-a-time",
        {"tools": [F], "parallel_tool_calls": False, "tool_choice": "none"},
        use(type="none"),
    ),
    ("parallel", {"tools": [F], "parallel_tool_calls": True}, {"tools": [NO_INPUT]}),
    ("a-choice-among-none", {"tool_choice": "auto", "parallel_tool_calls": False}, {}),
    (
        "a-choice-among-others",
        {"tool_choice": "auto", "provider_options": {"tools": [{"type": "web_search_20260318"}]}},
        {"tool_choice": {"type": "auto"}, "tools": [{"type": "web_search_20260318"}]},
    ),
    ("any-form", {"response_format": {"type": "text"}}, {}),
    (
        "json",
        {"response_format": {"type": "json_object"}},
        {"system": [{"type": "text", "text": JSON_ONLY}]},
    ),
    (
        "a-schema",
        {"response_format": FORM},
        {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
    ),
    *((f"effort-{word}", {"reasoning_effort": word}, thinks(word)) for word in ("low", "xhigh")),
    ("effort-minimal", {"reasoning_effort": "minimal"}, thinks("low")),
    ("effort-none", {"reasoning_effort": "none"}, {"thinking": {"type": "disabled"}}),
    (
        "effort-and-a-schema",
        {"reasoning_effort": "high", "response_format": FORM},
        {
            "thinking": ADAPTIVE,
            "output_config": {
                "effort": "high",
                "format": {"type": "json_schema", "schema": SCHEMA},
            },
        },
    ),
]


@pytest.mark.parametrize(
    ("request_", "expected"), [c[1:] for c in ADDED], ids=[c[0] for c in ADDED]
)
def test_what_a_request_becomes(request_: dict[str, Any], expected: dict[str, Any]) -> None:
    assert added(request_) == expected


def test_a_plain_request_asks_for_a_stream_within_a_limit() -> None:
    assert render({}) == PLAIN
    assert render({}, default_max_tokens=5)["max_tokens"] == 5
    assert render({"max_tokens": 7}, default_max_tokens=5)["max_tokens"] == 7


def test_sampling_is_left_out_where_the_models_refuse_it() -> None:
    assert added({"temperature": 0, "top_p": 1}, sampling=False) == {}


@pytest.mark.parametrize(
    ("effort", "limit", "tokens"),
    [("low", 4000, 1024), ("medium", 16384, 4096), ("max", 16384, 8192), ("high", 1500, 1024)],
)
def test_older_models_think_within_a_budget(effort: str, limit: int, tokens: int) -> None:
    body = added({"reasoning_effort": effort, "max_tokens": limit}, thinking="budget")

    assert {"thinking": body["thinking"]} == budget(tokens)
    assert "output_config" not in body


MODELS = [
    *(("claude-2.1", True), ("claude-3-7-sonnet-20250219", True), ("claude-opus-4-20250514", True)),
    *(("anthropic.claude-sonnet-4-5-20250929-v1:0", True), ("claude-haiku-4-5@20251001", True)),
    *(("claude-opus-4-6", False), ("claude-sonnet-4-6", False), ("claude-opus-4-10", False)),
    *(("claude-opus-5", False), ("claude-haiku-5-5-20261001", False)),
    *(("claude-mythos-preview", False), ("mine", False)),
]


@pytest.mark.parametrize(("model", "older"), MODELS)
def test_the_models_name_says_how_it_thinks(model: str, older: bool) -> None:
    request = parse_chat_request(
        json.dumps({"messages": HI, "reasoning_effort": "low", "max_tokens": 4000}).encode()
    )
    for how in (render_request, render_vertex_request, render_bedrock_request):
        assert (how(request, model=model).body["thinking"]["type"] == "enabled") == older
    body = render_request(request, model=model, quirks=Quirks(thinking="adaptive")).body
    assert body["thinking"] == ADAPTIVE


def test_older_models_need_not_think() -> None:
    disabled = {"thinking": {"type": "disabled"}}
    assert added({"reasoning_effort": "none"}, thinking="budget") == disabled


REFUSED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"n": 2}, {}, "n: more than one answer cannot be sent in Anthropic Messages"),
    (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "s"}}},
        {},
        "response_format.json_schema: JSON without a schema cannot be sent in Anthropic Messages",
    ),
    (
        {"reasoning_effort": "some"},
        {"thinking": "budget"},
        "reasoning_effort: 'some' cannot be sent in Anthropic Messages",
    ),
    (
        {"reasoning_effort": "low", "max_tokens": 1024},
        {"thinking": "budget"},
        "max_tokens: thinking in 1024 tokens or fewer cannot be sent in Anthropic Messages",
    ),
]


@pytest.mark.parametrize(("request_", "quirks", "said"), REFUSED)
def test_what_cannot_be_said_is_refused(
    request_: dict[str, Any], quirks: dict[str, Any], said: str
) -> None:
    with pytest.raises(RequestError) as raised:
        render(request_, **quirks)

    assert (raised.value.code, raised.value.message) == ("invalid_request", said)


def test_provider_options_overrule_all_but_model_and_stream() -> None:
    options = {"max_tokens": 1, "top_k": 5, "system": "s", "model": "dear", "stream": False}
    body = render({"temperature": 0, "provider_options": options})

    assert body == {**PLAIN, "temperature": 0, "max_tokens": 1, "top_k": 5, "system": "s"}


def test_the_url_says_the_model_on_vertex() -> None:
    options = {"model": "dear", "stream": False, "top_k": 5}
    body = render({"provider_options": options}, render_vertex_request)

    rest = {name: value for name, value in PLAIN.items() if name != "model"}
    assert body == {**rest, "top_k": 5, "anthropic_version": "vertex-2023-10-16"}


def test_the_url_says_model_and_stream_on_bedrock() -> None:
    options = {"model": "dear", "stream": False, "anthropic_beta": ["b"]}
    body = render({"provider_options": options}, render_bedrock_request)

    assert body == {
        **{"max_tokens": 16384, "messages": SAID, "anthropic_beta": ["b"]},
        "anthropic_version": "bedrock-2023-05-31",
    }


def test_the_request_is_not_changed() -> None:
    request = parse_chat_request(
        json.dumps({"messages": HI, "provider_options": {"a": {"b": 1}}}).encode()
    )
    render_request(request, model="m").body["a"]["b"] = 2

    assert request.provider_options == {"a": {"b": 1}}


def test_the_table_names_the_dialects() -> None:
    own, vertex = UPSTREAM_FORMATS["anthropic"], UPSTREAM_FORMATS["vertex_anthropic"]

    assert (own.path, own.models_path) == ("v1/messages", "v1/models")
    assert (vertex.path, vertex.models_path) == ("{model}:streamRawPredict", None)
    assert own.render_request is render_request
    assert vertex.render_request is render_vertex_request
    for dialect in (own, vertex):
        assert (dialect.parser, dialect.decoder) == (Parser, LenientDecoder)
        assert (dialect.quirks, dialect.ignored) == (Quirks, IGNORED)


def test_what_is_ignored_is_a_field_of_a_request() -> None:
    assert set(ChatRequest.__struct_fields__) >= IGNORED
