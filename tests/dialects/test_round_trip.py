"""What an answer proved comes back by the clients of every format as it went."""

import json
from typing import Any

import msgspec
import pytest
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

from app import events as e
from app.dialects.client_formats import CLIENT_FORMATS
from app.dialects.openai_chat.upstream.request import Quirks, render_request
from app.requests import parse_chat_request
from tests.dialects import examples as ex
from tests.dialects.ag_ui.verify import read_messages
from tests.dialects.clients import HEAD, render_result
from tests.dialects.ui.verify import read_message

pytestmark = pytest.mark.pure

END: list[e.Event] = [e.ChoiceEnd("tool_calls"), e.StreamEnd("completed", "tool_calls")]
PROVED: list[e.Event] = [
    *HEAD,
    *(e.ReasoningStart(0), e.ReasoningDelta(0, "Hm."), e.Opaque("gemini.signature", "in", 0)),
    e.ReasoningEnd(0, signature="sig", format="anthropic"),
    *ex.thought(1, "So."),
    *ex.thought(2, "Then.", encrypted="enc", format="openai"),
    *ex.thought(8, "Now.", signature="s", encrypted="e"),
    e.Opaque("anthropic.redacted_thinking", "red"),
    *(e.TextStart(3), e.TextDelta(3, "Yes."), e.Opaque("gemini.signature", "at", 3), e.TextEnd(3)),
    *ex.refusal(4, "No."),
    e.Media(5, "image/png", data="aa=="),
    *(e.ToolCallStart(6, "c1", "now"), e.ToolCallDelta(6, '{"a":1}')),
    *(e.Opaque("google.thought_signature", "goo", 6), e.Opaque("other.proof", "of c1", 6)),
    e.ToolCallEnd(6, '{"a":1}'),
    e.Opaque("openai.compaction", "short"),
    *ex.text(7, "of another choice", choice=1),
    *END,
]
PARTS: dict[str, dict[str, Any]] = {
    "signed": {"type": "reasoning", "text": "Hm.", "signature": "sig", "format": "anthropic"},
    "inner": {"type": "opaque", "format": "gemini.signature", "data": "in"},
    "unsigned": {"type": "reasoning", "text": "So."},
    "encrypted": {"type": "reasoning", "text": "Then.", "encrypted": "enc", "format": "openai"},
    "both": {"type": "reasoning", "text": "Now.", "signature": "s", "encrypted": "e"},
    "first of both": {"type": "reasoning", "text": "Now.", "signature": "s"},
    "second of both": {"type": "reasoning", "encrypted": "e"},
    "redacted": {"type": "opaque", "format": "anthropic.redacted_thinking", "data": "red"},
    "text": {"type": "text", "text": "Yes."},
    "of the text": {"type": "opaque", "format": "gemini.signature", "data": "at"},
    "refusal": {"type": "refusal", "refusal": "No."},
    "text of the refusal": {"type": "text", "text": "No."},
    "compaction": {"type": "opaque", "format": "openai.compaction", "data": "short"},
}
THOUGHTS = ("signed", "inner", "unsigned", "encrypted", "both", "redacted")
COMES_BACK: dict[str, tuple[str, ...]] = {
    "native": (*THOUGHTS, "text", "of the text", "refusal", "compaction"),
    "openai_responses": (*THOUGHTS, "text", "refusal", "of the text", "compaction"),
    # Its clients keep no order, and a refusal beside the content.
    "openai_chat": (
        *("inner", "signed", "encrypted", "first of both", "second of both", "redacted"),
        *("of the text", "compaction", "text"),
    ),
    "anthropic": (*THOUGHTS, "text", "of the text", "text of the refusal", "compaction"),
    "ui": (*THOUGHTS, "text", "of the text", "text of the refusal", "compaction"),
    "ag_ui": (*THOUGHTS, "text", "of the text", "text of the refusal", "compaction"),
}


def go_on(client_format: str, events: list[e.Event], *, unset: bool) -> bytes:
    """Return the request by which a client goes on from an answer that called a tool."""
    result = json.loads(msgspec.json.encode(render_result(client_format, events)))
    told = {"role": "tool", "tool_call_id": "c1", "content": "1"}
    body: dict[str, Any]
    match client_format:
        case "native":
            body = {"messages": [result["message"], told]}
        case "openai_chat":
            choice = ChatCompletion.model_validate(result).choices[0]
            body = {"messages": [choice.message.model_dump(exclude_unset=unset), told]}
        case "openai_responses":
            output = Response.model_validate(result).output
            items = [item.model_dump(exclude_unset=unset, by_alias=True) for item in output]
            told = {"type": "function_call_output", "call_id": "c1", "output": "1"}
            body = {"input": [*items, told]}
        case "anthropic":
            told = {"type": "tool_result", "tool_use_id": "c1", "content": "1"}
            turns = [("assistant", result["content"]), ("user", [told])]
            messages = [{"role": role, "content": content} for role, content in turns]
            body = {"model": "m", "max_tokens": 9, "messages": messages}
        case "ui":
            message = read_message(result)
            (tool,) = [part for part in message["parts"] if part["type"] == "dynamic-tool"]
            tool |= {"state": "output-available", "output": "1"}
            body = {"id": "c", "messages": [message]}
        case _:
            told = {"id": "t", "role": "tool", "toolCallId": "c1", "content": "1"}
            body = {"threadId": "t", "runId": "r", "messages": [*read_messages(result), told]}
    return msgspec.json.encode(body)


@pytest.mark.parametrize("unset", [True, False])
@pytest.mark.parametrize("client_format", COMES_BACK)
def test_what_a_provider_wants_back_comes_back_by_the_client(client_format, unset):
    body = go_on(client_format, PROVED, unset=unset)
    answer, told = CLIENT_FORMATS[client_format].parse_request(body).chat.messages
    call = {
        "id": "c1",
        "type": "function",
        "function": {"name": "now", "arguments": '{"a":1}'},
        "opaque": [
            {"format": "google.thought_signature", "data": "goo"},
            {"format": "other.proof", "data": "of c1"},
        ],
    }
    content = [PARTS[name] for name in COMES_BACK[client_format]]
    wanted = {"role": "assistant", "content": content, "tool_calls": [call]}
    if client_format == "openai_chat":
        wanted["refusal"] = "No."

    assert wanted == msgspec.to_builtins(answer)
    assert {"role": "tool", "content": "1", "tool_call_id": "c1"} == msgspec.to_builtins(told)
    again = {"messages": [{"role": "user", "content": "?"}, msgspec.to_builtins(answer)]}
    parse_chat_request(json.dumps(again).encode())


@pytest.mark.parametrize("client_format", ["anthropic", "openai_responses"])
def test_reasoning_without_a_proof_goes_back_to_hosts_that_want_it(client_format):
    events = [*HEAD, *ex.thought(0, "Hm"), *ex.call(1, "c1", "f", "{}"), *END]
    result = render_result(client_format, events)
    # Clients leave out reasoning without a signature.
    (signature,) = [
        part.get("signature") or part.get("encrypted_content")
        for part in result.get("content") or result.get("output")
        if part["type"] in ("thinking", "reasoning")
    ]
    assert signature

    body = go_on(client_format, events, unset=True)
    chat = CLIENT_FORMATS[client_format].parse_request(body).chat
    sent = render_request(chat, model="m", quirks=Quirks(send_reasoning="reasoning_content")).body
    assert "Hm" == sent["messages"][0]["reasoning_content"]
