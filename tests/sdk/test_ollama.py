"""What we send to Ollama is what its SDK sends for the same conversation."""

from typing import Any

import ollama
import pytest

from app.dialects.ollama.upstream.request import render_request
from app.errors import RequestError
from tests.sdk.conversations import CITY, NOW, PNG, TURNS, WEATHER, call, request_of
from tests.sdk.recorder import Recorder

HELLO = [{"role": "user", "content": "Hello"}]
ASKED = [{"role": "user", "content": "Weather in Kyoto?"}]
JSON = [{"role": "user", "content": "A city, as JSON."}]


def called(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"function": {"name": name, "arguments": arguments}}


WORDS: dict[str, dict[str, Any]] = {
    "one-turn": {"messages": [{"role": "user", "content": "こんにちは"}]},
    "system-and-history": {
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "system", "content": "Answer in English."},  # it knows no developer
            {"role": "user", "content": "Hello"},
            {"role": "assistant", "content": "Hi."},
            {"role": "user", "content": "How are you?"},
        ]
    },
    "sampling": {
        "messages": HELLO,
        "options": {"temperature": 0.5, "top_p": 0.9, "num_predict": 100, "stop": ["END", "###"]},
    },
    "image-inline": {"messages": [{"role": "user", "content": "What is this?", "images": [PNG]}]},
    "tools": {"messages": ASKED, "tools": [WEATHER, NOW]},  # it chooses by itself
    "tool-results": {
        "messages": [
            {"role": "user", "content": "Weather in Kyoto and Nara?"},
            {
                "role": "assistant",
                "content": "I look it up.",
                "tool_calls": [
                    called("get_weather", {"city": "Kyoto"}),
                    called("get_weather", {"city": "Nara"}),
                ],
            },
            {"role": "tool", "tool_name": "get_weather", "content": "sunny"},
            {"role": "tool", "tool_name": "get_weather", "content": "rain"},
            {"role": "user", "content": "And now?"},
            {"role": "assistant", "content": "", "tool_calls": [called("now", {})]},
            {"role": "tool", "tool_name": "now", "content": '{"time": "12:00"}'},
        ],
        "tools": [WEATHER, NOW],
    },
    "json-object": {"messages": JSON, "format": "json"},
    "json-schema": {"messages": JSON, "format": CITY},
    "effort": {
        "messages": [{"role": "user", "content": "Think."}],
        "think": "low",
        "options": {"num_predict": 4000},
    },
}
"""The turns in the words of the SDK."""
UNSAID = {
    "image-by-url": "messages[0].content[0]: an image by URL",
    "file-inline": "messages[0].content[0]: anything but text and images",
    "tool-required": "tool_choice: the demand for a tool call",
    "tool-by-name": "tool_choice: the demand for a tool call",
}
"""The turns that the API has no words for."""


def sent_by_sdk(recorder: Recorder, words: dict[str, Any]) -> Any:
    # The recorder serves one connection at a time, and this client has no way to close its own.
    client = ollama.Client(host=recorder.url, headers={"connection": "close"})
    recorded = recorder.record(lambda: client.chat(model="m", stream=True, **words))
    assert (recorded.method, recorded.path) == ("POST", "/api/chat")
    body = recorded.body
    if not body["tools"]:
        del body["tools"]  # it sends an empty list, which asks for the same as none
    for message in body["messages"]:
        # It drops what is empty; the server takes both for the same.
        message.setdefault("content", "")
    return body


def sent_by_us(turn: dict[str, Any]) -> dict[str, Any]:
    return render_request(request_of(turn), model="m").body


def test_every_turn_is_there() -> None:
    assert WORDS.keys() | UNSAID.keys() == TURNS.keys()


@pytest.mark.parametrize("name", WORDS)
def test_a_turn_is_sent_as_the_sdk_sends_it(recorder: Recorder, name: str) -> None:
    ours = sent_by_us(TURNS[name])
    for message in ours["messages"]:
        # The server knows which result belongs to which call; the SDK's types do not yet.
        message.pop("tool_call_id", None)
        for found in message.get("tool_calls", ()):
            assert found.pop("id").startswith("call_")

    assert ours == sent_by_sdk(recorder, WORDS[name])


@pytest.mark.parametrize("name", UNSAID)
def test_a_turn_without_words_is_refused(name: str) -> None:
    with pytest.raises(RequestError) as refused:
        sent_by_us(TURNS[name])

    assert refused.value.message == f"{UNSAID[name]} cannot be sent in Ollama's API"


def test_reasoning_goes_back_as_the_sdk_sends_it(recorder: Recorder) -> None:
    ours = sent_by_us(
        {
            "messages": [
                *HELLO,
                {"role": "assistant", "content": "Hi.", "reasoning_content": "A greeting."},
                *HELLO,
            ]
        }
    )
    said = {"role": "assistant", "content": "Hi.", "thinking": "A greeting."}

    assert ours == sent_by_sdk(recorder, {"messages": [*HELLO, said, *HELLO]})


def test_options_of_the_provider_are_sent_as_the_sdk_sends_them(recorder: Recorder) -> None:
    given = {"keep_alive": "10m", "options": {"num_ctx": 8192}}
    words = {"keep_alive": "10m", "options": {"seed": 1, "num_ctx": 8192}}
    ours = sent_by_us({"messages": HELLO, "seed": 1, "provider_options": given})

    assert ours == sent_by_sdk(recorder, {"messages": HELLO, **words})


def test_a_call_without_object_is_refused() -> None:
    calls = [call("i", "f", "[]")]

    with pytest.raises(RequestError, match="must be a JSON object"):
        sent_by_us({"messages": [{"role": "assistant", "tool_calls": calls}]})
