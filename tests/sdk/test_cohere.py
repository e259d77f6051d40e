"""What we send to Cohere is what its SDK sends for the same conversation."""

import copy
from typing import Any

import cohere
import pytest
from pydantic import TypeAdapter

from app.dialects.cohere.upstream.request import Quirks, render_request
from app.errors import RequestError
from tests.sdk.conversations import CITY, NO_PARAMETERS, TURNS, call, request_of, text
from tests.sdk.recorder import Recorder

# The SDK itself calls it, on Python 3.14 and later.
pytestmark = pytest.mark.filterwarnings(
    "ignore:'asyncio.iscoroutinefunction' is deprecated:DeprecationWarning"
)

SAMPLING = {"temperature": 0.5, "p": 0.9, "max_tokens": 100, "stop_sequences": ["END", "###"]}
ANY = TypeAdapter[Any](Any)
AS_JSON: dict[str, Any] = {"type": "json_object"}


def without(name: str, *fields: str, **more: Any) -> dict[str, Any]:
    return {key: value for key, value in TURNS[name].items() if key not in fields} | more


WORDS: dict[str, dict[str, Any]] = {
    **{name: TURNS[name] for name in ("one-turn", "system-and-history", "image-inline")},
    **{name: TURNS[name] for name in ("image-by-url", "tool-results", "json-object")},
    "sampling": {"messages": TURNS["sampling"]["messages"], **SAMPLING},
    "tools": without("tools", "tool_choice"),  # "auto" is what no word means
    "tool-required": {**TURNS["tool-required"], "tool_choice": "REQUIRED"},
    "json-schema": without("json-schema", response_format={**AS_JSON, "json_schema": CITY}),
    "effort": without(
        "effort", "reasoning_effort", thinking={"type": "enabled", "token_budget": 1024}
    ),
}
"""The turns in the words of the SDK, which are nearly those of `POST /v1/chat`."""


TYPES: dict[str, TypeAdapter[Any]] = {
    **dict.fromkeys(("temperature", "p", "max_tokens", "stop_sequences", "tool_choice"), ANY),
    "messages": TypeAdapter(list[cohere.ChatMessageV2]),
    "tools": TypeAdapter(list[cohere.ToolV2]),
    "response_format": TypeAdapter(cohere.ResponseFormatV2),
    "thinking": TypeAdapter(cohere.Thinking),
}


def translate(words: dict[str, Any]) -> dict[str, Any]:
    """Return the SDK's own objects; it knows no developer, and demands arguments and parameters."""
    words = copy.deepcopy(words)
    for message in words["messages"]:
        message["role"] = message["role"].replace("developer", "system")
        for made in message.get("tool_calls", ()):
            made["function"]["arguments"] = made["function"]["arguments"] or "{}"
    for tool in words.get("tools", ()):
        tool["function"].setdefault("parameters", NO_PARAMETERS)
    return {name: TYPES[name].validate_python(value) for name, value in words.items()}


UNSAID = {
    "file-inline": "messages[0].content[0]: anything but text and images",
    "tool-by-name": "tool_choice: the demand for one function",
}
"""The turns that the API has no words for."""


def sent_by_sdk(recorder: Recorder, words: dict[str, Any]) -> Any:
    client = cohere.ClientV2(api_key="key", base_url=recorder.url)
    # The recorder serves one connection at a time, and this client has no way to close its own.
    options: Any = {"max_retries": 0, "additional_headers": {"connection": "close"}}
    recorded = recorder.record(
        lambda: client.chat_stream(model="m", request_options=options, **translate(words))
    )
    assert (recorded.method, recorded.path) == ("POST", "/v2/chat")
    assert recorded.headers["authorization"] == "Bearer key"
    return recorded.body


def sent_by_us(turn: dict[str, Any], **quirks: Any) -> dict[str, Any]:
    return render_request(request_of(turn), model="m", quirks=Quirks(**quirks)).body


def test_every_turn_is_there() -> None:
    assert WORDS.keys() | UNSAID.keys() == TURNS.keys()


@pytest.mark.parametrize("name", WORDS)
def test_a_turn_is_sent_as_the_sdk_sends_it(recorder: Recorder, name: str) -> None:
    assert sent_by_us(TURNS[name]) == sent_by_sdk(recorder, WORDS[name])


@pytest.mark.parametrize("name", UNSAID)
def test_a_turn_without_words_is_refused(name: str) -> None:
    with pytest.raises(RequestError) as refused:
        sent_by_us(TURNS[name])

    assert refused.value.message == f"{UNSAID[name]} cannot be sent in Cohere's API"


BACK: dict[str, Any] = {
    "messages": [
        {"role": "user", "content": "Time?"},
        {
            "role": "assistant",
            "content": [{"type": "reasoning", "text": "I ask."}, {"type": "text", "text": "Wait."}],
            "tool_calls": [call("call_1", "now", "{}")],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "noon"},
    ]
}


@pytest.mark.parametrize(
    ("way", "words"),
    [
        ("tool_plan", {"tool_plan": "I ask.", "content": "Wait."}),
        (
            "thinking",
            {"content": [{"type": "thinking", "thinking": "I ask."}, text("Wait.")]},
        ),
    ],
)
def test_reasoning_goes_back_as_the_sdk_sends_it(
    recorder: Recorder, way: str, words: dict[str, Any]
) -> None:
    question, answer, result = BACK["messages"]
    messages = [question, {**answer, **words}, result]

    ours = sent_by_us(BACK, send_reasoning=way)
    assert ours == sent_by_sdk(recorder, {"messages": messages})
