"""An answer goes back to Gemini as it came: each signature with the part that it proves."""

import json
from typing import Any

import msgspec
import pytest

from app.dialects.gemini.upstream.request import render_request
from app.dialects.native.client.renderer import render_result
from app.requests import AssistantMessage, ToolMessage, UserMessage, parse_chat_request
from tests.dialects.streams import body_of, play, recordings

pytestmark = pytest.mark.pure

MODEL = "gemini-3.6-flash"


def turn_of(body: bytes) -> AssistantMessage:
    """Return the message that the relay makes of an answer."""
    message = render_result("st_1", play([body], dialect="gemini")).message
    assert message is not None
    return message


def send_back(message: AssistantMessage) -> Any:
    """Return the contents of the next turn, with a result for each call."""
    calls = message.tool_calls or ()
    results = [ToolMessage("done", tool_call_id=call.id) for call in calls]
    messages = [UserMessage("Hi"), message, *results]
    request = parse_chat_request(msgspec.json.encode({"messages": messages}))
    return render_request(request, model=MODEL).body["contents"][1:]


def sse(*parts: dict[str, Any]) -> bytes:
    chunks: list[Any] = [{"candidates": [{"content": {"parts": [part]}}]} for part in parts]
    chunks.append({"candidates": [{"finishReason": "STOP"}]})
    return b"".join(b"data: " + json.dumps(chunk).encode() + b"\r\n\r\n" for chunk in chunks)


def call(name: str, **fields: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": {"a": 1}, **fields}}


@pytest.mark.parametrize(
    ("came", "goes"),
    [
        (
            [{"text": "t", "thought": True}, {"text": "a", "thoughtSignature": "c2ln"}],
            [{"text": "a", "thoughtSignature": "c2ln"}],
        ),
        (
            [{"text": "a"}, {"text": "b"}, {"text": "", "thoughtSignature": "c2ln"}],
            [{"text": "ab", "thoughtSignature": "c2ln"}],
        ),
        (
            [{"text": "a"}, {**call("f", id="x"), "thoughtSignature": "c2ln"}, call("g", id="y")],
            [{"text": "a"}, {**call("f", id="x"), "thoughtSignature": "c2ln"}, call("g", id="y")],
        ),
        ([{**call("f"), "thoughtSignature": "c2ln"}], [{**call("f"), "thoughtSignature": "c2ln"}]),
        (
            [
                {"executableCode": {"language": "PYTHON", "code": "1"}, "thoughtSignature": "MQ=="},
                {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
                {"text": "a"},
                {"text": "", "thoughtSignature": "Mg=="},
            ],
            [
                {"executableCode": {"language": "PYTHON", "code": "1"}, "thoughtSignature": "MQ=="},
                {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
                {"text": "a", "thoughtSignature": "Mg=="},
            ],
        ),
    ],
)
def test_an_answer_goes_back_as_it_came(
    came: list[dict[str, Any]], goes: list[dict[str, Any]]
) -> None:
    contents = send_back(turn_of(sse(*came)))

    assert contents[0] == {"role": "model", "parts": goes}


@pytest.mark.parametrize("row", recordings("gemini"))
def test_every_signature_of_a_recording_goes_back(row: dict[str, Any]) -> None:
    (choice,) = row["truth"]["choices"]
    contents = send_back(turn_of(body_of(row)))
    parts = contents[0]["parts"]
    sent = [part["thoughtSignature"] for part in parts if "thoughtSignature" in part]

    assert sent == choice.get("thought_signatures", [])
    assert "".join(part.get("text", "") for part in parts) == choice["text"]
    made = [part["functionCall"] for part in parts if "functionCall" in part]
    assert [(c["id"], c["args"]) for c in made] == [
        (c["id"], c["arguments_parsed"]) for c in choice["tool_calls"]
    ]
