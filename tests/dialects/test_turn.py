"""What an answer proved goes back to its provider as it came."""

import json
from typing import Any

import msgspec
import pytest

from app import events as e
from app.dialects.answering.assistant_message import ToolCallBlock
from app.dialects.native.client.renderer import render_result
from app.dialects.upstream_formats import UPSTREAM_FORMATS
from app.requests import parse_chat_request
from tests.dialects import examples as ex
from tests.dialects.streams import STREAMS, absent, play

pytestmark = pytest.mark.pure

ASK = {"role": "user", "content": "Weather?"}


def message_of(events: list[e.Event]) -> Any:
    result = json.loads(msgspec.json.encode(render_result("st_x", events)))
    return result.get("message")


def test_text_alone_is_a_string():
    events = [*ex.text(0, "a", "b"), e.StreamEnd("completed", "stop")]

    assert {"role": "assistant", "content": "ab"} == message_of(events)


def test_calls_of_a_cut_answer_are_not_sent_back():
    events = [
        *ex.text(0, "a"),
        e.ToolCallStart(1, "i", "f"),
        e.ToolCallEnd(1, '{"a'),
        e.StreamEnd("failed", "error"),
    ]

    assert {"role": "assistant", "content": "a"} == message_of(events)


def test_the_whole_answer_has_log_probabilities_and_verdicts() -> None:
    first, second, third = ({"token": t, "logprob": -0.5} for t in "abc")
    verdict = {"hate": {"filtered": False, "severity": "low"}}
    events: list[e.Event] = [
        e.ContentFilter("prompt", verdict, filtered=False),
        e.TextStart(0),
        e.TextDelta(0, "ab"),
        e.LogProbs(0, [first]),
        e.LogProbs(0, [second]),
        e.TextEnd(0),
        e.ToolCallStart(1, "i", "f"),
        e.LogProbs(1, [third]),
        e.ToolCallEnd(1, "{}"),
        e.ContentFilter("completion", verdict, filtered=False),
        e.StreamEnd("completed", "tool_calls"),
    ]
    result = json.loads(msgspec.json.encode(render_result("st_x", events)))

    assert [[first, second], [third]] == [block["logprobs"] for block in result["blocks"]]
    assert [
        {"type": "content_filter", "scope": scope, "categories": verdict, "filtered": False}
        for scope in ("prompt", "completion")
    ] == result["content_filters"]
    assert "logprob" not in json.dumps(result["message"])


def test_an_answer_without_them_has_no_such_members() -> None:
    events = [*ex.text(0, "a"), e.StreamEnd("completed", "stop")]
    result = json.loads(msgspec.json.encode(render_result("st_x", events)))

    assert {"type": "text", "block": 0, "text": "a"} == result["blocks"][0]
    assert "content_filters" not in result


def test_a_running_stream_has_no_message_yet():
    assert message_of(ex.text(0, "a")) is None


def test_a_block_says_what_it_is():
    assert "tool_call" == ToolCallBlock("tool_call", 0, "i", "f", "{}").type


def recorded() -> list[Any]:
    if not STREAMS.exists():
        return [absent(names=3)]
    return [
        pytest.param(*row, id=row[0])
        for row in (
            ("anthropic/thinking-signature.sse", "anthropic", "signature"),
            ("anthropic/redacted-thinking.sse", "anthropic", "data"),
            ("bedrock/converse-reasoning-signature.eventstream", "bedrock_converse", "signature"),
            ("gemini/parallel-function-calls.sse", "gemini", "thoughtSignature"),
        )
    ]


def values(document: Any, key: str) -> list[Any]:
    """All values of a key, however deep."""
    if isinstance(document, list):
        return [value for item in document for value in values(item, key)]
    if not isinstance(document, dict):
        return []
    own = [document[key]] if isinstance(document.get(key), str) else []
    return own + [value for item in document.values() for value in values(item, key)]


@pytest.mark.parametrize(("file", "dialect", "key"), recorded())
def test_proofs_go_back_as_they_came(file: str, dialect: str, key: str) -> None:
    body = (STREAMS / file).read_bytes()
    message = message_of(play([body], dialect=dialect))
    request = parse_chat_request(json.dumps({"messages": [ASK, message, ASK]}).encode())
    sent = values(UPSTREAM_FORMATS[dialect].render_request(request, model="m").body, key)

    assert sent
    for signature in sent:
        assert signature[:40].encode() in body.replace(b"\\u003d", b"=")
