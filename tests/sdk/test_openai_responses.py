"""What we send in Responses is what OpenAI's SDK sends for the same conversation."""

from typing import Any

import openai
import pytest

from app.dialects.openai_responses.upstream.quirks import Quirks
from app.dialects.openai_responses.upstream.request import render_request
from app.errors import RequestError
from tests.sdk import conversations as c
from tests.sdk.conversations import CITY, PDF, PICTURE, PNG, TURNS, request_of
from tests.sdk.recorder import Recorder

FUNCTION = {"type": "function", "strict": False}
KYOTO = {**FUNCTION, **c.TELLS_WEATHER, "parameters": c.PARAMETERS}
NOW = {**FUNCTION, **c.TELLS_TIME, "parameters": c.NO_PARAMETERS}
ENCRYPTED = "reasoning.encrypted_content"


def says(text: str) -> dict[str, str]:
    return {"type": "input_text", "text": text}


def called(id: str, name: str, arguments: str) -> dict[str, str]:
    return {"type": "function_call", "call_id": id, "name": name, "arguments": arguments}


def gave(id: str, output: str) -> dict[str, str]:
    return {"type": "function_call_output", "call_id": id, "output": output}


def asks(*content: dict[str, Any]) -> list[Any]:
    return [{"role": "user", "content": [*content]}]


WORDS: dict[str, dict[str, Any]] = {
    "one-turn": {"input": [{"role": "user", "content": "こんにちは"}]},
    "system-and-history": {
        "input": [
            {"role": "system", "content": "Be brief."},
            {"role": "developer", "content": "Answer in English."},
            {"role": "user", "content": "Hello"},
            {"role": "assistant", "content": "Hi."},
            *asks(says("How are you?")),
        ]
    },
    "sampling": {
        "input": [{"role": "user", "content": "Hello"}],
        "temperature": 0.5,
        "top_p": 0.9,
        "max_output_tokens": 100,
    },
    "image-inline": {
        "input": asks(
            says("What is this?"),
            {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "auto"},
        )
    },
    "image-by-url": {
        "input": asks(
            {"type": "input_image", "image_url": PICTURE, "detail": "auto"}, says("What is this?")
        )
    },
    "file-inline": {
        "input": asks(
            {
                "type": "input_file",
                "filename": "paper.pdf",
                "file_data": f"data:application/pdf;base64,{PDF}",
            },
            says("Sum it up."),
        )
    },
    "tools": {
        "input": [{"role": "user", "content": "Weather in Kyoto?"}],
        "tools": [KYOTO, NOW],
        "tool_choice": "auto",
    },
    "tool-required": {
        "input": [{"role": "user", "content": "Weather in Kyoto?"}],
        "tools": [KYOTO],
        "tool_choice": "required",
    },
    "tool-by-name": {
        "input": [{"role": "user", "content": "Weather in Kyoto?"}],
        "tools": [KYOTO, NOW],
        "tool_choice": {"type": "function", "name": "get_weather"},
    },
    "tool-results": {
        "input": [
            {"role": "user", "content": "Weather in Kyoto and Nara?"},
            {"role": "assistant", "content": "I look it up."},
            called("call_1", "get_weather", '{"city": "Kyoto"}'),
            called("call_2", "get_weather", '{"city": "Nara"}'),
            gave("call_1", "sunny"),
            gave("call_2", "rain"),
            {"role": "user", "content": "And now?"},
            called("call_3", "now", "{}"),
            gave("call_3", '{"time": "12:00"}'),
        ],
        "tools": [KYOTO, NOW],
    },
    "json-object": {
        "input": [{"role": "user", "content": "A city, as JSON."}],
        "text": {"format": {"type": "json_object"}},
    },
    "json-schema": {
        "input": [{"role": "user", "content": "A city, as JSON."}],
        "text": {"format": {"type": "json_schema", "name": "city", "schema": CITY, "strict": True}},
    },
    "effort": {
        "input": [{"role": "user", "content": "Think."}],
        "reasoning": {"effort": "low"},
        "max_output_tokens": 4000,
    },
}
"""The turns in the words of the SDK; what is ours alone is added in the test."""
TURN_BACK: dict[str, Any] = {
    "messages": [
        {"role": "user", "content": "Think."},
        {
            "role": "assistant",
            "content": [
                {"type": "reasoning", "text": "One."},
                {"type": "reasoning", "text": "Two.", "encrypted": "gAAAA", "format": "openai"},
                {"type": "text", "text": "Thought."},
            ],
        },
        {"role": "user", "content": "Again."},
    ]
}
WORDS_BACK: dict[str, Any] = {
    "input": [
        {"role": "user", "content": "Think."},
        {
            "type": "reasoning",
            "summary": [
                {"type": "summary_text", "text": "One."},
                {"type": "summary_text", "text": "Two."},
            ],
            "encrypted_content": "gAAAA",
        },
        {"role": "assistant", "content": "Thought."},
        {"role": "user", "content": "Again."},
    ]
}


def sent_by_sdk(recorder: Recorder, words: dict[str, Any]) -> Any:
    url = f"{recorder.url}/v1"
    with openai.OpenAI(api_key="key", base_url=url, max_retries=0) as client:
        recorded = recorder.record(lambda: client.responses.create(model="m", stream=True, **words))
    assert (recorded.method, recorded.path) == ("POST", "/v1/responses")
    assert recorded.headers["authorization"] == "Bearer key"
    return recorded.body


def sent_by_us(turn: dict[str, Any]) -> dict[str, Any]:
    return render_request(request_of(turn), model="m", quirks=Quirks()).body


def test_every_turn_is_there() -> None:
    assert WORDS.keys() == TURNS.keys()


@pytest.mark.parametrize("name", WORDS)
def test_a_turn_is_sent_as_the_sdk_sends_it(recorder: Recorder, name: str) -> None:
    turn = {key: value for key, value in TURNS[name].items() if key != "stop"}
    ours: dict[str, Any] = {
        "store": False
    }  # the relay keeps the conversation, the provider need not
    if "reasoning_effort" in turn:
        ours["include"] = [ENCRYPTED]

    assert sent_by_us(turn) == sent_by_sdk(recorder, {**WORDS[name], **ours})


def test_reasoning_goes_back_as_the_sdk_sends_it(recorder: Recorder) -> None:
    ours = {"store": False, "include": [ENCRYPTED]}

    assert sent_by_us(TURN_BACK) == sent_by_sdk(recorder, {**WORDS_BACK, **ours})


def test_a_stop_sequence_has_no_words_here() -> None:
    """The SDK's `responses.create` has no such argument either."""
    with pytest.raises(RequestError, match="stop"):
        sent_by_us(TURNS["sampling"])
