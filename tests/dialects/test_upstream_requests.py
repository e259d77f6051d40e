"""Requests in every upstream's format: each field has its place, or is refused."""

from typing import Any

import msgspec
import pytest

from app.dialects.upstream_formats import UPSTREAM_FORMATS
from app.dialects.writing.conversation import JSON_ONLY
from app.errors import RequestError
from app.requests import ChatBody, ChatRequest, ClientBody, OutputCeiling, UserMessage
from tests.dialects.rendering import (
    BY_NAME,
    EMPTY,
    HI,
    SOUND,
    assistant,
    call,
    file,
    function,
    image,
    parse,
    render,
    result,
    said,
    user,
)
from tests.sdk.conversations import PDF, PICTURE

pytestmark = pytest.mark.pure

every_format = pytest.mark.parametrize("dialect", UPSTREAM_FORMATS)

CLAUDE_SAID = [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]
CLAUDE = {"messages": CLAUDE_SAID, "max_tokens": 16384}
PLAIN: dict[str, dict[str, Any]] = {
    "openai_chat": {
        **{"model": "m", "messages": HI, "stream": True},
        "stream_options": {"include_usage": True},
    },
    "openai_responses": {"model": "m", "input": HI, "store": False, "stream": True},
    "anthropic": {"model": "m", **CLAUDE, "stream": True},
    "vertex_anthropic": {**CLAUDE, "stream": True, "anthropic_version": "vertex-2023-10-16"},
    "bedrock_anthropic": {**CLAUDE, "anthropic_version": "bedrock-2023-05-31"},
    "bedrock_converse": {"messages": [{"role": "user", "content": [{"text": "hi"}]}]},
    "gemini": {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]},
    "gemini_interactions": {
        "model": "m",
        "input": [{"type": "user_input", "content": [{"type": "text", "text": "hi"}]}],
        "store": False,
        "stream": True,
    },
    "cohere": {"model": "m", "messages": HI, "stream": True},
    "ollama": {"model": "m", "messages": HI, "stream": True},
}
"""What "hi" becomes. The URL says the model on Vertex AI and the rest of Bedrock and Google."""


@every_format
def test_a_plain_request_asks_for_a_stream(dialect: str) -> None:
    assert PLAIN[dialect] == render(dialect, {})
    assert PLAIN[dialect] == UPSTREAM_FORMATS[dialect].render_request(parse({}), model="m").body


@every_format
def test_what_is_ours_is_not_sent(dialect: str) -> None:
    assert PLAIN[dialect] == render(
        dialect, {"model": "route", "stream": False, "on_disconnect": 5}
    )


def form(**more: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "n", **more}}


def told(name: str) -> dict[str, Any]:
    """A tool as Claude is told of it."""
    return {"name": name, "input_schema": EMPTY}


def use(**choice: Any) -> dict[str, Any]:
    """A choice of Claude's for the tool `f`."""
    return {"tools": [told("f")], "tool_choice": choice}


def thinks(effort: str) -> dict[str, Any]:
    thinking = {"type": "adaptive", "display": "summarized"}
    return {"thinking": thinking, "output_config": {"effort": effort}}


def converse(*tools: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"toolConfig": {"tools": [{"toolSpec": tool} for tool in tools], **more}}


def inference(**config: Any) -> dict[str, Any]:
    return {"inferenceConfig": config}


def config(**config: Any) -> dict[str, Any]:
    return {"generationConfig": config}


def generation(**config: Any) -> dict[str, Any]:
    return {"generation_config": config}


def chooses(choice: Any) -> dict[str, Any]:
    """A choice of a tool at the Interactions API."""
    return {"tools": [{"type": "function", "name": "f"}], **generation(tool_choice=choice)}


def json_text(**more: Any) -> dict[str, Any]:
    """The form of an answer there."""
    return {"response_format": {"type": "text", "mime_type": "application/json", **more}}


def mode(mode: str, **more: Any) -> dict[str, Any]:
    declared = {"tools": [{"functionDeclarations": [{"name": "f"}]}]}
    return {**declared, "toolConfig": {"functionCallingConfig": {"mode": mode, **more}}}


def options(**options: Any) -> dict[str, Any]:
    return {"options": options}


ANY_TEXT, ANY_JSON = {"type": "text"}, {"type": "json_object"}
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
CLOSED = {**SCHEMA, "additionalProperties": False}
F, D = function("f"), function("f", description="d", parameters=SCHEMA)
STRICT = function("f", strict=True)
LIMITS = {"max_tokens": 5, "max_completion_tokens": 6}
BOTH_LOGPROBS = {"logprobs": True, "top_logprobs": 3}
PENALTIES = {"presence_penalty": 1, "frequency_penalty": -1}
UNSENT = {"n": 1, "metadata": {"a": "b"}, "user": "u", "parallel_tool_calls": False}
ONE_BY_ONE: dict[str, Any] = {"tools": [F], "parallel_tool_calls": False}
IN_TURN = {"disable_parallel_tool_use": True}
WEB_SEARCH = {"tools": [{"type": "web_search_20260318"}]}
ENCRYPTED = {"include": ["reasoning.encrypted_content"]}
LOGPROBS = {"include": ["message.output_text.logprobs"]}
CONVERSE_F = {"name": "f", "inputSchema": {"json": EMPTY}}
LEVEL = {"reasoning": {"effort": "low"}}
THINKING = {"thinking": {"type": "disabled"}}

FIELDS: dict[str, list[Any]] = {
    "openai_chat": [
        ({"seed": 0}, {"random_seed": 0}, {"seed_field": "random_seed"}),
        ({"reasoning_effort": "low"}, LEVEL, {"effort_field": "reasoning"}),
        ({}, {}, {"effort_field": "reasoning"}),
        ({"tool_choice": "required"}, {"tool_choice": "required"}),
        ({"tool_choice": "required"}, {"tool_choice": "any"}, {"required_word": "any"}),
        ({"tool_choice": "none"}, {}, {"required_word": "any"}),
        (
            {"user": "u", "seed": 1, "metadata": {}},
            {"metadata": {}},
            {"left_out": ["user", "seed"]},
        ),
        (
            *({"reasoning_effort": "low"}, {}),
            {"left_out": ["reasoning_effort"], "effort_field": "reasoning"},
        ),
        ({"user": "u", "provider_options": {"user": "v"}}, {"user": "v"}, {"left_out": ["user"]}),
        ({"tools": [F]}, {"tools": [function("f", parameters=EMPTY)]}, {"plain": True}),
        ({"tools": [F]}, {"tools": [F]}),
        (
            {"temperature": 0, "provider_options": {"temperature": 1, "n": None}},
            {"temperature": 1, "n": None},
        ),
    ],
    "openai_responses": [
        ({"n": 1}, {}),
        ({"temperature": 0, "top_p": 0.5}, {"temperature": 0, "top_p": 0.5}),
        ({"max_tokens": 5}, {"max_output_tokens": 5}),
        (LIMITS, {"max_output_tokens": 6}),
        ({"parallel_tool_calls": False}, {"parallel_tool_calls": False}),
        ({"metadata": {"a": "b"}, "user": "u"}, {"metadata": {"a": "b"}, "user": "u"}),
        ({"logprobs": True}, LOGPROBS),
        (BOTH_LOGPROBS, {"top_logprobs": 3, **LOGPROBS}),
        ({"reasoning_effort": "low"}, {**LEVEL, **ENCRYPTED}),
        ({"response_format": ANY_TEXT}, {"text": {"format": ANY_TEXT}}),
        ({"response_format": ANY_JSON}, {"text": {"format": ANY_JSON}}),
        (
            {"response_format": form()},
            {
                "text": {
                    "format": {"type": "json_schema", "name": "n", "schema": {}, "strict": False}
                }
            },
        ),
        ({"tool_choice": "none"}, {}),
        ({"tool_choice": BY_NAME}, {"tool_choice": {"type": "function", "name": "f"}}),
        (
            {"temperature": 0, "provider_options": {"temperature": 1, "store": True, "n": None}},
            {"temperature": 1, "store": True, "n": None},
        ),
    ],
    "anthropic": [
        ({"n": 1}, {}),
        ({"max_tokens": 5}, {"max_tokens": 5}),
        (LIMITS, {"max_tokens": 6}),
        ({}, {"max_tokens": 5}, {"default_max_tokens": 5}),
        ({"max_tokens": 7}, {"max_tokens": 7}, {"default_max_tokens": 5}),
        ({"temperature": 0, "top_p": 0}, {"temperature": 0, "top_p": 0}),
        ({"temperature": 0.5, "top_p": 0.9}, {"temperature": 0.5, "top_p": 0.9}),
        ({"temperature": 1.7}, {"temperature": 1}),
        ({"temperature": 0, "top_p": 1}, {}, {"sampling": False}),
        ({"stop": "a"}, {"stop_sequences": ["a"]}),
        ({"stop": ["a", "b"]}, {"stop_sequences": ["a", "b"]}),
        ({"user": "u"}, {"metadata": {"user_id": "u"}}),
        ({"tools": [F]}, {"tools": [told("f")]}),
        (
            {"tools": [function("f", description="d", parameters=SCHEMA, strict=True)]},
            {"tools": [{"name": "f", "description": "d", "input_schema": CLOSED, "strict": True}]},
        ),
        (
            {"tools": [function("g", description="", parameters={"properties": {}}, strict=False)]},
            {"tools": [{**told("g"), "strict": False}]},
        ),
        ({"tools": [F], "tool_choice": "required"}, use(type="any")),
        ({"tools": [F], "tool_choice": "auto"}, use(type="auto")),
        ({"tools": [F], "tool_choice": "none"}, use(type="none")),
        ({"tools": [F], "tool_choice": BY_NAME}, use(type="tool", name="f")),
        (ONE_BY_ONE, use(type="auto", **IN_TURN)),
        ({**ONE_BY_ONE, "tool_choice": BY_NAME}, use(type="tool", name="f", **IN_TURN)),
        ({**ONE_BY_ONE, "tool_choice": "none"}, use(type="none")),
        ({"tools": [F], "parallel_tool_calls": True}, {"tools": [told("f")]}),
        ({"tool_choice": "auto", "parallel_tool_calls": False}, {}),
        (
            {"tool_choice": "auto", "provider_options": WEB_SEARCH},
            {"tool_choice": {"type": "auto"}, **WEB_SEARCH},
        ),
        ({"response_format": ANY_TEXT}, {}),
        ({"response_format": ANY_JSON}, {"system": [{"type": "text", "text": JSON_ONLY}]}),
        (
            {"response_format": form(schema=SCHEMA, strict=True)},
            {"output_config": {"format": {"type": "json_schema", "schema": CLOSED}}},
        ),
        ({"reasoning_effort": "low"}, thinks("low")),
        ({"reasoning_effort": "xhigh"}, thinks("xhigh")),
        ({"reasoning_effort": "minimal"}, thinks("low")),
        ({"reasoning_effort": "none"}, THINKING),
        ({"reasoning_effort": "none"}, THINKING, {"thinking": "budget"}),
        (
            {"reasoning_effort": "high", "response_format": form(schema=SCHEMA, strict=True)},
            {
                "thinking": thinks("high")["thinking"],
                "output_config": {
                    **{"effort": "high", "format": {"type": "json_schema", "schema": CLOSED}}
                },
            },
        ),
        (
            {"temperature": 0, "provider_options": {"max_tokens": 1, "top_k": 5, "system": "s"}},
            {"temperature": 0, "max_tokens": 1, "top_k": 5, "system": "s"},
        ),
    ],
    "bedrock_anthropic": [
        ({"provider_options": {"anthropic_beta": ["b"]}}, {"anthropic_beta": ["b"]})
    ],
    "bedrock_converse": [
        ({"n": 1}, {}),
        ({"max_tokens": 5}, inference(maxTokens=5)),
        (LIMITS, inference(maxTokens=6)),
        ({"temperature": 0}, inference(temperature=0)),
        ({"temperature": 1.7}, inference(temperature=1)),
        ({"top_p": 0.5, "stop": "x"}, inference(topP=0.5, stopSequences=["x"])),
        ({"metadata": {"a": "b"}}, {"requestMetadata": {"a": "b"}}),
        ({"metadata": {}}, {}),
        ({"reasoning_effort": "high"}, {"outputConfig": {"effort": "high"}}),
        ({"reasoning_effort": "minimal"}, {"outputConfig": {"effort": "low"}}),
        ({"reasoning_effort": "none"}, {}),
        ({"response_format": ANY_TEXT}, {}),
        ({"response_format": ANY_JSON}, {"system": [{"text": JSON_ONLY}]}),
        (
            {
                "reasoning_effort": "low",
                "response_format": form(description="d", schema={"type": "string"}),
            },
            {
                "outputConfig": {
                    "textFormat": {
                        "type": "json_schema",
                        "structure": {
                            "jsonSchema": {
                                **{"schema": '{"type":"string"}', "name": "n", "description": "d"}
                            }
                        },
                    },
                    "effort": "low",
                }
            },
        ),
        ({"tools": [F], "tool_choice": "auto"}, converse(CONVERSE_F, toolChoice={"auto": {}})),
        ({"tools": [F], "tool_choice": "required"}, converse(CONVERSE_F, toolChoice={"any": {}})),
        (
            {"tools": [F], "tool_choice": BY_NAME},
            converse(CONVERSE_F, toolChoice={"tool": {"name": "f"}}),
        ),
        ({"tools": [function("f", description="d")]}, converse({**CONVERSE_F, "description": "d"})),
        (
            {"tools": [function("f", description="", strict=False, parameters={"type": "object"})]},
            converse({"name": "f", "inputSchema": {"json": {"type": "object"}}, "strict": False}),
        ),
        ({"tools": [F], "tool_choice": "none"}, {}),
        ({"tool_choice": "none"}, {}),
        ({"tool_choice": "auto"}, {}),
    ],
    "gemini": [
        ({"temperature": 0}, config(temperature=0.0)),
        ({"top_p": 0.5}, config(topP=0.5)),
        ({"max_tokens": 5}, config(maxOutputTokens=5)),
        (LIMITS, config(maxOutputTokens=6)),
        ({"stop": "a"}, config(stopSequences=["a"])),
        ({"stop": ["a", "b"]}, config(stopSequences=["a", "b"])),
        ({"seed": 1}, config(seed=1)),
        ({"n": 2}, config(candidateCount=2)),
        (PENALTIES, config(presencePenalty=1.0, frequencyPenalty=-1.0)),
        (BOTH_LOGPROBS, config(responseLogprobs=True, logprobs=3)),
        ({"logprobs": True}, config(responseLogprobs=True)),
        ({"logprobs": False}, {}),
        ({"response_format": ANY_TEXT}, {}),
        ({"response_format": ANY_JSON}, config(responseMimeType="application/json")),
        (
            {"response_format": form(schema=SCHEMA)},
            config(responseMimeType="application/json", responseJsonSchema=SCHEMA),
        ),
        (
            {"tools": [D, function("g", strict=True)]},
            {
                "tools": [
                    {
                        "functionDeclarations": [
                            {"name": "f", "description": "d", "parametersJsonSchema": SCHEMA},
                            {"name": "g"},
                        ]
                    }
                ]
            },
        ),
        ({"tool_choice": "auto"}, {}),
        ({"tools": [F], "tool_choice": "auto"}, mode("AUTO")),
        ({"tools": [F], "tool_choice": "none"}, mode("NONE")),
        ({"tools": [F], "tool_choice": "required"}, mode("ANY")),
        ({"tools": [F], "tool_choice": BY_NAME}, mode("ANY", allowedFunctionNames=["f"])),
    ],
    "gemini_interactions": [
        (UNSENT, {}),
        ({"temperature": 0, "top_p": 0.5, "seed": 0}, generation(temperature=0, top_p=0.5, seed=0)),
        ({"stop": "a"}, generation(stop_sequences=["a"])),
        ({"max_tokens": 5}, generation(max_output_tokens=5)),
        (LIMITS, generation(max_output_tokens=6)),
        ({"store": True}, {"store": True}),
        ({"service_tier": "flex"}, {"service_tier": "flex"}),
        ({"service_tier": "auto"}, {}),
        ({"service_tier": "scale"}, {}),
        ({"reasoning_effort": "none"}, generation(thinking_level="low")),
        (
            {"reasoning_effort": "minimal"},
            generation(thinking_level="minimal", thinking_summaries="auto"),
        ),
        ({"reasoning_effort": "new"}, generation(thinking_level="high", thinking_summaries="auto")),
        ({"reasoning_summary": "auto"}, generation(thinking_summaries="auto")),
        ({"response_format": ANY_TEXT}, {}),
        ({"response_format": ANY_JSON}, json_text()),
        ({"response_format": form()}, json_text()),
        ({"response_format": form(schema=SCHEMA)}, json_text(schema=SCHEMA)),
        (
            {"tools": [D, function("g", strict=True)]},
            {
                "tools": [
                    {"type": "function", "name": "f", "description": "d", "parameters": SCHEMA},
                    {"type": "function", "name": "g"},
                ]
            },
        ),
        ({"tools": [F], "tool_choice": "auto"}, chooses("auto")),
        ({"tools": [F], "tool_choice": "none"}, chooses("none")),
        ({"tools": [F], "tool_choice": "required"}, chooses("any")),
        ({"tool_choice": "required"}, {}),
        (
            {"tools": [F], "tool_choice": BY_NAME},
            chooses({"allowed_tools": {"mode": "any", "tools": ["f"]}}),
        ),
        (
            {"tools": [F], "tool_choice": "required", "allowed_tools": ["f"]},
            chooses({"allowed_tools": {"mode": "any", "tools": ["f"]}}),
        ),
        (
            {"tools": [F, function("g")], "tool_choice": "auto", "allowed_tools": ["f"]},
            chooses("auto"),
        ),
        (
            {"temperature": 0, "provider_options": generation(seed=1)},
            generation(temperature=0, seed=1),
        ),
    ],
    "cohere": [
        (UNSENT, {}),
        ({"temperature": 0, "top_p": 0.5, "seed": 0}, {"temperature": 0, "p": 0.5, "seed": 0}),
        ({"stop": "a"}, {"stop_sequences": ["a"]}),
        ({"stop": ["a", "b"]}, {"stop_sequences": ["a", "b"]}),
        ({"max_tokens": 5}, {"max_tokens": 5}),
        (LIMITS, {"max_tokens": 6}),
        (PENALTIES, {**PENALTIES, "frequency_penalty": 0}),
        ({"presence_penalty": 0}, {"presence_penalty": 0}),
        (BOTH_LOGPROBS, {"logprobs": True}),
        ({"reasoning_effort": "none"}, THINKING),
        ({"reasoning_effort": "minimal"}, {"thinking": {"type": "enabled", "token_budget": 512}}),
        ({"reasoning_effort": "low"}, {"thinking": {"type": "enabled", "token_budget": 1024}}),
        ({"reasoning_effort": "medium"}, {"thinking": {"type": "enabled", "token_budget": 4096}}),
        ({"reasoning_effort": "high"}, {"thinking": {"type": "enabled"}}),
        ({"response_format": ANY_TEXT}, {}),
        ({"response_format": ANY_JSON}, {"response_format": ANY_JSON}),
        (
            {"response_format": form(schema=SCHEMA, strict=True)},
            {"response_format": {"type": "json_object", "json_schema": SCHEMA}},
        ),
        ({"response_format": form()}, {"response_format": ANY_JSON}),
        ({"tools": [D], "tool_choice": "auto"}, {"tools": [D]}),
        ({"tools": [D, STRICT]}, {"tools": [D, function("f", parameters=EMPTY)]}),
        ({"tools": [STRICT]}, {"tools": [function("f", parameters=EMPTY)], "strict_tools": True}),
        ({"tools": [D], "tool_choice": "required"}, {"tools": [D], "tool_choice": "REQUIRED"}),
        ({"tools": [D], "tool_choice": "none"}, {"tools": [D], "tool_choice": "NONE"}),
        ({"tools": []}, {}),
        ({"reasoning_effort": "low", "provider_options": THINKING}, THINKING),
    ],
    "ollama": [
        (UNSENT, {}),
        ({"temperature": 0}, options(temperature=0)),
        ({"top_p": 0.5}, options(top_p=0.5)),
        ({"seed": 0}, options(seed=0)),
        ({"stop": "a"}, options(stop=["a"])),
        ({"stop": ["a", "b"]}, options(stop=["a", "b"])),
        ({"max_tokens": 5}, options(num_predict=5)),
        (LIMITS, options(num_predict=6)),
        (PENALTIES, {"options": PENALTIES}),
        ({"frequency_penalty": 0}, options(frequency_penalty=0)),
        (BOTH_LOGPROBS, BOTH_LOGPROBS),
        ({"reasoning_effort": "none"}, {"think": False}),
        ({"reasoning_effort": "minimal"}, {"think": "low"}),
        ({"reasoning_effort": "medium"}, {"think": "medium"}),
        ({"reasoning_effort": "xhigh"}, {"think": "max"}),
        ({"reasoning_effort": "new"}, {"think": "new"}),
        ({"response_format": ANY_TEXT}, {}),
        ({"response_format": ANY_JSON}, {"format": "json"}),
        ({"response_format": form(schema=SCHEMA)}, {"format": SCHEMA}),
        ({"response_format": form()}, {"format": "json"}),
        ({"tools": [STRICT]}, {"tools": [F]}),
        ({"tools": [D], "tool_choice": "auto"}, {"tools": [D]}),
        ({"tools": [D], "tool_choice": "none"}, {}),
        ({"tools": []}, {}),
        ({"reasoning_effort": "low", "provider_options": {"think": True}}, {"think": True}),
        (
            {"seed": 1, "top_p": 1, "provider_options": options(num_ctx=8192, seed=2)},
            options(seed=2, top_p=1, num_ctx=8192),
        ),
        ({"provider_options": options(num_ctx=8192)}, options(num_ctx=8192)),
        ({"seed": 1, "provider_options": {"options": None}}, {"options": None}),
    ],
}
"""By format: what is asked for, what that adds to a plain body or changes there, and quirks."""


@pytest.mark.parametrize(
    ("dialect", "given", "sent", "quirks"),
    [
        pytest.param(name, given, sent, *(quirks or [{}]), id=f"{name}-{','.join(given)}")
        for name, rows in FIELDS.items()
        for given, sent, *quirks in rows
    ],
)
def test_each_field_has_its_place(
    dialect: str, given: dict[str, Any], sent: dict[str, Any], quirks: dict[str, Any]
) -> None:
    assert {**PLAIN[dialect], **sent} == render(dialect, given, **quirks)


CALLED = [*HI, assistant(tool_calls=[call()]), result("r")]
COHERE, OLLAMA = (f"cannot be sent in {name}'s API" for name in ("Cohere", "Ollama"))
FORCED = f"tool_choice: the demand for a tool call {OLLAMA}"
CONTENT = "messages[0].content[1]:"
CLAUDES = "cannot be sent in Anthropic Messages"
NO_OBJECT = "messages[0].tool_calls[1].function.arguments: must be a JSON object"
NO_CALL = {"messages": [assistant(tool_calls=[call(), call("j", arguments="[1]")])]}


def says(part: dict[str, Any]) -> dict[str, Any]:
    return {"messages": [user(said("a"), part)]}


REFUSED: dict[str, list[Any]] = {
    "openai_responses": [
        ({"n": 2}, "n: ..."),
        ({"stop": "END"}, "stop: ..."),
        ({"stop": ["END"]}, "stop: ..."),
        (says(file(filename="a")), "messages[0].content[1].file: ..."),
    ],
    "anthropic": [
        ({"n": 2}, f"n: more than one answer {CLAUDES}"),
        (
            {"response_format": form()},
            f"response_format.json_schema: JSON without a schema {CLAUDES}",
        ),
        (
            *({"reasoning_effort": "some"}, f"reasoning_effort: 'some' {CLAUDES}"),
            {"thinking": "budget"},
        ),
        (
            {"reasoning_effort": "low", "max_tokens": 1024},
            f"max_tokens: thinking with 1024 tokens or fewer {CLAUDES}",
            {"thinking": "budget"},
        ),
    ],
    "bedrock_converse": [
        ({"n": 2}, "n: more than one choice..."),
        ({"response_format": form()}, "response_format: a format without its schema..."),
        (says(SOUND), f"{CONTENT} sound..."),
        (says(image("https://a.b/c.png")), f"{CONTENT} an image..."),
        (says(image("s3://b/c.tiff")), f"{CONTENT} an image of..."),
        (
            says(image("data:image/tiff;base64,YQ==")),
            f"{CONTENT} an image of the type 'image/tiff'...",
        ),
        (says(file(file_id="f")), f"{CONTENT} a file by its id..."),
        (says(file(file_data="YQ==")), f"{CONTENT} a file without a data..."),
        (
            says(file(file_data="data:video/mp4;base64,YQ==")),
            f"{CONTENT} a file of the type 'video/mp4'...",
        ),
        (NO_CALL, f"{NO_OBJECT}..."),
    ],
    "gemini": [(NO_CALL, f"{NO_OBJECT}...")],
    "gemini_interactions": [
        ({"n": 2}, "n: more than one choice cannot be sent in Gemini's Interactions API"),
        (NO_CALL, NO_OBJECT),
    ],
    "cohere": [
        ({"n": 2}, f"n: more than one choice {COHERE}"),
        (
            {"tools": [F], "tool_choice": BY_NAME},
            f"tool_choice: the demand for one function {COHERE}",
        ),
        (says(SOUND), f"{CONTENT} anything but text and images {COHERE}"),
        (says(file(file_data=PDF)), f"{CONTENT} anything but text and images {COHERE}"),
    ],
    "ollama": [
        ({"n": 2}, f"n: more than one choice {OLLAMA}"),
        ({"tools": [F], "tool_choice": "required"}, FORCED),
        ({"tools": [F], "tool_choice": BY_NAME}, FORCED),
        (says(image(PICTURE)), f"{CONTENT} an image by URL {OLLAMA}"),
        (says(SOUND), f"{CONTENT} anything but text and images {OLLAMA}"),
        (says(file(file_data=PDF)), f"{CONTENT} anything but text and images {OLLAMA}"),
        (NO_CALL, NO_OBJECT),
    ],
}
"""By format: what is asked for, what the error says (... for more), and quirks."""


@pytest.mark.parametrize(
    ("dialect", "given", "message", "quirks"),
    [
        pytest.param(name, given, message, *(quirks or [{}]), id=f"{name}-{message}")
        for name, rows in REFUSED.items()
        for given, message, *quirks in rows
    ],
)
def test_what_cannot_be_said_is_refused(
    dialect: str, given: dict[str, Any], message: str, quirks: dict[str, Any]
) -> None:
    with pytest.raises(RequestError) as refused:
        render(dialect, given, **quirks)

    beginning = message.removesuffix("...")
    assert refused.value.code == "invalid_request"
    assert refused.value.message.startswith(beginning)
    assert message != beginning or refused.value.message == message


CACHED = {"cache_control": {"type": "ephemeral"}}
SAMPLES: dict[str, Any] = {
    **dict.fromkeys(("seed", "frequency_penalty", "presence_penalty", "top_logprobs"), 1),
    **{"logprobs": True, "metadata": {"a": "b"}, "parallel_tool_calls": False, "user": "u"},
    **{"verbosity": "low", "reasoning_summary": "auto", "service_tier": "auto", "store": True},
    **{"truncation": "auto", "max_tool_calls": 3, "safety_identifier": "s", **CACHED},
    **{"prompt_cache_key": "k", "prompt_cache_retention": "24h"},
}
ONLY_TUNES = {"seed", "frequency_penalty", "presence_penalty", "logprobs", "top_logprobs"}
STORED = {"verbosity", "store", "max_tool_calls", "prompt_cache_key", "prompt_cache_retention"}
IGNORED = {
    "openai_chat": {"truncation", "max_tool_calls"},
    "openai_responses": {"seed", "frequency_penalty", "presence_penalty", "cache_control"},
    "anthropic": {*ONLY_TUNES, *STORED, "metadata", "service_tier", "truncation"},
    "bedrock_converse": {
        *(*ONLY_TUNES, *STORED, "parallel_tool_calls", "user", "reasoning_summary"),
        *("truncation", "safety_identifier"),
    },
    "gemini": {
        *(*STORED, "metadata", "parallel_tool_calls", "user", "truncation"),
        *("safety_identifier", "cache_control"),
    },
    "gemini_interactions": {
        *(*ONLY_TUNES, *STORED, "metadata", "parallel_tool_calls", "user", "truncation"),
        *("safety_identifier", "cache_control"),
    }
    - {"seed", "store"},
    "cohere": {
        *(*STORED, "top_logprobs", "parallel_tool_calls", "metadata", "user", "truncation"),
        *("reasoning_summary", "service_tier", "safety_identifier", "cache_control"),
    },
    "ollama": {
        *(*STORED, "parallel_tool_calls", "metadata", "user", "reasoning_summary"),
        *("service_tier", "safety_identifier", "cache_control"),
    },
}


@every_format
def test_what_has_no_place_is_left_out_and_listed(dialect: str) -> None:
    name = "anthropic" if dialect.endswith("_anthropic") else dialect
    ignored = UPSTREAM_FORMATS[dialect].ignored

    assert IGNORED[name] == ignored
    assert ignored <= set(ChatBody.__struct_fields__)
    assert PLAIN[dialect] == render(dialect, {field: SAMPLES[field] for field in ignored})


@every_format
def test_what_the_client_sent_beside_is_not_rendered(dialect: str) -> None:
    """Its own body would be sent twice, and a ceiling is the relay's."""
    beside = {
        "client_body": ClientBody("x", {"secret": "client"}),
        "extras": {"secret": 1},
        "members": ("secret",),
        "left_out": ("secret",),
        "ceiling": OutputCeiling(10),
    }
    assert {*beside} == {*ChatRequest.__struct_fields__} - {*ChatBody.__struct_fields__}
    plain = ChatRequest([UserMessage("hi")])
    asked = msgspec.structs.replace(plain, **beside)

    sent = [UPSTREAM_FORMATS[dialect].render_request(one, model="m") for one in (plain, asked)]
    assert sent[0] == sent[1]


@every_format
def test_provider_options_overrule_all_but_model_and_stream(dialect: str) -> None:
    ours = {"model": "dear", "stream": False}
    sent = render(dialect, {"provider_options": {"x": {"y": 1}, **ours}})

    # In these two the words mean nothing, and what means something stands in the URL.
    passed = ours if dialect in ("bedrock_converse", "gemini") else {}
    assert {**PLAIN[dialect], "x": {"y": 1}, **passed} == sent


def scribble(value: Any) -> None:
    """Change everything in a JSON value that can be changed."""
    for inner in value.values() if isinstance(value, dict) else value:
        if isinstance(inner, dict | list):
            scribble(inner)
    if isinstance(value, dict):
        value["scribbled"] = 1
    else:
        value.append(1)


OPTIONS = {"a": {"b": 1}, "options": {"c": 1}, "generationConfig": {"topK": 5}}
COPIED = {
    **{"openai_chat": None, "openai_responses": None, "ollama": ["options"]},
    **{"anthropic": [*OPTIONS], "gemini": ["generationConfig"]},
}
"""Members of a body that share nothing with the request; None for all of them."""


@every_format
def test_the_request_is_not_changed(dialect: str) -> None:
    more = {"temperature": 0, "provider_options": OPTIONS}
    request = parse({"messages": CALLED, "tools": [D], **more})
    before = msgspec.json.encode(request)
    body = UPSTREAM_FORMATS[dialect].render_request(request, model="m").body
    names = COPIED.get("anthropic" if dialect.endswith("_anthropic") else dialect, [])
    scribble(body if names is None else [body[name] for name in names])

    assert before == msgspec.json.encode(request)


PATHS = {
    "openai_chat": ("chat/completions", "models"),
    "openai_responses": ("responses", "models"),
    "anthropic": ("v1/messages", "v1/models"),
    "vertex_anthropic": ("{model}:streamRawPredict", None),
    "bedrock_anthropic": ("model/{model}/invoke-with-response-stream", None),
    "bedrock_converse": ("model/{model}/converse-stream", None),
    "gemini": ("models/{model}:streamGenerateContent?alt=sse", "models?pageSize=1000"),
    "gemini_interactions": ("interactions", "models?pageSize=1000"),
    "cohere": ("v2/chat", "v1/models?endpoint=chat&page_size=1000"),
    "ollama": ("api/chat", "api/tags"),
}


def test_the_table_names_every_path() -> None:
    found = {name: (one.path, one.models_path) for name, one in UPSTREAM_FORMATS.items()}

    assert PATHS == found


def test_what_reads_messages_of_claude_is_the_same_on_vertex() -> None:
    own, vertex = UPSTREAM_FORMATS["anthropic"], UPSTREAM_FORMATS["vertex_anthropic"]

    assert (own.parser, own.decoder, own.quirks) == (vertex.parser, vertex.decoder, vertex.quirks)
