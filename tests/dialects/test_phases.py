"""The phase of a message stands before its text, so that the text stays the last of an answer."""

import json
from typing import Any

import pytest

from app.dialects.client_formats import CLIENT_FORMATS
from app.dialects.openai_responses.upstream.parser import Parser
from app.events import Event, Opaque, StreamStart, StreamTarget, TextDelta
from app.framing.sse import Message
from app.requests import OpaquePart, TextPart

pytestmark = pytest.mark.pure

STREAM = "st_4fJ9qXw0V1cT8mYbR2nZkQ"
PART = {"type": "output_text", "text": "Hi", "annotations": []}


def item(*content: Any) -> dict[str, Any]:
    return {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "phase": "final_answer",
        "content": [*content],
    }


def parse(*events: dict[str, Any]) -> list[Event]:
    parser = Parser(upstream="u")
    found: list[Event] = [StreamStart(STREAM, "m", 0), StreamTarget("u", "m", 1)]
    for event in events:
        found += parser.feed(Message(event["type"], json.dumps(event)))
    return found


DONE = {"type": "response.output_item.done", "output_index": 0, "item": item(PART)}
COMPLETED = {
    "type": "response.completed",
    "response": {"id": "r", "status": "completed", "output": [item(PART)]},
}
ADDED = {"type": "response.output_item.added", "output_index": 0, "item": item()}
DELTA = {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "Hi"}


@pytest.mark.parametrize(
    "events", [[ADDED, DELTA, DONE, COMPLETED], [DONE, COMPLETED], [COMPLETED]], ids=len
)
def test_phase_stands_before_the_text(events: list[dict[str, Any]]):
    found = parse(*events)
    places = [i for i, event in enumerate(found) if isinstance(event, Opaque | TextDelta)]

    assert ["final_answer", "Hi"] == [
        getattr(found[i], "data", None) or getattr(found[i], "text", None) for i in places
    ]


def frames(name: str) -> list[dict[str, Any]]:
    renderer = CLIENT_FORMATS[name].renderer(STREAM)
    sent = [f.data for e in parse(ADDED, DELTA, DONE, COMPLETED) for f in renderer.feed(e)]
    return [json.loads(data) for data in sent if data.startswith(b"{")]


def test_last_block_of_messages_is_the_text():
    starts = [f["content_block"]["type"] for f in frames("anthropic") if "content_block" in f]

    assert "text" == starts[-1]


def values(fields: Any) -> list[OpaquePart | TextPart]:
    """Return the value of a text, as the relay sent it, and the text."""
    (value,) = fields["opaque"]
    return [OpaquePart(value["format"], value["data"]), TextPart("Hi")]


def test_ui_message_has_it_on_its_text_and_sends_it_back_before():
    sent = frames("ui")
    assert not [frame for frame in sent if "reasoning" in frame["type"]]
    (end,) = [frame for frame in sent if frame["type"] == "text-end"]

    metadata = end["providerMetadata"]
    part = {"type": "text", "text": "Hi", "providerMetadata": metadata}
    message = {"id": "m", "role": "assistant", "parts": [part]}
    again = {"id": "u", "role": "user", "parts": [{"type": "text", "text": "Go on"}]}
    body = json.dumps({"id": "c", "messages": [again, message, again]}).encode()
    chat = CLIENT_FORMATS["ui"].parse_request(body).chat
    assert values(metadata["seseragi"]) == chat.messages[1].content
    assert OpaquePart("openai.phase", "final_answer") == chat.messages[1].content[0]


def test_ag_ui_message_has_it_and_sends_it_back_before():
    sent = frames("ag_ui")
    kinds = [frame["type"] for frame in sent if "REASONING" in frame["type"]]
    assert ["REASONING_ENCRYPTED_VALUE"] == kinds
    (one,) = [frame for frame in sent if frame["type"] in kinds]
    (start,) = [frame for frame in sent if frame["type"] == "TEXT_MESSAGE_START"]
    assert ("message", start["messageId"]) == (one["subtype"], one["entityId"])

    answer = {"id": "a", "role": "assistant", "content": "Hi"}
    messages = [
        {"id": "u", "role": "user", "content": "Hello"},
        {**answer, "encryptedValue": one["encryptedValue"]},
        {"id": "v", "role": "user", "content": "Go on"},
    ]
    body = {"threadId": "t", "runId": "r", "messages": messages, "tools": [], "context": []}
    chat = CLIENT_FORMATS["ag_ui"].parse_request(json.dumps(body).encode()).chat
    assert values(json.loads(one["encryptedValue"])) == chat.messages[1].content


def test_responses_have_it_on_the_message():
    result = CLIENT_FORMATS["openai_responses"].render_result(
        STREAM, parse(ADDED, DELTA, DONE, COMPLETED)
    )

    assert ["final_answer"] == [one["phase"] for one in result["output"]]
