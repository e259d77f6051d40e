"""What we send to Mistral is what its SDK sends for the same conversation."""

import copy
from typing import Any

import pytest
from mistralai.client import Mistral

from app.dialects.openai_chat.upstream.request import Quirks, render_request
from tests.sdk.conversations import CITY, NO_PARAMETERS, PDF, TURNS, request_of, text, user
from tests.sdk.recorder import Recorder

MISTRAL = Quirks(
    stream_options=False,
    send_reasoning="thinking",
    seed_field="random_seed",
    required_word="any",
    files="document_url",
    bare_audio=True,
    plain=True,
    left_out=("user",),
)
"""What a strict host refuses otherwise, with 422."""

HELLO = [{"role": "user", "content": "Hello"}]
CITY_FORMAT = {"name": "city", "schema_definition": CITY, "strict": True}
DOCUMENT = {
    "type": "document_url",
    "document_url": f"data:application/pdf;base64,{PDF}",
    "document_name": "paper.pdf",
}
WORDS: dict[str, dict[str, Any]] = {
    **TURNS,
    "file-inline": {"messages": [user(DOCUMENT, text("Sum it up."))]},
    "tool-required": {**TURNS["tool-required"], "tool_choice": "any"},
    "json-schema": {
        **TURNS["json-schema"],
        "response_format": {"type": "json_schema", "json_schema": CITY_FORMAT},
    },
}
"""The turns in the words of the SDK, which are nearly those of `POST /v1/chat`."""

TOOL = {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {}}}


def translate(words: dict[str, Any]) -> dict[str, Any]:
    """The SDK knows no developer, and demands the parameters of a function."""
    words = copy.deepcopy(words)
    for message in words["messages"]:
        message["role"] = message["role"].replace("developer", "system")
        if message["role"] == "assistant":
            message.setdefault("content", None)
    for tool in words.get("tools", ()):
        tool["function"].setdefault("parameters", NO_PARAMETERS)
    return words


def sent_by_sdk(recorder: Recorder, words: dict[str, Any]) -> Any:
    with Mistral(api_key="key", server_url=recorder.url) as client:
        recorded = recorder.record(lambda: client.chat.stream(model="m", **translate(words)))
    assert (recorded.method, recorded.path.partition("#")[0]) == ("POST", "/v1/chat/completions")
    assert recorded.headers["authorization"] == "Bearer key"
    return recorded.body


def sent_by_us(turn: dict[str, Any]) -> dict[str, Any]:
    return render_request(request_of(turn), model="m", quirks=MISTRAL).body


def without_defaults(body: dict[str, Any]) -> dict[str, Any]:
    """Drop what the SDK spells out: the defaults of a call's `index` and of `prefix`."""
    for message in body["messages"]:
        if message["role"] == "assistant":
            assert not message.pop("prefix", False)
        for found in message.get("tool_calls") or ():
            assert not found.pop("index", 0)
    assert not body.pop("safe_prompt", False)
    return body


@pytest.mark.parametrize("name", WORDS)
def test_a_turn_is_sent_as_the_sdk_sends_it(recorder: Recorder, name: str) -> None:
    assert sent_by_us(TURNS[name]) == without_defaults(sent_by_sdk(recorder, WORDS[name]))


def test_reasoning_goes_back_as_the_sdk_sends_it(recorder: Recorder) -> None:
    thought = [{"type": "reasoning", "text": "A greeting.", "signature": "S"}]
    said = [*thought, {"type": "text", "text": "Hi."}]
    thinking = {"type": "thinking", "thinking": [text("A greeting.")], "signature": "S"}
    words = {"role": "assistant", "content": [thinking, text("Hi.")]}
    ours = sent_by_us({"messages": [{"role": "assistant", "content": said}]})
    # As a last message it would be refused without.
    assert ours["messages"][0].pop("prefix") is True

    assert ours == without_defaults(sent_by_sdk(recorder, {"messages": [words]}))


def test_what_tunes_is_sent_as_the_sdk_sends_it(recorder: Recorder) -> None:
    tuned = {
        "frequency_penalty": 0.5,
        "presence_penalty": 0.5,
        "logprobs": True,
        "top_logprobs": 2,
        "n": 2,
        "tools": [{"type": "function", "function": TOOL}],
        "parallel_tool_calls": False,
        "metadata": {"a": "b"},
    }
    hello = {"messages": [{"role": "user", "content": "Hello", "name": "me"}]}
    ours = sent_by_us({**hello, **tuned, "seed": 1, "user": "u"})
    words = {"messages": HELLO, **tuned, "random_seed": 1}

    assert ours == without_defaults(sent_by_sdk(recorder, words))


def test_a_sound_is_sent_as_the_sdk_sends_it(recorder: Recorder) -> None:
    sound = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
    ours = sent_by_us({"messages": [{"role": "user", "content": [sound]}]})

    words = {"messages": [user({"type": "input_audio", "input_audio": "AAAA"})]}
    assert ours == without_defaults(sent_by_sdk(recorder, words))
