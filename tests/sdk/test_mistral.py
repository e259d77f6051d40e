"""What we send to Mistral is what its SDK sends for the same conversation."""

from typing import Any

import pytest
from mistralai.client import Mistral, models

from app.dialects.openai_chat.upstream.request import Quirks, render_request
from tests.sdk.conversations import CITY, PDF, PICTURE, PNG, TURNS, WEATHER, request_of
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

KYOTO = models.Tool(function=models.Function.model_validate(WEATHER["function"]))
NOW = models.Tool(
    function=models.Function(
        name="now",
        description="Tell the time.",
        parameters={"type": "object", "properties": {}},  # the SDK's type demands a schema
    )
)
HELLO = [models.UserMessage(content="Hello")]
ASKED = [models.UserMessage(content="Weather in Kyoto?")]
JSON = [models.UserMessage(content="A city, as JSON.")]


def called(id: str, name: str, arguments: str) -> models.ToolCall:
    return models.ToolCall(id=id, function=models.FunctionCall(name=name, arguments=arguments))


def asks(*content: Any) -> list[Any]:
    return [models.UserMessage(content=[*content])]


def picture(url: str) -> models.ImageURLChunk:
    return models.ImageURLChunk(image_url=models.ImageURL(url=url))


WORDS: dict[str, dict[str, Any]] = {
    "one-turn": {"messages": [models.UserMessage(content="こんにちは")]},
    "system-and-history": {
        "messages": [
            models.SystemMessage(content="Be brief."),
            models.SystemMessage(content="Answer in English."),  # it knows no developer
            models.UserMessage(content="Hello"),
            models.AssistantMessage(content="Hi."),
            models.UserMessage(content=[models.TextChunk(text="How are you?")]),
        ]
    },
    "sampling": {
        "messages": HELLO,
        "temperature": 0.5,
        "top_p": 0.9,
        "max_tokens": 100,
        "stop": ["END", "###"],
    },
    "image-inline": {
        "messages": asks(
            models.TextChunk(text="What is this?"), picture(f"data:image/png;base64,{PNG}")
        )
    },
    "image-by-url": {"messages": asks(picture(PICTURE), models.TextChunk(text="What is this?"))},
    "file-inline": {
        "messages": asks(
            models.DocumentURLChunk(
                document_url=f"data:application/pdf;base64,{PDF}", document_name="paper.pdf"
            ),
            models.TextChunk(text="Sum it up."),
        )
    },
    "tools": {"messages": ASKED, "tools": [KYOTO, NOW], "tool_choice": "auto"},
    "tool-required": {"messages": ASKED, "tools": [KYOTO], "tool_choice": "any"},
    "tool-by-name": {
        "messages": ASKED,
        "tools": [KYOTO, NOW],
        "tool_choice": models.ToolChoice(function=models.FunctionName(name="get_weather")),
    },
    "tool-results": {
        "messages": [
            models.UserMessage(content="Weather in Kyoto and Nara?"),
            models.AssistantMessage(
                content="I look it up.",
                tool_calls=[
                    called("call_1", "get_weather", '{"city": "Kyoto"}'),
                    called("call_2", "get_weather", '{"city": "Nara"}'),
                ],
            ),
            models.ToolMessage(tool_call_id="call_1", content="sunny"),
            models.ToolMessage(tool_call_id="call_2", content="rain"),
            models.UserMessage(content="And now?"),
            models.AssistantMessage(content=None, tool_calls=[called("call_3", "now", "")]),
            models.ToolMessage(tool_call_id="call_3", content='{"time": "12:00"}'),
        ],
        "tools": [KYOTO, NOW],
    },
    "json-object": {"messages": JSON, "response_format": models.ResponseFormat(type="json_object")},
    "json-schema": {
        "messages": JSON,
        "response_format": models.ResponseFormat(
            type="json_schema",
            json_schema=models.JSONSchema.model_validate(
                {"name": "city", "schema": CITY, "strict": True}
            ),
        ),
    },
    "effort": {
        "messages": [models.UserMessage(content="Think.")],
        "reasoning_effort": "low",
        "max_tokens": 4000,
    },
}
"""The turns in the words of the SDK."""


def sent_by_sdk(recorder: Recorder, words: dict[str, Any]) -> Any:
    with Mistral(api_key="key", server_url=recorder.url) as client:
        recorded = recorder.record(lambda: client.chat.stream(model="m", **words))
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


def test_every_turn_is_there() -> None:
    assert WORDS.keys() == TURNS.keys()


@pytest.mark.parametrize("name", WORDS)
def test_a_turn_is_sent_as_the_sdk_sends_it(recorder: Recorder, name: str) -> None:
    assert sent_by_us(TURNS[name]) == without_defaults(sent_by_sdk(recorder, WORDS[name]))


def test_reasoning_goes_back_as_the_sdk_sends_it(recorder: Recorder) -> None:
    thought = [{"type": "reasoning", "text": "A greeting.", "signature": "S"}]
    said = [*thought, {"type": "text", "text": "Hi."}]
    words = models.AssistantMessage(
        content=[
            models.ThinkChunk(thinking=[models.TextChunk(text="A greeting.")], signature="S"),
            models.TextChunk(text="Hi."),
        ]
    )
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

    words = {"messages": asks(models.AudioChunk(input_audio="AAAA"))}
    assert ours == without_defaults(sent_by_sdk(recorder, words))
