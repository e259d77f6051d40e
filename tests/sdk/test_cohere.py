"""What we send to Cohere is what its SDK sends for the same conversation."""

from typing import Any

import cohere
import pytest
from cohere import (
    AssistantChatMessageV2,
    ImageUrl,
    ImageUrlContent,
    JsonObjectResponseFormatV2,
    SystemChatMessageV2,
    TextContent,
    Thinking,
    ToolCallV2,
    ToolCallV2Function,
    ToolChatMessageV2,
    ToolV2,
    ToolV2Function,
    UserChatMessageV2,
)
from cohere.types.assistant_message_v2content_one_item import (
    TextAssistantMessageV2ContentOneItem,
    ThinkingAssistantMessageV2ContentOneItem,
)

from app.dialects.cohere.upstream.request import Quirks, render_request
from app.errors import RequestError
from tests.sdk.conversations import CITY, PICTURE, PNG, TURNS, WEATHER, call, request_of
from tests.sdk.recorder import Recorder

# The SDK itself calls it, on Python 3.14 and later.
pytestmark = pytest.mark.filterwarnings(
    "ignore:'asyncio.iscoroutinefunction' is deprecated:DeprecationWarning"
)

KYOTO = ToolV2(function=ToolV2Function.model_validate(WEATHER["function"]))
NOW = ToolV2(
    function=ToolV2Function(
        name="now",
        description="Tell the time.",
        parameters={"type": "object", "properties": {}},  # the SDK's type demands a schema
    )
)
HELLO = [UserChatMessageV2(content="Hello")]
ASKED = [UserChatMessageV2(content="Weather in Kyoto?")]
JSON = [UserChatMessageV2(content="A city, as JSON.")]


def called(id: str, name: str, arguments: str) -> ToolCallV2:
    return ToolCallV2(id=id, function=ToolCallV2Function(name=name, arguments=arguments))


def pictured(*content: Any) -> list[Any]:
    return [UserChatMessageV2(content=[*content])]


def picture(url: str) -> ImageUrlContent:
    return ImageUrlContent(image_url=ImageUrl(url=url))


WORDS: dict[str, dict[str, Any]] = {
    "one-turn": {"messages": [UserChatMessageV2(content="こんにちは")]},
    "system-and-history": {
        "messages": [
            SystemChatMessageV2(content="Be brief."),
            SystemChatMessageV2(content="Answer in English."),  # it knows no developer
            UserChatMessageV2(content="Hello"),
            AssistantChatMessageV2(content="Hi."),
            UserChatMessageV2(content=[TextContent(text="How are you?")]),
        ]
    },
    "sampling": {
        "messages": HELLO,
        "temperature": 0.5,
        "p": 0.9,
        "max_tokens": 100,
        "stop_sequences": ["END", "###"],
    },
    "image-inline": {
        "messages": pictured(
            TextContent(text="What is this?"), picture(f"data:image/png;base64,{PNG}")
        )
    },
    "image-by-url": {"messages": pictured(picture(PICTURE), TextContent(text="What is this?"))},
    "tools": {"messages": ASKED, "tools": [KYOTO, NOW]},  # "auto" is what no word means
    "tool-required": {"messages": ASKED, "tools": [KYOTO], "tool_choice": "REQUIRED"},
    "tool-results": {
        "messages": [
            UserChatMessageV2(content="Weather in Kyoto and Nara?"),
            AssistantChatMessageV2(
                content="I look it up.",
                tool_calls=[
                    called("call_1", "get_weather", '{"city": "Kyoto"}'),
                    called("call_2", "get_weather", '{"city": "Nara"}'),
                ],
            ),
            ToolChatMessageV2(tool_call_id="call_1", content="sunny"),
            ToolChatMessageV2(tool_call_id="call_2", content="rain"),
            UserChatMessageV2(content="And now?"),
            # Arguments are JSON text, which "" is not.
            AssistantChatMessageV2(tool_calls=[called("call_3", "now", "{}")]),
            ToolChatMessageV2(tool_call_id="call_3", content='{"time": "12:00"}'),
        ],
        "tools": [KYOTO, NOW],
    },
    "json-object": {"messages": JSON, "response_format": JsonObjectResponseFormatV2()},
    "json-schema": {
        "messages": JSON,
        "response_format": JsonObjectResponseFormatV2(json_schema=CITY),
    },
    "effort": {
        "messages": [UserChatMessageV2(content="Think.")],
        "thinking": Thinking(type="enabled", token_budget=1024),
        "max_tokens": 4000,
    },
}
"""The turns in the words of the SDK."""
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
        lambda: client.chat_stream(model="m", request_options=options, **words)
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


BACK = {
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
CALLS = [called("call_1", "now", "{}")]


@pytest.mark.parametrize(
    ("way", "words"),
    [
        (
            "tool_plan",
            {
                "tool_plan": "I ask.",
                "content": [TextAssistantMessageV2ContentOneItem(text="Wait.")],
            },
        ),
        (
            "thinking",
            {
                "content": [
                    ThinkingAssistantMessageV2ContentOneItem(thinking="I ask."),
                    TextAssistantMessageV2ContentOneItem(text="Wait."),
                ]
            },
        ),
    ],
)
def test_reasoning_goes_back_as_the_sdk_sends_it(
    recorder: Recorder, way: str, words: dict[str, Any]
) -> None:
    messages = [
        UserChatMessageV2(content="Time?"),
        AssistantChatMessageV2(tool_calls=CALLS, **words),
        ToolChatMessageV2(tool_call_id="call_1", content="noon"),
    ]

    ours = sent_by_us(BACK, send_reasoning=way)
    assert ours == sent_by_sdk(recorder, {"messages": messages})
