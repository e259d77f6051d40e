"""What `useChat` posts, as a chat request, or refused with the place."""

import json
from typing import Any

import pytest

from app import requests as r
from app.dialects.client_format import name_of_chat
from app.dialects.ui.client.request import parse_request

pytestmark = pytest.mark.pure

HELLO: dict[str, Any] = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "Hi"}]}
HO = {"type": "text", "text": "Ho"}
ANSWER: dict[str, Any] = {"id": "a1", "role": "assistant", "parts": [HO]}
TOOL = {
    **{"type": "dynamic-tool", "toolName": "weather", "toolCallId": "c1", "title": "Weather"},
    **{"state": "output-available", "input": {"city": "Ōsaka"}, "output": {"sky": "blue"}},
}


def asked(*messages: dict[str, Any], **fields: Any) -> Any:
    return parse_request(json.dumps({"id": "chat", "messages": messages, **fields}).encode())


def told(*parts: dict[str, Any], role: str = "assistant") -> list[r.Message]:
    return list(asked({"id": "m", "role": role, "parts": parts}).chat.messages)


def test_turn_of_a_chat_is_a_request_that_is_named():
    found = asked(HELLO, trigger="submit-message", model="fast", provider_options={"a": 1})

    assert [r.UserMessage("Hi")] == found.chat.messages
    assert ("fast", {"a": 1}) == (found.chat.model, found.chat.provider_options)
    assert (name_of_chat("chat"), {}) == (found.name, found.labels)


def test_messages_of_all_roles():
    system = {"role": "system", "parts": [{"type": "text", "text": "Be "}, {"type": "text", "text": "kind"}]}  # fmt: skip

    assert [
        r.SystemMessage("Be kind"),
        r.UserMessage("Hi"),
        r.AssistantMessage("Ho"),
        r.UserMessage("Hi"),
    ] == asked(system, HELLO, {**ANSWER, "metadata": {"model": "m"}}, HELLO).chat.messages


def test_options_are_those_of_a_chat_request():
    tool = {"type": "function", "function": {"name": "weather"}}
    found = asked(HELLO, tools=[tool], temperature=0.5, on_disconnect="cancel", stream=False)

    assert "weather" == found.chat.tools[0].function.name
    assert (0.5, "cancel", False) == (
        found.chat.temperature,
        found.chat.on_disconnect,
        found.chat.stream,
    )


@pytest.mark.parametrize(
    ("file", "part"),
    [
        (("image/png", "https://a.example/b"), r.ImagePart(r.ImageUrl("https://a.example/b"))),
        (("image/png", "data:image/png;base64,eA=="), r.ImagePart(r.ImageUrl("data:image/png;base64,eA=="))),
        (("audio/mpeg", "data:audio/mpeg;base64,eA=="), r.AudioPart(r.InputAudio("eA==", "mp3"))),
        (("audio/wav;x=1", "data:audio/wav;base64,eA=="), r.AudioPart(r.InputAudio("eA==", "wav"))),
        (("application/pdf", "data:application/pdf;base64,eA=="), r.FilePart(r.FileSource("data:application/pdf;base64,eA==", None, "a"))),
        (("text/plain", "https://a.example/b.txt"), r.FilePart(r.FileSource(file_url="https://a.example/b.txt", filename="a"))),
    ],
)  # fmt: skip
def test_files_of_a_user(file, part):
    media_type, url = file
    given = {"type": "file", "mediaType": media_type, "url": url, "filename": "a"}

    assert [r.UserMessage([part])] == told(given, role="user")
    assert [r.UserMessage([r.TextPart("See"), part])] == told(
        {"type": "text", "text": "See"}, given, role="user"
    )


def test_steps_are_answers_with_the_results_between_them():
    assert [
        r.AssistantMessage(
            [r.ReasoningPart("Hm"), r.TextPart("Let me see")],
            tool_calls=[r.ToolCall("c1", r.FunctionCall("weather", '{"city":"Ōsaka"}'))],
        ),
        r.ToolMessage('{"sky":"blue"}', "c1"),
        r.AssistantMessage("Blue."),
    ] == told(
        {"type": "step-start"},
        {"type": "reasoning", "text": "Hm", "state": "done", "providerMetadata": {"other": {}}},
        {"type": "text", "text": "Let me see", "state": "done"},
        TOOL,
        {"type": "step-start"},
        {"type": "text", "text": "Blue."},
    )


@pytest.mark.parametrize(
    ("fields", "arguments", "result"),
    [
        ({"type": "tool-weather", "toolName": None}, '{"city":"Ōsaka"}', '{"sky":"blue"}'),
        ({"output": "blue"}, '{"city":"Ōsaka"}', "blue"),
        ({"output": None}, '{"city":"Ōsaka"}', "null"),
        ({"input": None}, "{}", '{"sky":"blue"}'),
        ({"state": "output-error", "errorText": "no net"}, '{"city":"Ōsaka"}', "no net"),
        ({"state": "output-error", "errorText": "bad", "input": '{"ci'}, '{"rawInvalidInput":"{\\"ci"}', "bad"),
        ({"state": "output-error", "errorText": "bad", "input": None, "rawInput": "x"}, '{"rawInvalidInput":"x"}', "bad"),
        ({"state": "output-denied", "approval": {"id": "1", "approved": False, "reason": "no"}}, '{"city":"Ōsaka"}', "no"),
        ({"state": "approval-responded", "approval": {"id": "1", "approved": False}}, '{"city":"Ōsaka"}', "The user denied the call of this tool."),
        ({"input": "ls", "callProviderMetadata": {"seseragi": {"opaque": [{"format": "f", "data": "d"}]}}}, "ls", '{"sky":"blue"}'),
    ],
)  # fmt: skip
def test_calls_with_what_came_of_them(fields, arguments, result):
    part = {key: value for key, value in {**TOOL, **fields}.items() if key != "toolName" or value}
    answer, message = told(part)

    assert isinstance(answer, r.AssistantMessage)
    assert answer.tool_calls
    call = answer.tool_calls[0].function
    assert ("weather", arguments) == (call.name, call.arguments)
    failed = fields.get("state", "output-available") != "output-available"
    assert r.ToolMessage(result, "c1", failed or None) == message


def test_call_that_was_denied_just_now_is_a_label():
    denied = {"state": "approval-responded", "approval": {"id": "1", "approved": False}}
    earlier = {"state": "output-denied", "toolCallId": "c0"}
    message = {"id": "a1", "role": "assistant", "parts": [{**TOOL, **earlier}, {**TOOL, **denied}]}

    assert {"message_id": "a1", "denied": '["c1"]'} == asked(message).labels


@pytest.mark.parametrize(
    "fields",
    [
        {"state": "input-streaming"},
        {"state": "input-available"},
        {"state": "approval-requested", "approval": {"id": "1"}},
        {"preliminary": True},
        {"providerExecuted": True},
    ],
)
def test_calls_without_a_result_are_left_out(fields):
    text = {"type": "text", "text": "Ho"}

    assert [r.AssistantMessage("Ho")] == told(text, {**TOOL, **fields})


def test_what_says_nothing_to_a_model_is_left_out():
    parts: list[dict[str, Any]] = [
        {"type": "data-chart", "data": [1]},
        {"type": "source-url", "sourceId": "s", "url": "https://a.example"},
        {"type": "source-document", "sourceId": "s", "mediaType": "a/b", "title": "t"},
    ]
    shown = [{"type": "file", "mediaType": "image/png", "url": "data:,"}, {"type": "text", "text": ""}]  # fmt: skip

    assert [r.UserMessage("Hi")] == asked({"role": "assistant", "parts": [*parts, *shown]}, HELLO).chat.messages  # fmt: skip
    assert [r.UserMessage("Hi")] == told(*parts, *HELLO["parts"], role="user")
    assert [r.SystemMessage("Hi"), r.UserMessage("Hi")] == asked(
        {"role": "system", "parts": [*parts, *HELLO["parts"]]}, HELLO
    ).chat.messages


def test_ids_come_back_as_they_were_shown():
    shown = [f"seseragi_{'x' * 22}_0", "call_67055809"]
    calls = [{**TOOL, "toolCallId": call} for call in shown]
    found = told(calls[0], {"type": "step-start"}, calls[1])

    assert shown == [
        message.tool_call_id for message in found if isinstance(message, r.ToolMessage)
    ]


SECOND = {**ANSWER, "id": "a2"}


@pytest.mark.parametrize(
    ("fields", "kept", "label"),
    [
        ({"messages": [HELLO, ANSWER]}, 2, "a1"),
        ({"messages": [HELLO, ANSWER, HELLO]}, 3, None),
        ({"messages": [HELLO, ANSWER, HELLO], "messageId": "a1"}, 3, "a1"),
        ({"messages": [HELLO, ANSWER, HELLO], "messageId": "u1"}, 3, None),
        ({"messages": [HELLO, {**ANSWER, "id": ""}]}, 2, None),
        ({"messages": [HELLO], "trigger": "regenerate-message"}, 1, None),
        ({"messages": [HELLO, ANSWER], "trigger": "regenerate-message"}, 2, None),
        ({"messages": [HELLO, ANSWER], "trigger": "regenerate-message", "messageId": "a1"}, 1, None),
        ({"messages": [HELLO], "trigger": "regenerate-message", "messageId": "gone"}, 1, None),
        ({"messages": [HELLO, ANSWER], "trigger": "regenerate-message", "messageId": "gone"}, 2, None),
        ({"messages": [HELLO, ANSWER, HELLO, SECOND], "trigger": "regenerate-message", "messageId": "a1"}, 1, None),
        ({"messages": [HELLO, ANSWER, HELLO, SECOND], "trigger": "regenerate-message", "messageId": "u1"}, 3, None),
    ],
)  # fmt: skip
def test_answer_goes_on_in_a_message_or_replaces_it(fields, kept, label):
    found = parse_request(json.dumps({"id": "chat", **fields}).encode())

    assert kept == len(found.chat.messages)
    assert ({"message_id": label} if label else {}) == found.labels
