"""Events to chunks, as the SDK's client reads them."""

import base64
import json
from typing import Any

import msgspec
import pytest

from app import events as e
from app.dialects.answering.ids import public_token
from app.dialects.ui.client.format import CLIENT_FORMAT
from app.errors import RequestError
from tests.dialects import examples as ex
from tests.dialects.clients import STREAM, frames
from tests.dialects.ui.verify import chunks_of, read_message

pytestmark = pytest.mark.pure

TOKEN = public_token(STREAM, "ui")
START: list[e.Event] = [e.StreamStart(STREAM, "fast", 1700000000), e.StreamTarget("up", "m-1", 1)]
COUNTS = e.TokenCounts(3, 2, 5, cached_input_tokens=1, reasoning_tokens=0)
DONE = e.StreamEnd("completed", "stop", COUNTS)
TEXT: list[e.Event] = ex.text(0, "Hi 🌊")


def chunks(events: list[e.Event]) -> list[dict[str, Any]]:
    return chunks_of(frames("ui", events))


def between(*events: e.Event, end: e.StreamEnd = DONE) -> list[dict[str, Any]]:
    """Return the chunks of events but those that begin and end every stream."""
    found = chunks([*START, *events, end])
    read_message(found)
    return [c for c in found[4:] if c["type"] not in ("finish-step", "finish")]


def data(event: e.Event) -> dict[str, Any]:
    return {"type": "data-seseragi", "data": msgspec.to_builtins(event), "transient": True}


def test_answer_is_a_message_of_one_step():
    assert [
        {"type": "start", "messageId": f"msg_{TOKEN}"},
        data(START[0]),
        {"type": "start-step"},
        data(START[1]),
        {"type": "text-start", "id": "t0"},
        {"type": "text-delta", "id": "t0", "delta": "Hi 🌊"},
        {"type": "text-end", "id": "t0"},
        {"type": "finish-step"},
        {
            "type": "finish",
            "finishReason": "stop",
            "messageMetadata": {
                "model": "m-1",
                "usage": {
                    "inputTokens": 3,
                    "outputTokens": 2,
                    "totalTokens": 5,
                    "inputTokenDetails": {"cacheReadTokens": 1},
                    "outputTokenDetails": {"reasoningTokens": 0},
                },
            },
        },
    ] == chunks([*START, *TEXT, e.ChoiceEnd("stop"), e.Usage(3, 2, 5), DONE])


def test_message_that_goes_on_keeps_its_id():
    start = e.StreamStart(STREAM, "fast", 1, {"message_id": "msg_before"})

    assert "msg_before" == chunks([start, DONE])[0]["messageId"]


@pytest.mark.parametrize("status", ["failed", "interrupted"])
def test_failure_is_an_error_with_its_facts_before_it(status):
    end = e.StreamEnd(
        status, "error", COUNTS, e.ErrorInfo("upstream_truncated", "it was cut", True)
    )
    found = chunks([*START, *TEXT, end])

    assert [data(end), {"type": "error", "errorText": "it was cut"}] == found[-2:]
    assert "finish" not in {chunk["type"] for chunk in found}


def test_cancelled_answer_is_an_abort():
    found = chunks([*START, *TEXT, e.StreamEnd("cancelled", "cancelled", e.TokenCounts(1))])

    assert [
        {"type": "finish-step"},
        {
            "type": "message-metadata",
            "messageMetadata": {"model": "m-1", "usage": {"inputTokens": 1}},
        },
        {"type": "abort", "reason": "cancelled"},
    ] == found[-3:]


CALL: list[e.Event] = ex.call(0, "call_x", "weather", '{"city":\n', ' "Ōsaka"}')
NAMES = {"toolCallId": "call_x", "toolName": "weather", "dynamic": True}


def test_call_of_a_tool_may_be_acted_on_when_the_answer_is_whole():
    assert [
        {"type": "tool-input-start", **NAMES},
        {"type": "tool-input-delta", "toolCallId": "call_x", "inputTextDelta": '{"city":\n'},
        {"type": "tool-input-delta", "toolCallId": "call_x", "inputTextDelta": ' "Ōsaka"}'},
        {"type": "tool-input-available", **NAMES, "input": {"city": "Ōsaka"}},
    ] == between(*CALL)


@pytest.mark.parametrize("status", ["failed", "interrupted", "cancelled"])
def test_call_of_an_answer_that_was_cut_may_not_be_acted_on(status):
    kinds = {chunk["type"] for chunk in chunks([*START, *CALL, e.StreamEnd(status, "error")])}

    assert "tool-input-start" in kinds
    assert "tool-input-available" not in kinds


@pytest.mark.parametrize("arguments", ["", '{"city', "[" * 100_000])
def test_arguments_that_are_no_json_are_an_error_of_the_call(arguments):
    start = e.ToolCallStart(0, "call_x", "weather")
    *_, last = between(start, e.ToolCallEnd(0, arguments))

    assert {
        "type": "tool-input-error",
        **NAMES,
        "input": arguments,
        "errorText": "the model's arguments are not valid JSON",
    } == last


@pytest.mark.parametrize(
    ("arguments", "given"),
    [
        ("{}", {}),
        ('{"n":\n12345678901234567890123}', {"n": 12345678901234567890123}),
        ('{"n":NaN,"half":"\\ud83d"}', {"n": None, "half": "\ufffd"}),
    ],
)
def test_arguments_are_what_the_model_said(arguments, given):
    *_, last = between(e.ToolCallStart(0, "call_x", "weather"), e.ToolCallEnd(0, arguments))

    assert given == last["input"]


def test_free_text_for_a_tool_is_a_text():
    opaque = e.Opaque("openai.custom_tool_call", "c1", 0)
    *_, last = between(e.ToolCallStart(0, "c1", "shell"), e.ToolCallEnd(0, "ls -l"), opaque)

    assert ("tool-input-available", "ls -l") == (last["type"], last["input"])


def test_tool_of_the_provider_has_its_output():
    names = {"toolCallId": f"tool_{TOKEN}_1", "providerExecuted": True, "dynamic": True}

    assert [
        {"type": "tool-input-available", **names, "toolName": "search", "input": {"q": "sea"}},
        {"type": "tool-output-available", **names, "output": [1, None]},
    ] == between(
        e.ProviderTool(1, "search", {"q": "sea"}), e.ProviderTool(1, "search", output=[1, None])
    )
    assert [{}, "found"] == [
        chunk.get("input", chunk.get("output"))
        for chunk in between(e.ProviderTool(1, "search", output="found"))
    ]


SEARCHED = {"toolCallId": f"tool_{TOKEN}_1", "providerExecuted": True, "dynamic": True}
ENDED = {"type": "tool-output-available", **SEARCHED, "output": None}


def test_tool_of_the_provider_that_tells_no_result_ends_before_the_answer():
    asked: list[e.Event] = [
        e.ProviderTool(1, "web_search"),
        e.ProviderTool(1, "web_search", {"query": "sea"}),
    ]
    words: list[e.Event] = ex.text(2, "It is wet.")
    kinds = ["tool-input-available"] * 2
    texts = ["text-start", "text-delta", "text-end"]

    found = between(*asked, *words)
    assert [*kinds, ENDED["type"], *texts] == [chunk["type"] for chunk in found]
    assert ENDED == found[2]
    late = between(*asked, *words, e.ProviderTool(1, "web_search", output="found"))
    assert {**ENDED, "output": "found"} == late[-1]


@pytest.mark.parametrize("status", ["completed", "cancelled", "failed", "interrupted"])
def test_tool_of_the_provider_ends_with_the_stream(status):
    error = e.ErrorInfo("internal", "failed", retryable=False) if status == "failed" else None
    end = e.StreamEnd(status, "unknown", None, error)
    found = chunks([*START, e.ProviderTool(1, "search", {}), end])
    (ended,) = [chunk for chunk in found if chunk["type"].startswith("tool-output")]

    if status == "completed":
        assert ENDED == ended
    else:
        words = {"errorText": "the answer ended before the tool"}
        assert {"type": "tool-output-error", **SEARCHED, **words} == ended


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ({"type": "web_search_tool_result_error", "error_code": "too_many_requests"}, "too_many_requests"),
        ({"is_error": True, "content": [{"type": "text", "text": "no"}]}, '[{"type":"text","text":"no"}]'),
        ({"error": "the page is gone"}, "the page is gone"),
        ({"error": {"code": 404}}, '{"code":404}'),
    ],
)  # fmt: skip
def test_tool_of_the_provider_that_failed_says_why(output, words):
    *_, last = between(e.ProviderTool(1, "search", {}), e.ProviderTool(1, "search", output=output))

    assert {"type": "tool-output-error", **SEARCHED, "errorText": words} == last


@pytest.mark.parametrize(
    "output", [{"error": None}, {"error": "x", "text": "y"}, {"type": "x"}, ""]
)
def test_result_that_only_looks_like_a_failure_is_none(output):
    *_, last = between(e.ProviderTool(1, "search", {}), e.ProviderTool(1, "search", output=output))

    assert {**ENDED, "output": output} == last


@pytest.mark.parametrize("item", ["not JSON", "[]"])
def test_item_that_is_no_object_is_no_request_to_approve(item):
    called, *_ = between(e.ProviderTool(1, "roll", {}), e.Opaque("openai.item", item, block=1))

    assert "tool-input-available" == called["type"]


def test_call_that_the_user_has_to_approve_is_not_ended():
    item = {"type": "mcp_approval_request", "id": "mcpr_1", "name": "roll", "arguments": "{}"}
    asked = e.Opaque("openai.item", json.dumps(item), block=1)
    kinds = between(e.ProviderTool(1, "roll", {}), asked)

    assert [
        "tool-input-available",
        "tool-approval-request",
        "reasoning-start",
        "reasoning-end",
    ] == [chunk["type"] for chunk in kinds]
    assert ("mcpr_1", kinds[0]["toolCallId"]) == (kinds[1]["approvalId"], kinds[1]["toolCallId"])


def test_source_is_a_part_that_keeps_where_it_belongs():
    url = e.Source("https://a.example/", None, "A", "cited", 0, 2, 0)
    document = e.Source(document="doc-1", block=0)

    assert [
        {
            "type": "source-url",
            "sourceId": f"source_{TOKEN}_0",
            "url": "https://a.example/",
            "title": "A",
            "providerMetadata": {"seseragi": msgspec.to_builtins(url)},
        },
        {
            "type": "source-document",
            "sourceId": f"source_{TOKEN}_1",
            "mediaType": "application/octet-stream",
            "title": "doc-1",
            "providerMetadata": {"seseragi": msgspec.to_builtins(document)},
        },
    ] == between(url, document)


def test_text_has_the_citations_that_belong_to_it():
    url = e.Source("https://a.example/", None, "A", "cited", 0, 2, 0)
    page = {"type": "source", "sourceType": "url", "id": f"source_{TOKEN}_0"}
    *_, end = between(e.TextStart(0), e.TextDelta(0, "Hi"), url, e.TextEnd(0))

    assert [
        {
            "source": {**page, "url": "https://a.example/", "title": "A"},
            "startIndex": 0,
            "endIndex": 2,
            "citedText": "cited",
        }
    ] == end["citations"]


def test_calls_that_the_user_denied_are_reported_to_the_message_that_goes_on():
    start = e.StreamStart("st_1", "m", 1, labels={"message_id": "a1", "denied": '["call_x"]'})
    found = chunks([start, DONE])

    assert {"type": "tool-output-denied", "toolCallId": "call_x"} in found
    assert "a1" == found[0]["messageId"]


def test_pictures_are_files_and_the_pieces_of_a_sound_are_one():
    pieces = [base64.b64encode(piece).decode() for piece in (b"a", b"bc")]

    assert [
        {"type": "file", "url": "https://a.example/b.png", "mediaType": "image/png"},
        {"type": "file", "url": "data:image/png;base64,eA==", "mediaType": "image/png"},
        {"type": "file", "url": "data:audio/pcm;base64,YWJj", "mediaType": "audio/pcm"},
    ] == between(
        e.Media(0, "image/png", "https://a.example/b.png"),
        e.Media(1, "audio/pcm", data=pieces[0]),
        e.Media(2, "image/png", data="eA=="),
        e.Media(1, "audio/pcm", data=pieces[1]),
    )
    assert [] == between(e.Media(1, "audio/pcm", data="a"))


def test_what_is_for_developers_is_transient():
    notice = e.Notice("retry", "again")
    verdict = e.ContentFilter("prompt", {"hate": {"filtered": True}}, True)

    assert [data(notice), data(verdict)] == between(notice, verdict, e.LogProbs(0, [{}]))


def test_failure_before_the_stream_is_the_message_alone():
    error = RequestError("invalid_request", "messages: nothing is said in them")
    failure = CLIENT_FORMAT.render_failure(error, "req_1")

    assert (400, b"messages: nothing is said in them", "text/plain") == failure
