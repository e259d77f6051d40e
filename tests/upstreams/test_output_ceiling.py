"""No body asks for more of an answer than was reserved for, however it is asked for."""

from itertools import product
from typing import Any

import msgspec
import pytest

from app.dialects.client_formats import CLIENT_FORMATS
from app.dialects.upstream_formats import UPSTREAM_FORMATS
from app.errors import RequestError
from app.requests import ChatRequest, OutputCeiling
from app.upstreams.endpoints import Upstream
from app.upstreams.request_builder import RequestBuilder

pytestmark = pytest.mark.pure

LIMIT = {
    "openai_chat": ("max_tokens",),
    "openai_responses": ("max_output_tokens",),
    "anthropic": ("max_tokens",),
    "vertex_anthropic": ("max_tokens",),
    "bedrock_anthropic": ("max_tokens",),
    "bedrock_converse": ("inferenceConfig", "maxTokens"),
    "gemini": ("generationConfig", "maxOutputTokens"),
    "gemini_interactions": ("generation_config", "max_output_tokens"),
    "cohere": ("max_tokens",),
    "ollama": ("options", "num_predict"),
}
NAMES = (
    *("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens", "maxTokens"),
    *("num_predict", "n_predict", "max_new_tokens", "MAX_TOKENS", "max-tokens", "maxtokenſ"),
)


def make(dialect: str, ceiling: OutputCeiling, **fields: Any) -> dict[str, Any]:
    """Return the body that an upstream is sent which takes everything from clients."""
    messages = [{"role": "user", "content": "x"}]
    chat = msgspec.convert({"messages": messages, **fields}, ChatRequest)
    return build(dialect, msgspec.structs.replace(chat, ceiling=ceiling))


def build(dialect: str, chat: ChatRequest) -> dict[str, Any]:
    upstream = Upstream("u", "http://u", dialect=dialect, options=("*",))
    return RequestBuilder(upstream, "m").build(chat, last=True).body


def at(body: dict[str, Any], path: tuple[str, ...]) -> Any:
    found: Any = body
    for step in path:
        found = found[step]
    return found


def asked(value: Any) -> list[Any]:
    """All numbers of a body but those of its messages."""
    if isinstance(value, dict):
        inner = [v for k, v in value.items() if k not in ("messages", "contents", "input")]
        return [n for v in inner for n in asked(v)]
    if isinstance(value, list):
        return [n for v in value for n in asked(v)]
    return [value]


@pytest.mark.parametrize("dialect", LIMIT)
def test_every_format_is_told_the_ceiling(dialect):
    assert 100 == at(make(dialect, OutputCeiling(100)), LIMIT[dialect])
    assert 100 == at(make(dialect, OutputCeiling(100), max_tokens=5000), LIMIT[dialect])
    assert 40 == at(make(dialect, OutputCeiling(100), max_tokens=40), LIMIT[dialect])
    assert set(LIMIT) == set(UPSTREAM_FORMATS)


@pytest.mark.parametrize("dialect", LIMIT)
def test_options_do_not_go_round_the_ceiling(dialect):
    path = LIMIT[dialect]
    worths: list[Any] = [5000, -1, 0, "5000", 5e3, None, [5000], {"a": 1}, True]
    for name, worth in product(NAMES, worths):
        for options in (
            {name: worth},
            {"deep": {"er": [{name: worth}]}},
            *({path[0]: {name: worth}} for _ in path[1:]),
            *({path[0].upper(): {name: worth}} for _ in path[1:]),
            *({f"_{path[0]}": {name: worth}, path[0]: {"x": 1}} for _ in path[1:]),
            *({path[0]: worth} for _ in path[1:]),
        ):
            body = make(dialect, OutputCeiling(100), provider_options=options)
            assert 100 == at(body, path), options
            assert 5000 not in asked(body), options
            assert "5000" not in asked(body), options
            assert -1 not in asked(body), options


@pytest.mark.parametrize("dialect", LIMIT)
def test_options_do_not_ask_for_more_answers(dialect):
    names = ("n", "N", "best_of", "candidateCount", "num_generations")
    for name, worth in product(names, (4, "4", 4.0, 0, -1, True)):
        for options in ({name: worth}, {"deep": {name: worth}}):
            with pytest.raises(RequestError, match=name):
                make(dialect, OutputCeiling(100), provider_options=options)


def test_answers_that_were_reserved_for_are_asked_for():
    for dialect, field in (
        ("openai_chat", ("n",)),
        ("gemini", ("generationConfig", "candidateCount")),
    ):
        assert 3 == at(make(dialect, OutputCeiling(100, 3), n=3), field)


THINKING = {"thinking": {"type": "enabled", "budget_tokens": 9000}}


@pytest.mark.parametrize(
    ("dialect", "options"),
    [
        ("anthropic", THINKING),
        ("vertex_anthropic", THINKING),
        ("bedrock_anthropic", THINKING),
        ("bedrock_converse", {"additionalModelRequestFields": THINKING}),
        ("openai_chat", THINKING),
    ],
)
def test_claudes_budget_stays_below_the_ceiling_or_is_refused(dialect, options):
    body = make(dialect, OutputCeiling(4000), provider_options=options)
    assert 9000 not in asked(body)
    assert 2000 in asked(body)
    assert 1024 in asked(make(dialect, OutputCeiling(1100), provider_options=options))
    with pytest.raises(RequestError, match="budget_tokens: usage limits leave 1024 tokens"):
        make(dialect, OutputCeiling(1024), provider_options=options)


@pytest.mark.parametrize(
    ("dialect", "options"),
    [
        ("gemini", {"generationConfig": {"thinkingConfig": {"thinkingBudget": 9000}}}),
        ("gemini", {"generation_config": {"thinking_config": {"thinking_budget": 9000}}}),
        ("cohere", {"thinking": {"type": "enabled", "token_budget": 9000}}),
        ("openai_chat", {"thinking_budget": 9000}),
        ("openai_chat", {"reasoning": {"max_tokens": 9000}}),
        ("openai_chat", {"chat_template_kwargs": {"thinking_budget": 9000}}),
    ],
)
def test_other_budgets_are_lowered(dialect, options):
    body = make(dialect, OutputCeiling(400), provider_options=options)
    assert 9000 not in asked(body)
    assert 399 in asked(body)


def test_messages_and_schemas_may_say_what_they_like():
    said = {"n": {"type": "integer"}, "max_tokens": {"const": 9}}
    schema = {"type": "object", "properties": said}
    tool = {"function": {"name": "f", "parameters": schema}}
    shape = {"type": "json_schema", "json_schema": {"name": "s", "schema": schema}}
    for dialect in LIMIT:
        options = {"logit_bias": {"n": 4}} if dialect == "openai_chat" else {}
        asks = {"tools": [tool], "response_format": shape, "provider_options": options}
        plain = make(dialect, OutputCeiling(100), **asks)
        assert str(schema) in str(plain) or '"n":{"type"' in str(plain)


PASSED = {
    "anthropic": ("anthropic", "vertex_anthropic", "bedrock_anthropic"),
    "openai_responses": ("openai_responses",),
}
OWN: dict[str, dict[str, Any]] = {
    "anthropic": {"messages": [{"role": "user", "content": "x"}]},
    "openai_responses": {"input": "x"},
}


@pytest.mark.parametrize("client", PASSED)
def test_a_body_that_is_passed_through_has_the_ceiling(client):
    own = LIMIT[client][0]
    for length, sent in ((5000, 100), (40, 40)):
        body = msgspec.json.encode({"model": "u/m", own: length, **OWN[client]})
        chat = CLIENT_FORMATS[client].parse_request(body).chat
        assert chat.client_body is not None
        limits = {"max_tokens": None, "max_completion_tokens": min(length, 100)}
        bounded = msgspec.structs.replace(chat, **limits, ceiling=OutputCeiling(100))
        for dialect in PASSED[client]:
            assert sent == build(dialect, bounded)[own]


@pytest.mark.parametrize("dialect", LIMIT)
def test_an_effort_fits_under_the_ceiling(dialect):
    for effort in ("minimal", "low", "medium", "high", "max"):
        body = make(dialect, OutputCeiling(1500), max_tokens=1500, reasoning_effort=effort)
        assert 1500 == at(body, LIMIT[dialect]), effort
        assert all(n <= 1500 for n in asked(body) if type(n) is int), effort
