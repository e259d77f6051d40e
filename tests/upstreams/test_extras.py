"""Fields that only some providers of Chat Completions have: where they go, by the dialect."""

import json
from typing import Any

import msgspec
import pytest

from app.dialects.openai_chat.client.request import parse_request
from app.dialects.openai_chat.upstream.request import Quirks
from app.dialects.upstream_formats import UPSTREAM_FORMATS
from app.errors import RequestError
from app.requests import ChatRequest
from app.upstreams.endpoints import Upstream
from app.upstreams.presets import PRESETS
from app.upstreams.targets import Target

pytestmark = pytest.mark.pure

SAFE = ("safe",)


def ask(**fields: Any) -> ChatRequest:
    body = {"model": "r", "messages": [{"role": "user", "content": "x"}], **fields}
    return parse_request(json.dumps(body).encode()).chat


def target(
    dialect: str, options: tuple[str, ...] | None = SAFE, *, model: str = "m", **quirks: Any
) -> Target:
    kind = UPSTREAM_FORMATS[dialect].quirks
    own = msgspec.convert(quirks, kind) if quirks else None
    upstream = Upstream("u", "http://127.0.0.1:9", dialect, options=options, quirks=own)
    return Target(upstream, model)


async def sent(to: Target, **fields: Any) -> dict[str, Any]:
    call = await to.build_call(to.build_request(ask(**fields)), connect_timeout_s=1)
    return json.loads(call.content)


def told(to: Target, **fields: Any) -> list[str]:
    return [notice.message for notice in to.build_request(ask(**fields)).notices]


def quirks_of(preset: str) -> dict[str, Any]:
    return {**PRESETS[preset].quirks, **PRESETS[preset].host_quirks}


def found(body: Any, path: str) -> Any:
    for step in path.split("."):
        body = body.get(step) if isinstance(body, dict) else None
    return body


CLAUDE = {"type": "enabled", "budget_tokens": 2000}
PLACES: list[tuple[str, dict[str, Any], str, Any]] = [
    *(
        ("openai_chat", {name: value}, name, value)
        for name, value in {
            "top_k": 3, "min_p": 0.1, "repetition_penalty": 1.1, "enable_thinking": False,
            "chat_template_kwargs": {"enable_thinking": False}, "thinking": {"type": "enabled"},
            "reasoning": {"max_tokens": 9}, "logit_bias": {"1": 2.0}, "usage": {"include": True},
            "prediction": {"type": "content", "content": "a"},
        }.items()
    ),
    ("anthropic", {"top_k": 3}, "top_k", 3),
    ("anthropic", {"thinking": CLAUDE}, "thinking", CLAUDE),
    ("anthropic", {"thinking": {"type": "enabled"}}, "thinking.type", "adaptive"),
    ("anthropic", {"enable_thinking": False}, "thinking.type", "disabled"),
    ("anthropic", {"reasoning": {"effort": "high"}}, "output_config.effort", "high"),
    ("vertex_anthropic", {"top_k": 3}, "top_k", 3),
    ("bedrock_anthropic", {"top_k": 3}, "top_k", 3),
    ("bedrock_converse", {"top_k": 3}, "additionalModelRequestFields.top_k", 3),
    ("bedrock_converse", {"thinking": CLAUDE}, "additionalModelRequestFields.thinking", CLAUDE),
    ("gemini", {"top_k": 3}, "generationConfig.topK", 3),
    ("gemini", {"top_k": 3, "temperature": 1}, "generationConfig.temperature", 1.0),
    ("gemini", {"modalities": ["text", "image"]}, "generationConfig.responseModalities", ["TEXT", "IMAGE"]),
    ("gemini", {"reasoning": {"max_tokens": 2000}}, "generationConfig.thinkingConfig.thinkingLevel", "LOW"),
    ("gemini_interactions", {"modalities": ["text", "image"]}, "response_format", [{"type": "text"}, {"type": "image"}]),
    ("gemini_interactions", {"thinking": {"budget_tokens": 2000}}, "generation_config.thinking_level", "low"),
    ("cohere", {"top_k": 3}, "k", 3),
    ("cohere", {"thinking": {"type": "disabled"}}, "thinking.type", "disabled"),
    ("ollama", {"top_k": 3}, "options.top_k", 3),
    ("ollama", {"top_k": 3, "seed": 4}, "options.seed", 4),
    ("ollama", {"repetition_penalty": 1.1}, "options.repeat_penalty", 1.1),
    ("ollama", {"min_p": 0.1}, "options.min_p", 0.1),
    ("ollama", {"chat_template_kwargs": {"enable_thinking": False}}, "think", False),
    ("ollama", {"think": True}, "think", True),
    ("openai_responses", {"reasoning": {"effort": "low"}}, "reasoning.effort", "low"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("dialect", "fields", "path", "value"), PLACES, ids=[f"{r[0]}-{r[2]}" for r in PLACES]
)
async def test_an_extra_goes_to_its_place(
    dialect: str, fields: dict[str, Any], path: str, value: Any
) -> None:
    to = target(dialect)

    assert value == found(await sent(to, **fields), path)
    assert [] == told(to, **fields)


@pytest.mark.parametrize("dialect", UPSTREAM_FORMATS)
async def test_what_a_dialect_has_no_place_for_is_left_out_and_told(dialect: str) -> None:
    """On a chat upstream it is what the settings do not allow."""
    fields = {"flavour": 1, "top_a": 0.5} if dialect != "openai_chat" else {"flavour": 1}
    to = target(dialect)

    assert await sent(to) == await sent(to, **fields)
    (message,) = told(to, **fields)
    assert ", ".join(sorted(fields)) in message
    assert "dropped" in message


BEYOND = {
    "models": ["x"], "provider": {"order": ["x"]}, "api_base": "http://x", "mcp_servers": [1],
    "previous_response_id": "resp_1", "Stream": False,
}  # fmt: skip


@pytest.mark.parametrize("dialect", UPSTREAM_FORMATS)
@pytest.mark.parametrize("options", [SAFE, None])
async def test_what_would_reach_beyond_the_answer_is_refused_by_its_name(
    dialect: str, options: tuple[str, ...] | None
) -> None:
    for name, value in BEYOND.items():
        with pytest.raises(RequestError) as caught:
            await sent(target(dialect, options), **{name: value})

        assert caught.value.message.startswith(name)


@pytest.mark.parametrize("dialect", [d for d in UPSTREAM_FORMATS if d != "openai_chat"])
async def test_without_what_the_answer_would_be_another_it_is_refused(dialect: str) -> None:
    fields = {"guided_json": {}, "grammar": "a", "web_search_options": {"a": 1}, "audio": {"voice": "x"}}  # fmt: skip
    for name, value in fields.items():
        with pytest.raises(RequestError, match="the answer would differ without it"):
            await sent(target(dialect), **{name: value})


@pytest.mark.parametrize("dialect", UPSTREAM_FORMATS)
async def test_what_a_client_says_in_the_providers_words_overrules(dialect: str) -> None:
    options = {"top_k": 7} if dialect in ("openai_chat", "anthropic") else {}
    body = await sent(target(dialect), top_k=3, provider_options=options)

    assert 7 == body["top_k"] if options else "provider_options" not in body


STRICT = [name for name in PRESETS if "extras" in quirks_of(name)]


@pytest.mark.parametrize("name", STRICT)
async def test_a_host_that_refuses_what_it_does_not_know_is_sent_what_it_knows(name: str) -> None:
    quirks = quirks_of(name)
    to = target("openai_chat", None, **quirks)
    bias = "logit_bias" in (msgspec.convert(quirks, Quirks).extras or ())
    known = {"logit_bias": {"1": 1.0}} if bias else {}

    assert await sent(to) == await sent(to, flavour=1, enable_thinking=True)
    assert known.items() <= (await sent(to, **known)).items()
    assert any(
        "enable_thinking, flavour" in message
        for message in told(to, flavour=1, enable_thinking=True)
    )


TIERS = [
    ("openai_chat", "service_tier", "flex"),
    ("openai_responses", "service_tier", "flex"),
    ("bedrock_converse", "serviceTier", {"type": "flex"}),
    ("gemini", "serviceTier", "flex"),
]


@pytest.mark.parametrize(("dialect", "field", "value"), TIERS)
async def test_a_tier_is_what_the_settings_allow(dialect: str, field: str, value: Any) -> None:
    with pytest.raises(RequestError, match=r"service_tier: upstream 'u' does not allow it"):
        await sent(target(dialect), service_tier="flex")
    for usual in ("auto", "default", None):
        assert field not in await sent(target(dialect), service_tier=usual)

    assert value == (await sent(target(dialect, ("service_tier",)), service_tier="flex"))[field]


async def test_a_tier_that_a_dialect_has_not_is_told() -> None:
    assert ["upstream 'u' does not support service_tier: dropped"] == told(
        target("anthropic"), service_tier="flex"
    )


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses"])
async def test_an_answer_is_stored_where_the_settings_allow_it(dialect: str) -> None:
    to = target(dialect)

    assert not (await sent(to, store=True)).get("store")
    assert ["upstream 'u' does not allow store from clients (setting `options`): dropped"] == told(
        to, store=True
    )
    assert [] == told(to, store=False)
    assert (await sent(target(dialect, ("store",)), store=True))["store"] is True


VERBOSE = [("openai_chat", "verbosity"), ("openai_responses", "text.verbosity")]


@pytest.mark.parametrize(("dialect", "path"), VERBOSE)
async def test_verbosity_stands_where_the_dialect_has_it(dialect: str, path: str) -> None:
    assert "low" == found(await sent(target(dialect), verbosity="low"), path)


NAMED = {"type": "function", "function": {"name": "f"}}


@pytest.mark.parametrize(
    ("dialect", "mode"),
    [
        (dialect, mode)
        for dialect in UPSTREAM_FORMATS
        for mode in ("auto", "required")
        if (dialect, mode) != ("ollama", "required")  # which it has no word for
    ],
)
async def test_no_tool_is_called_that_is_not_allowed(dialect: str, mode: str) -> None:
    tools = [NAMED, {"type": "function", "function": {"name": "other"}}]
    listed = {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": [NAMED]}}
    body = json.dumps(await sent(target(dialect), tools=tools, tool_choice=listed))
    whole = '"allowed_tools"' in body or "allowedFunctionNames" in body

    assert whole or '"other"' not in body
    assert '"f"' in body


async def test_allowed_tools_go_on_to_openai_as_they_came() -> None:
    tools = [NAMED, {"type": "function", "function": {"name": "other"}}]
    listed = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [NAMED]}}
    to = target("openai_chat", **quirks_of("openai"))
    body = await sent(to, tools=tools, tool_choice=listed)

    assert listed == body["tool_choice"]
    assert 2 == len(body["tools"])


async def test_only_tools_that_are_there_can_be_allowed() -> None:
    listed = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [NAMED]}}
    with pytest.raises(RequestError, match="'f' is not in `tools`"):
        await sent(target("anthropic"), tool_choice=listed)


async def test_an_identifier_is_the_user_where_only_that_is_known() -> None:
    groq = target("openai_chat", **quirks_of("groq"))
    mistral = target("openai_chat", **quirks_of("mistral"))

    assert "s" == (await sent(groq, safety_identifier="s"))["user"]
    assert not {"user", "safety_identifier"} & (await sent(mistral, safety_identifier="s")).keys()
    assert {"user_id": "s"} == (await sent(target("anthropic"), safety_identifier="s"))["metadata"]
