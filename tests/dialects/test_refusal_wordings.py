"""What a refusal names, by the wordings of providers."""

import json
from typing import Any

import pytest

from app.dialects.reading.provider_errors import parse_failure
from app.dialects.reading.refusal_wordings import Refusal, read_refusal

pytestmark = pytest.mark.pure


def openai(message: str, **fields: Any) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", **fields}}


def gemini(message: str) -> dict[str, Any]:
    return {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}


LOC = {"msg": "Extra inputs are not permitted", "type": "extra_forbidden", "input": 1}
UNKNOWN = "Invalid JSON payload received. Unknown name"
NOT_DEFAULT = "'temperature' does not support 0.2 with this model. Only the default (1) value is"
EFFORT = (
    "'reasoning_effort' does not support 'minimal' with this model. Supported values are: 'low'"
)

FIELDS: list[tuple[Any, list[str]]] = [
    (openai("Unsupported parameter: 'max_tokens' is not supported with this model."), ["max_tokens"]),
    (openai("Unsupported parameter: reasoning.effort"), ["reasoning.effort"]),
    (openai(f"Unsupported value: {NOT_DEFAULT} supported."), ["temperature"]),
    (openai("Unknown parameter: 'stream_options'."), ["stream_options"]),
    (openai("Unrecognized request argument supplied: user. Please contact us."), ["user"]),
    (openai("Unrecognized request arguments supplied: seed, top_p"), ["seed", "top_p"]),
    (openai("Unrecognized key(s) in object: 'seed', 'user'"), ["seed", "user"]),
    (openai('Unrecognized key: "seed"'), ["seed"]),
    (openai("unknown field `seed`, expected one of `a`, `b`"), ["seed"]),
    (openai('json: unknown field "seed"'), ["seed"]),
    (openai("Unsupported param: seed"), ["seed"]),
    (openai("property 'seed' is unsupported, did you mean 'stop'?"), ["seed"]),
    (
        openai("'messages.1' : must be satisfied[('messages.1' : property 'x_y' is unsupported)]"),
        ["x_y"],
    ),
    ({"code": "Client", "error": "Argument not supported on this model: topP"}, ["topP"]),
    ({"code": "Client", "error": "Argument not supported: topP"}, ["topP"]),
    ({"code": "Client", "error": "Model m does not support parameter topP."}, ["topP"]),
    (openai("x does not support parameters: ['seed'], for model=m. To drop"), ["seed"]),
    (openai("x does not support parameters: {'seed': 1}, for model=m."), ["seed"]),
    (gemini(f'{UNKNOWN} "topK" at \'generation_config\': Cannot find field.'), ["topK"]),
    (
        gemini(f'{UNKNOWN} "top_k": Cannot find field.\n{UNKNOWN} "reasoning": Cannot find field.'),
        ["top_k", "reasoning"],
    ),
    (gemini("Penalty is not enabled for models/m"), ["presence_penalty", "frequency_penalty"]),
    (gemini("Thinking level is not supported for this model."), ["thinking_level"]),
    (gemini("thinking_config is not supported."), ["thinking_config"]),
    (gemini("because thinking_level is not supported by this model."), ["thinking_level"]),
    (gemini("please remove the thinking_config setting and try it again."), ["thinking_config"]),
    (openai("system.1.cache_control.ephemeral.scope: Extra inputs are not permitted"),
     ["system.1.cache_control.ephemeral.scope"]),
    (openai("foo: extra fields not permitted"), ["foo"]),
    ({"detail": [{**LOC, "loc": ["body", "seed"]}]}, ["body.seed"]),
    (
        {"detail": [{**LOC, "loc": ["body", "seed"]}, {**LOC, "loc": ["body", "user"]}]},
        ["body.seed", "body.user"],
    ),
    ({"message": {"detail": [{**LOC, "loc": ["body", "seed"]}]}}, ["body.seed"]),
    ({"message": json.dumps({"detail": [{"loc": ["body", "seed"], **LOC}]})}, ["body.seed"]),
    (openai("[{'type': 'x', 'loc': ('body', 'seed'), 'msg': 'Extra inputs are not permitted'"),
     ["body.seed"]),
    ({"message": "Malformed input request: #: extraneous key [top_k] is not permitted, p"},
     ["top_k"]),
    ({"message": "This model doesn't support the stopSequences field. Remove"}, ["stopSequences"]),
    ({"message": "The model returned: `temperature` is deprecated for this model."},
     ["temperature"]),
    (openai("temperature is deprecated for this model."), ["temperature"]),
    ({"error": '"llama3" does not support thinking'}, ["think", "reasoning_effort"]),
    (openai("Invalid schema for function 'f': In context=('properties', 'a'), 'uniqueItems' is not"
            " permitted."), ["uniqueItems"]),
    (openai("output: For 'integer' type, properties maximum, minimum are not supported"),
     ["maximum", "minimum"]),
]  # fmt: skip

BETAS: list[tuple[str, list[str]]] = [
    ("Unexpected value(s) `a-2026-01-05`, `b-1` for the `anthropic-beta` header. Please consult",
     ["a-2026-01-05", "b-1"]),
    ('Unexpected beta header "advisor-tool-2026-03-01"', ["advisor-tool-2026-03-01"]),
    ("invalid beta flag", []),
]  # fmt: skip

OTHERS = [
    openai("Invalid value: 'tool'. Supported values are: 'system', 'assistant', 'user'."),
    openai("messages: at least one message is required"),
    gemini("Request contains an invalid argument."),
    {"message": "The toolConfig field must be defined when using toolUse"},
]


def read(body: Any) -> Refusal | None:
    error = parse_failure(400, {}, json.dumps(body).encode(), upstream="u", now=0)
    assert "upstream_invalid_request" == error.code
    return read_refusal(error)


@pytest.mark.parametrize(("body", "names"), FIELDS)
def test_a_field_is_found(body: Any, names: list[str]) -> None:
    refusal = read(body)

    assert refusal
    assert ("field", tuple(names)) == (refusal.kind, refusal.names)


@pytest.mark.parametrize(("message", "names"), BETAS)
def test_a_beta_is_found(message: str, names: list[str]) -> None:
    refusal = read({"message": message})

    assert refusal
    assert ("beta", tuple(names)) == (refusal.kind, refusal.names)


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (openai(f"Unsupported value: {EFFORT}"), "reasoning_effort"),
        (gemini("because thinking_level MEDIUM is not supported by this model."), "thinking_level"),
    ],
)
def test_a_refused_value_is_not_a_refused_field(body: Any, name: str) -> None:
    refusal = read(body)

    assert refusal
    assert ("value", (name,)) == (refusal.kind, refusal.names)


@pytest.mark.parametrize("body", OTHERS)
def test_other_refusals_name_nothing(body: Any) -> None:
    assert read(body) is None


def test_a_long_hostile_text_takes_no_time() -> None:
    for text in (
        "a." * 4000,
        "Unrecognized keys: " + "a, " * 4000,
        "In context=(" * 700,
        "`a" * 4000,
    ):
        read_refusal(parse_failure(400, {}, text.encode(), upstream="u", now=0))
