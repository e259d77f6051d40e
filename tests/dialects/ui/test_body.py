"""What `useChat` posts, as a chat request, or refused with the place."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.dialects.ui.client.request import parse_request
from app.errors import RequestError
from app.requests import (
    AssistantMessage,
    AudioPart,
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

HELLO: dict[str, Any] = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "Hi"}]}
ANSWER: dict[str, Any] = {
    "id": "a1",
    "role": "assistant",
    "parts": [{"type": "text", "text": "Ho"}],
}
TOOL = {
    "type": "dynamic-tool",
    "toolName": "weather",
    "toolCallId": "c1",
    "state": "output-available",
    "input": {"city": "Ōsaka"},
    "output": {"sky": "blue"},
    "title": "Weather",
}


def asked(*messages: dict[str, Any], **fields: Any) -> Any:
    return parse_request(json.dumps({"id": "chat", "messages": messages, **fields}).encode())


def told(*parts: dict[str, Any], role: str = "assistant") -> list[Message]:
    return list(asked({"id": "m", "role": role, "parts": parts}).chat.messages)


def refusal(*messages: dict[str, Any], **fields: Any) -> str:
    with pytest.raises(RequestError) as caught:
        asked(*messages, **fields)
    assert "invalid_request" == caught.value.code
    return caught.value.message


def test_turn_of_a_chat_is_a_request_that_is_named():
    found = asked(HELLO, trigger="submit-message", model="fast", provider_options={"a": 1})

    assert [UserMessage("Hi")] == found.chat.messages
    assert ("fast", {"a": 1}) == (found.chat.model, found.chat.provider_options)
    assert ("ui:chat", {}) == (found.name, found.labels)


def test_messages_of_all_roles():
    system = {"role": "system", "parts": [{"type": "text", "text": "Be "}, {"type": "text", "text": "kind"}]}  # fmt: skip

    assert [
        SystemMessage("Be kind"),
        UserMessage("Hi"),
        AssistantMessage("Ho"),
        UserMessage("Hi"),
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
        (("image/png", "https://a.example/b"), ImagePart(ImageUrl("https://a.example/b"))),
        (("image/png", "data:image/png;base64,eA=="), ImagePart(ImageUrl("data:image/png;base64,eA=="))),
        (("audio/mpeg", "data:audio/mpeg;base64,eA=="), AudioPart(InputAudio("eA==", "mp3"))),
        (("audio/wav;x=1", "data:audio/wav;base64,eA=="), AudioPart(InputAudio("eA==", "wav"))),
        (("application/pdf", "data:application/pdf;base64,eA=="), FilePart(FileData("data:application/pdf;base64,eA==", None, "a"))),
        (("text/plain", "https://a.example/b.txt"), FilePart(FileData("https://a.example/b.txt", None, "a"))),
    ],
)  # fmt: skip
def test_files_of_a_user(file, part):
    media_type, url = file
    given = {"type": "file", "mediaType": media_type, "url": url, "filename": "a"}

    assert [UserMessage([part])] == told(given, role="user")
    assert [UserMessage([TextPart("See"), part])] == told(
        {"type": "text", "text": "See"}, given, role="user"
    )


def test_steps_are_answers_with_the_results_between_them():
    assert [
        AssistantMessage(
            [ReasoningPart("Hm"), TextPart("Let me see")],
            tool_calls=[ToolCall("c1", FunctionCall("weather", '{"city":"Ōsaka"}'))],
        ),
        ToolMessage('{"sky":"blue"}', "c1"),
        AssistantMessage("Blue."),
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

    assert isinstance(answer, AssistantMessage)
    assert answer.tool_calls
    call = answer.tool_calls[0].function
    assert ("weather", arguments) == (call.name, call.arguments)
    failed = fields.get("state", "output-available") != "output-available"
    assert ToolMessage(result, "c1", failed or None) == message


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

    assert [AssistantMessage("Ho")] == told(text, {**TOOL, **fields})


def test_what_says_nothing_to_a_model_is_left_out():
    parts: list[dict[str, Any]] = [
        {"type": "data-chart", "data": [1]},
        {"type": "source-url", "sourceId": "s", "url": "https://a.example"},
        {"type": "source-document", "sourceId": "s", "mediaType": "a/b", "title": "t"},
    ]
    shown = [{"type": "file", "mediaType": "image/png", "url": "data:,"}, {"type": "text", "text": ""}]  # fmt: skip

    assert [UserMessage("Hi")] == asked({"role": "assistant", "parts": [*parts, *shown]}, HELLO).chat.messages  # fmt: skip
    assert [UserMessage("Hi")] == told(*parts, *HELLO["parts"], role="user")
    assert [SystemMessage("Hi"), UserMessage("Hi")] == asked(
        {"role": "system", "parts": [*parts, *HELLO["parts"]]}, HELLO
    ).chat.messages


def test_ids_come_back_as_they_were_shown():
    shown = [f"seseragi_{'x' * 22}_0", "call_67055809"]
    calls = [{**TOOL, "toolCallId": call} for call in shown]
    found = told(calls[0], {"type": "step-start"}, calls[1])

    assert shown == [message.tool_call_id for message in found if isinstance(message, ToolMessage)]


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
        ({"messages": [HELLO, ANSWER], "trigger": "regenerate-message"}, 1, None),
        ({"messages": [HELLO], "trigger": "regenerate-message", "messageId": "gone"}, 1, None),
        ({"messages": [HELLO, ANSWER, HELLO, SECOND], "trigger": "regenerate-message", "messageId": "a1"}, 1, None),
        ({"messages": [HELLO, ANSWER, HELLO, SECOND], "trigger": "regenerate-message", "messageId": "u1"}, 3, None),
    ],
)  # fmt: skip
def test_answer_goes_on_in_a_message_or_replaces_it(fields, kept, label):
    found = parse_request(json.dumps({"id": "chat", **fields}).encode())

    assert kept == len(found.chat.messages)
    assert ({"message_id": label} if label else {}) == found.labels


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "the body is empty"),
        (b"[]", "expected `object`, got `array`"),
        (b'{"messages":[]}', "missing required field `id`"),
        (b'{"id":"","messages":[]}', "id: expected `str` of length >= 1"),
        (b'{"id":"c","messages":[]}', "messages: nothing is said in them"),
        (b'{"id":"c","messages":[],"trigger":"resume-stream"}', "trigger: "),
        (b'{"id":"c","messages":[{"role":"robot","parts":[]}]}', "messages[0].role: "),
        (b'{"id":"c","messages":[{"role":"user","content":"Hi"}]}', "messages[0]"),
    ],
)
def test_bad_body_is_named(body, words):
    with pytest.raises(RequestError) as caught:
        parse_request(body)

    assert words in caught.value.message


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"web_search": True}, "unknown field `web_search`"),
        ({"n": 2}, "unknown field `n`"),
        ({"temperature": 3}, "temperature: expected"),
        ({"tools": [{"function": {}}]}, "tools[0].function: "),
    ],
)
def test_bad_option_is_named(fields, words):
    assert words in refusal(HELLO, **fields)


@pytest.mark.parametrize(
    ("role", "part", "words"),
    [
        ("user", {"type": "file", "mediaType": "image/png", "url": "blob:x"}, "can be read by the page only"),
        ("user", {"type": "file", "mediaType": "image/png"}, "missing required field `url`"),
        ("user", {"type": "text", "text": 1}, "messages[0].parts[0].text: expected `str`, got `int`"),
        ("user", {"type": "data-x"}, "messages[0]: it has no text and no file"),
        ("user", {}, "no part of type None"),
        ("user", {"type": "reasoning", "text": "a"}, "no part of type 'reasoning' here"),
        ("system", {"type": "file"}, "no part of type 'file' here"),
        ("assistant", {"type": "custom", "kind": "a.b"}, "no part of type 'custom' here"),
        ("assistant", {**TOOL, "state": "done"}, "messages[0].parts[0].state: invalid"),
        ("assistant", {**TOOL, "state": "approval-responded", "approval": {"approved": True}}, "the relay runs no tools"),
        ("assistant", {"type": "text", "text": "a", "providerMetadata": {"seseragi": {"opaque": [1]}}}, "messages[0].parts[0].providerMetadata.seseragi.opaque[0]: expected"),
    ],
)  # fmt: skip
def test_bad_part_is_named(role, part, words):
    assert words in refusal({"role": role, "parts": [part]})


strings = st.sampled_from(("", "a", "text", "call_1"))
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | strings
junk: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(strings, inner, max_size=3),
    max_leaves=4,
)
parts = st.fixed_dictionaries(
    {"type": st.sampled_from(("text", "reasoning", "file", "tool-a", "dynamic-tool", "data-x", "step-start")) | junk},
    optional={
        "text": strings | junk,
        "state": st.sampled_from(("output-available", "output-error", "output-denied", "input-available")) | junk,
        "toolCallId": strings,
        "input": junk,
        "rawInput": junk,
        "output": junk,
        "approval": junk,
        "mediaType": strings | junk,
        "url": st.just("data:,") | junk,
        "providerMetadata": st.fixed_dictionaries({"seseragi": junk}) | junk,
    },
)  # fmt: skip
messages = st.fixed_dictionaries(
    {"role": st.sampled_from(("user", "assistant", "system")), "parts": st.lists(parts, max_size=3)},
    optional={"id": strings, "metadata": junk},
)  # fmt: skip


@given(
    st.fixed_dictionaries(
        {"id": st.just("c") | junk, "messages": st.lists(messages, max_size=3) | junk},
        optional={"trigger": strings, "messageId": strings, "model": junk, "tools": junk},
    )
)
def test_junk_is_read_or_refused(body):
    with contextlib.suppress(RequestError):
        assert parse_request(json.dumps(body).encode()).chat.messages
