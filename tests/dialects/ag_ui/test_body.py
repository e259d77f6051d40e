"""What a run is asked with, as a chat request, or refused with the place."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.dialects.ag_ui.client.request import parse_request
from app.errors import RequestError
from app.requests import (
    AssistantMessage,
    AudioPart,
    DeveloperMessage,
    FileData,
    FilePart,
    FunctionCall,
    ImagePart,
    ImageUrl,
    InputAudio,
    Message,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)

pytestmark = pytest.mark.pure

HELLO = {"id": "u1", "role": "user", "content": "Hi"}
RUN = {"threadId": "t1", "runId": "r1", "state": {}, "tools": [], "context": [], "forwardedProps": {}}  # fmt: skip


def asked(*messages: dict[str, Any], **fields: Any) -> Any:
    return parse_request(json.dumps({**RUN, "messages": messages, **fields}).encode())


def told(*messages: dict[str, Any]) -> list[Message]:
    return list(asked(*messages).chat.messages)


def called(call: str, **fields: Any) -> dict[str, Any]:
    function = {"name": "weather", "arguments": "{}"}
    return {"id": call, "type": "function", "function": function, **fields}


def test_run_is_a_request_with_its_ids():
    found = asked(HELLO, parentRunId="r0", protocolVersion="1.0", state={"a": 1})

    assert [UserMessage("Hi")] == found.chat.messages
    assert {"thread_id": "t1", "run_id": "r1", "parent_run_id": "r0"} == found.labels
    assert {"thread_id": "t1", "run_id": "r1"} == asked(HELLO).labels


def test_messages_of_all_roles():
    assert [
        DeveloperMessage("d", "n"),
        SystemMessage("s"),
        UserMessage("Hi"),
        AssistantMessage(
            [ReasoningPart("Hm"), TextPart("a"), TextPart("b")],
            tool_calls=[ToolCall("c1", FunctionCall("weather", "{}"))],
        ),
        ToolMessage("blue", "c1"),
        AssistantMessage("Blue."),
    ] == told(
        {"id": "1", "role": "developer", "content": "d", "name": "n"},
        {"id": "2", "role": "system", "content": "s", "metadata": {}},
        HELLO,
        {"id": "3", "role": "reasoning", "content": "Hm", "encryptedValue": "of another"},
        {"id": "4", "role": "assistant", "content": "a", "toolCalls": [called("c1"), called("c2")]},
        {"id": "5", "role": "activity", "activityType": "PLAN", "content": {}},
        {"id": "6", "role": "assistant", "content": "b"},
        {"id": "7", "role": "tool", "toolCallId": "c1", "content": "blue"},
        {"id": "8", "role": "assistant", "content": "Blue."},
    )


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ({"type": "text", "text": "a"}, TextPart("a")),
        ({"type": "image", "source": {"type": "data", "value": "eA==", "mimeType": "image/png"}}, ImagePart(ImageUrl("data:image/png;base64,eA=="))),
        ({"type": "image", "source": {"type": "url", "value": "https://a.example/b"}}, ImagePart(ImageUrl("https://a.example/b"))),
        ({"type": "audio", "source": {"type": "data", "value": "eA==", "mimeType": "audio/wav"}}, AudioPart(InputAudio("eA==", "wav"))),
        ({"type": "document", "source": {"type": "url", "value": "https://a.example/b.pdf"}}, FilePart(FileData("https://a.example/b.pdf"))),
        ({"type": "video", "source": {"type": "data", "value": "eA==", "mimeType": "video/mp4"}}, FilePart(FileData("data:video/mp4;base64,eA=="))),
        ({"type": "document", "source": {"type": "file", "value": "file-1"}}, FilePart(FileData(file_id="file-1"))),
    ],
)  # fmt: skip
def test_parts_of_a_user(part, expected):
    assert [UserMessage([expected])] == told({**HELLO, "content": [part]})


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"content": "", "error": "no net"}, ToolMessage("no net", "c1", is_error=True)),
        ({"content": "half", "error": "no net"}, ToolMessage("half", "c1", is_error=True)),
        ({"content": [{"type": "text", "text": "a"}]}, ToolMessage([TextPart("a")], "c1")),
    ],
)
def test_results_of_tools(fields, expected):
    answer = {"role": "assistant", "toolCalls": [called("c1")]}

    assert expected == told(answer, {"role": "tool", "toolCallId": "c1", **fields})[1]


def test_context_is_a_system_message_after_the_first_ones():
    context = [{"description": "User", "value": "Aoi"}, {"description": "Page", "value": "cart"}]
    told_of = SystemMessage("Context:\n\nUser:\nAoi\n\nPage:\ncart")
    system = {"role": "system", "content": "s"}

    assert [SystemMessage("s"), told_of, UserMessage("Hi")] == asked(
        system, HELLO, context=context
    ).chat.messages
    assert [told_of, UserMessage("Hi")] == asked(HELLO, context=context).chat.messages
    assert [SystemMessage("s"), told_of] == asked(system, context=context).chat.messages


def test_tools_and_props_are_options():
    schema = {"type": "object", "properties": {}}
    other = {"type": "function", "function": {"name": "other"}}
    found = asked(
        HELLO,
        tools=[{"name": "weather", "description": "d", "parameters": schema}, {"name": "b", "description": ""}],
        forwardedProps={"model": "fast", "provider_options": {"a": 1}, "tools": [other], "theme": "dark"},
    )  # fmt: skip

    assert ("fast", {"a": 1}) == (found.chat.model, found.chat.provider_options)
    assert ["weather", "b", "other"] == [tool.function.name for tool in found.chat.tools]
    assert schema == found.chat.tools[0].function.parameters
    assert None is asked(HELLO, forwardedProps=None).chat.model


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"messages": []}, "messages: nothing is said in them"),
        ({"threadId": None}, "threadId: expected `str`"),
        ({"surprise": 1}, "unknown field `surprise`"),
        ({"resume": [{"interruptId": "i", "status": "resolved"}]}, "resume: the relay interrupts"),
        ({"forwardedProps": {"temperature": 9}}, "forwardedProps.temperature: expected"),
        ({"messages": [{**HELLO, "role": "robot"}]}, "messages[0].role: "),
        ({"messages": [{**HELLO, "content": [{"type": "binary"}]}]}, "messages[0].content[0].type: "),
        ({"messages": [{**HELLO, "content": [{"type": "image", "source": {"type": "data", "value": "x"}}]}]}, "messages[0].content[0].source: missing field `mimeType`"),
        ({"messages": [{**HELLO, "content": [{"type": "image", "source": {"type": "url", "value": "blob:x"}}]}]}, "can be read by the page only"),
        ({"messages": [{"role": "tool", "toolCallId": "c", "content": [{"type": "document", "source": {"type": "file", "value": "f"}}]}]}, "messages[0].content: a tool may give text and images only"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_named(fields, words):
    with pytest.raises(RequestError) as caught:
        parse_request(json.dumps({**RUN, "messages": [HELLO], **fields}).encode())

    assert "invalid_request" == caught.value.code
    assert words in caught.value.message


strings = st.sampled_from(("", "a", "text", "call_1", '{"signature":"x"}', "[["))
junk: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | strings,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(strings, inner, max_size=3),
    max_leaves=4,
)
roles = st.sampled_from(
    ("user", "assistant", "system", "developer", "tool", "reasoning", "activity")
)
messages = st.fixed_dictionaries(
    {"role": roles | junk, "content": strings | junk},
    optional={
        "toolCallId": strings,
        "error": strings,
        "encryptedValue": strings | junk,
        "toolCalls": st.lists(st.builds(called, strings), max_size=2) | junk,
    },
)


@given(
    st.fixed_dictionaries(
        {"threadId": strings, "runId": strings, "messages": st.lists(messages, max_size=4) | junk},
        optional={"tools": junk, "context": junk, "forwardedProps": junk, "state": junk},
    )
)
def test_junk_is_read_or_refused(body):
    with contextlib.suppress(RequestError):
        assert parse_request(json.dumps(body).encode()).chat.messages
