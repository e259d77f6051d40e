"""What a run is asked with, as a chat request, or refused with the place."""

import json
from typing import Any

import pytest

from app import requests as r
from app.dialects.ag_ui.client.request import parse_request

pytestmark = pytest.mark.pure

HELLO = {"id": "u1", "role": "user", "content": "Hi"}
RUN = {"threadId": "t1", "runId": "r1", "state": {}, "tools": [], "context": [], "forwardedProps": {}}  # fmt: skip


def asked(*messages: dict[str, Any], **fields: Any) -> Any:
    return parse_request(json.dumps({**RUN, "messages": messages, **fields}).encode())


def told(*messages: dict[str, Any]) -> list[r.Message]:
    return list(asked(*messages).chat.messages)


def called(call: str, **fields: Any) -> dict[str, Any]:
    function = {"name": "weather", "arguments": "{}"}
    return {"id": call, "type": "function", "function": function, **fields}


def test_run_is_a_request_with_its_ids():
    found = asked(HELLO, parentRunId="r0", protocolVersion="1.0", state={"a": 1})

    assert [r.UserMessage("Hi")] == found.chat.messages
    ids = {"thread_id": "t1", "run_id": "r1", "parent_run_id": "r0"}
    assert ids == found.tags
    assert {**ids, "protocol_version": "1.0"} == found.labels
    assert {"thread_id": "t1", "run_id": "r1"} == asked(HELLO).labels


def test_fields_that_the_protocol_does_not_know_are_ignored_by_name():
    found = asked(HELLO, data={"a": 1}, later="", newer=None, **{"x" * 300: 1})

    assert ("data", "x" * 120) == found.chat.left_out
    many = {f"f{number}": 1 for number in range(200)}
    assert 50 == len(asked(HELLO, **many).chat.left_out)


def test_copy_of_the_properties_is_that_of_a_client_that_wants_the_inputs_of_calls():
    """TanStack AI's client sends them as `data` too."""
    found = asked(HELLO, forwardedProps={"temperature": 1}, data={"temperature": 1})

    assert () == tuple(found.chat.left_out or ())
    assert "tool_inputs" in found.labels
    assert "tool_inputs" in asked(HELLO, data={}).labels
    assert "tool_inputs" not in asked(HELLO).labels


def test_messages_of_all_roles():
    assert [
        r.DeveloperMessage("d", "n"),
        r.SystemMessage("s"),
        r.UserMessage("Hi"),
        r.AssistantMessage(
            [r.ReasoningPart("Hm"), r.TextPart("a"), r.TextPart("b")],
            tool_calls=[r.ToolCall("c1", r.FunctionCall("weather", "{}"))],
        ),
        r.ToolMessage("blue", "c1"),
        r.AssistantMessage("Blue."),
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
        ({"type": "text", "text": "a"}, r.TextPart("a")),
        ({"type": "image", "source": {"type": "data", "value": "eA==", "mimeType": "image/png"}}, r.ImagePart(r.ImageUrl("data:image/png;base64,eA=="))),
        ({"type": "image", "source": {"type": "url", "value": "https://a.example/b"}}, r.ImagePart(r.ImageUrl("https://a.example/b"))),
        ({"type": "audio", "source": {"type": "data", "value": "eA==", "mimeType": "audio/wav"}}, r.AudioPart(r.InputAudio("eA==", "wav"))),
        ({"type": "document", "source": {"type": "url", "value": "https://a.example/b.pdf"}}, r.FilePart(r.FileSource(file_url="https://a.example/b.pdf"))),
        ({"type": "video", "source": {"type": "data", "value": "eA==", "mimeType": "video/mp4"}}, r.VideoPart(r.VideoUrl("data:video/mp4;base64,eA=="))),
        ({"type": "document", "source": {"type": "file", "value": "file-1"}}, r.FilePart(r.FileSource(file_id="file-1"))),
    ],
)  # fmt: skip
def test_parts_of_a_user(part, expected):
    assert [r.UserMessage([expected])] == told({**HELLO, "content": [part]})


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"content": "", "error": "no net"}, r.ToolMessage("no net", "c1", is_error=True)),
        ({"content": "half", "error": "no net"}, r.ToolMessage("half", "c1", is_error=True)),
        ({"content": [{"type": "text", "text": "a"}]}, r.ToolMessage([r.TextPart("a")], "c1")),
    ],
)
def test_results_of_tools(fields, expected):
    answer = {"role": "assistant", "toolCalls": [called("c1")]}

    assert expected == told(answer, {"role": "tool", "toolCallId": "c1", **fields})[1]


def test_context_is_a_system_message_after_the_first_ones():
    context = [{"description": "User", "value": "Aoi"}, {"description": "Page", "value": "cart"}]
    told_of = r.SystemMessage("Context:\n\nUser:\nAoi\n\nPage:\ncart")
    system = {"role": "system", "content": "s"}

    assert [r.SystemMessage("s"), told_of, r.UserMessage("Hi")] == asked(
        system, HELLO, context=context
    ).chat.messages
    assert [told_of, r.UserMessage("Hi")] == asked(HELLO, context=context).chat.messages
    assert [r.SystemMessage("s"), told_of] == asked(system, context=context).chat.messages


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
