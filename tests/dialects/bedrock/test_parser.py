"""Converse as no recording has it: frames written by hand, and what they mean."""

import json
from base64 import b64encode
from typing import Any

import pytest

from app import events
from app.dialects.bedrock.upstream.parser import Parser
from app.events import (
    ChoiceEnd,
    ContentFilter,
    Event,
    Media,
    Notice,
    Opaque,
    ProviderTool,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    Source,
    StreamEnd,
    TextDelta,
    TextEnd,
    TextStart,
    TokenCounts,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from app.framing.eventstream import TRUNCATED
from app.framing.sse import Message
from tests.dialects.bedrock.written import BEGIN, USED, delta, finish, metadata, start, stop
from tests.dialects.blocks import text
from tests.dialects.streams import body_of, check, end_of, error_of, kinds, play, recordings
from tests.framing.frames import error, event, exception

pytestmark = pytest.mark.pure

COUNTS = TokenCounts(1, 2, 3)


def read(*frames: bytes) -> list[Event]:
    found = play([b"".join(frames)], dialect="bedrock_converse")
    check(found)
    return found


def said(*frames: bytes, reason: str = "end_turn") -> list[Event]:
    """The events of a whole answer, but for the ends."""
    found = read(BEGIN, *frames, finish(reason), metadata())
    assert end_of(found).status == "completed"
    assert [type(e) for e in found[-3:]] == [ChoiceEnd, Usage, StreamEnd]
    return found[:-3]


def test_a_whole_answer() -> None:
    assert read(BEGIN, delta(0, text="a"), delta(0, text="b"), stop(0), finish(), metadata()) == [
        *text("a", "b"),
        ChoiceEnd("stop", "end_turn"),
        Usage(1, 2, 3),
        StreamEnd("completed", "stop", COUNTS),
    ]


def test_usage_counts_the_cache_into_the_input() -> None:
    used = {**USED, "cacheReadInputTokens": 10, "cacheWriteInputTokens": 100, "totalTokens": 113}
    found = read(BEGIN, delta(0, text="a"), finish(), metadata(usage=used))

    assert end_of(found).usage == TokenCounts(111, 2, 113, 10, 100)


def test_an_answer_without_metadata_is_whole() -> None:
    assert read(BEGIN, delta(0, text="a"), finish())[-1] == StreamEnd("completed", "stop")


def test_an_empty_answer_is_whole_if_it_says_so() -> None:
    assert end_of(read(BEGIN, finish())).status == "completed"


def test_blocks_follow_each_other_without_stops() -> None:
    assert said(delta(0, text="a"), delta(1, text="b")) == [*text("a"), *text("b", block=1)]


def test_unknown_events_blocks_and_fields_are_ignored() -> None:
    assert said(
        event("initial-response", {}),
        event("novelty", [1]),
        start(0, novelty={"a": 1}),
        delta(0, novelty={"text": "x"}),
        delta(0, text="a", novelty=1),
        stop(0),
    ) == text("a")


@pytest.mark.parametrize(
    "piece",
    [
        {"text": None},
        {"text": 5},
        {"toolUse": "x"},
        {"reasoningContent": ["x"]},
        {"toolResult": {"a": 1}},
        {"image": "x"},
        {"citation": None},
    ],
)
def test_garbage_types_are_ignored(piece: dict[str, Any]) -> None:
    assert end_of(read(BEGIN, delta(0, **piece), delta(0, text="a"), finish())).status in (
        "completed",
    )


def test_tool_calls_come_whole_or_in_pieces() -> None:
    assert said(
        start(0, toolUse={"toolUseId": "t1", "name": "f"}),
        delta(0, toolUse={"input": ""}),
        delta(0, toolUse={"input": '{"a"'}),
        delta(0, toolUse={"input": ": 1}"}),
        stop(0),
        start(1, toolUse={"toolUseId": "t2", "name": "g", "type": "tool_use"}),
        stop(1),
        reason="tool_use",
    ) == [
        ToolCallStart(0, "t1", "f"),
        ToolCallDelta(0, '{"a"'),
        ToolCallDelta(0, ": 1}"),
        ToolCallEnd(0, '{"a": 1}'),
        ToolCallStart(1, "t2", "g"),
        ToolCallEnd(1, "{}"),
    ]


def test_a_tool_call_that_is_torn_is_a_truncation() -> None:
    half = (start(0, toolUse={"toolUseId": "t", "name": "f"}), delta(0, toolUse={"input": '{"a"'}))

    found = read(BEGIN, *half, finish("tool_use"), metadata())
    assert end_of(found).error is not None
    assert end_of(found).status == "failed"
    assert end_of(read(BEGIN, *half, finish("max_tokens"))).status == "completed"


def test_a_call_that_never_began_is_dropped_with_a_notice() -> None:
    found = read(BEGIN, delta(0, toolUse={"input": "{}"}), stop(0), finish(), metadata())

    assert "notice" in kinds(found)


SIGNED = [ReasoningStart(0), ReasoningDelta(0, "hm"), ReasoningEnd(0, 0, "c2ln", None, "anthropic")]


def test_reasoning_has_its_signature_at_the_end() -> None:
    assert said(
        delta(0, reasoningContent={"text": "hm"}),
        delta(0, reasoningContent={"signature": "c2ln"}),
        stop(0),
        delta(1, text="a"),
        stop(1),
    ) == [*SIGNED, *text("a", block=1)]


def test_a_signature_without_a_text_is_opaque() -> None:
    assert said(delta(0, reasoningContent={"signature": "c2ln"}), stop(0)) == [
        Opaque("anthropic", "c2ln")
    ]


def test_hidden_reasoning_has_the_form_of_anthropic() -> None:
    """The blob is Anthropic's base64 text, in base64 once more."""
    theirs = b64encode(b"\x12\x05\xff").decode()
    twice = b64encode(theirs.encode()).decode()
    once = b64encode(b"\x12\x05\xff").decode()

    assert said(
        delta(0, reasoningContent={"redactedContent": twice}),
        delta(1, reasoningContent={"redactedContent": once}),
        delta(2, reasoningContent={"redactedContent": "no base64!"}),
    ) == [
        Opaque("anthropic.redacted_thinking", theirs),
        Opaque("bedrock.redacted_content", once),
        Opaque("bedrock.redacted_content", "no base64!"),
    ]


def use(index: int, *pieces: Any, id: str = "s") -> bytes:
    tool = {"toolUseId": id, "name": "code", "type": "server_tool_use"}
    inner = b"".join(delta(index, toolUse={"input": piece}) for piece in pieces)
    return start(index, toolUse=tool) + inner + stop(index)


def result(index: int, *values: Any, id: str = "s", status: str = "success") -> bytes:
    head = start(index, toolResult={"toolUseId": id, "status": status, "type": "code_result"})
    return head + delta(index, toolResult=list(values)) + stop(index)


@pytest.mark.parametrize(
    ("frames", "told"),
    [
        (
            (use(0, '{"x"', ": 1}"), result(1, {"json": {"out": 2}})),
            [ProviderTool(0, "code", {"x": 1}), ProviderTool(0, "code", output={"out": 2})],
        ),
        ((use(0),), [ProviderTool(0, "code", {})]),
        ((use(0, {"x": 1}),), [ProviderTool(0, "code", {"x": 1})]),
        ((use(0, '{"x"'),), [ProviderTool(0, "code", '{"x"')]),
        (
            (use(0, "{}"), result(1, {"text": "a"}, {"json": [1]}, status="error")),
            [ProviderTool(0, "code", {}), ProviderTool(0, "code", output={"error": ["a", [1]]})],
        ),
        ((result(0, {"text": "a"}),), [ProviderTool(0, "code_result", output="a")]),
    ],
)
def test_the_providers_own_tools(frames: tuple[bytes, ...], told: list[Event]) -> None:
    assert said(*frames) == told


def test_a_providers_tool_is_no_call_for_the_client() -> None:
    found = read(BEGIN, use(0, "{}"), result(1, {"text": "a"}), delta(2, text="b"), finish())

    assert end_of(found).finish_reason == "stop"


def cite(index: int, **citation: Any) -> bytes:
    return delta(index, citation=citation)


@pytest.mark.parametrize(
    ("citation", "told"),
    [
        (
            {"title": "T", "location": {"web": {"url": "https://a.b/c", "domain": "a.b"}}},
            {"url": "https://a.b/c", "title": "T"},
        ),
        ({"source": "https://a.b/c"}, {"url": "https://a.b/c"}),
        (
            {
                "title": "T",
                "source": "s",
                "sourceContent": [{"text": "x"}, {"text": "y"}],
                "location": {"documentChar": {"documentIndex": 0, "start": 5, "end": 7}},
            },
            {"document": "s", "title": "T", "cited_text": "xy"},
        ),
        ({"title": "T", "location": {"documentPage": {}}}, {"document": "T", "title": "T"}),
        ({"location": {"documentChunk": {"documentIndex": 3}}}, {"document": "3"}),
        ({"location": {"searchResultLocation": {"searchResultIndex": 4}}}, {"document": "4"}),
    ],
)
def test_citations_are_sources_of_their_block(citation: Any, told: Any) -> None:
    source = Source(**told, block=1)

    expected = [*text("a"), TextStart(1), TextDelta(1, "b"), source, TextEnd(1)]
    assert said(delta(0, text="a"), cite(1, **citation), delta(1, text="b"), stop(1)) == expected
    assert said(delta(0, text="a"), delta(1, text="b"), cite(1, **citation), stop(1)) == expected


def test_a_citation_of_nothing_is_ignored() -> None:
    assert said(delta(0, text="a"), cite(0), cite(0, location={"web": 5})) == text("a")


def image(index: int, *pieces: dict[str, Any], format: str = "png") -> bytes:
    inner = b"".join(delta(index, image=piece) for piece in pieces)
    return start(index, image={"format": format}) + inner + stop(index)


@pytest.mark.parametrize(
    ("frames", "told"),
    [
        (image(0, {"source": {"bytes": "YWI="}}), [Media(0, "image/png", data="YWI=")]),
        (
            image(0, {"source": {"bytes": "YWI="}}, {"source": {"bytes": "Yw=="}}, format="webp"),
            [Media(0, "image/webp", data="YWJj")],
        ),
        (
            image(0, {"source": {"bytes": "YWI="}}, {"source": {"bytes": "Y"}}),
            [Media(0, "image/png", data="YWI=Y")],
        ),
        (
            image(0, {"source": {"s3Location": {"uri": "s3://b/k.png"}}}),
            [Media(0, "image/png", "s3://b/k.png")],
        ),
        (
            image(0, {"error": {"message": "too big"}}),
            [Notice("image_failed", "the upstream sent no image: too big")],
        ),
        (
            delta(0, image={"source": {"bytes": "YWI="}}) + stop(0),
            [Media(0, "image/png", data="YWI=")],
        ),
        (image(0), []),
    ],
)
def test_images(frames: bytes, told: list[Event]) -> None:
    assert said(frames) == told


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("content_filtered", "content_filter"),
        ("guardrail_intervened", "content_filter"),
        ("tool_use", "tool_calls"),
        ("a_new_one", "unknown"),
    ],
)
def test_finish_reasons(raw: str, reason: str) -> None:
    found = read(BEGIN, delta(0, text="a"), stop(0), finish(raw), metadata())

    assert end_of(found).status == "completed"
    assert (end_of(found).finish_reason, found[-3].finish_reason_raw) == (reason, raw)  # type: ignore[union-attr]


@pytest.mark.parametrize("raw", ["malformed_tool_use", "malformed_model_output"])
def test_a_malformed_answer_failed(raw: str) -> None:
    failed = end_of(read(BEGIN, delta(0, text="a"), finish(raw), metadata()))

    assert failed.error is not None
    assert (failed.status, failed.error.code) == ("failed", "upstream_tool_failed")
    assert failed.usage == COUNTS


EXCEPTIONS = [
    ("internalServerException", {}, "upstream_unavailable", True),
    (
        "modelStreamErrorException",
        {"originalStatusCode": 500, "originalMessage": "it broke"},
        "upstream_unavailable",
        True,
    ),
    ("modelTimeoutException", {"message": "slow"}, "upstream_timeout", True),
    ("throttlingException", {"message": "Too many tokens, wait"}, "upstream_rate_limited", True),
    ("serviceUnavailableException", {"message": "busy"}, "upstream_overloaded", True),
    ("validationException", {"message": "no such field"}, "upstream_invalid_request", False),
    (
        "validationException",
        {"message": "Input Tokens Exceeded: the prompt"},
        "context_length_exceeded",
        False,
    ),
    ("accessDeniedException", {"message": "no"}, "upstream_auth", False),
    ("somethingNewException", {"message": "no"}, "upstream_unavailable", True),
]


@pytest.mark.parametrize(("name", "payload", "code", "retryable"), EXCEPTIONS)
def test_an_exception_fails_the_answer(name: str, payload: Any, code: str, retryable: bool) -> None:
    for frames in (
        (exception(name, payload),),
        (event(name, payload),),
        (error(name, payload.get("message", "")),),
        (BEGIN, delta(0, text="a"), exception(name, payload), delta(0, text="b"), finish()),
    ):
        found = read(*frames)
        failed = end_of(found).error
        assert failed is not None
        assert (end_of(found).status, failed.code, failed.retryable) == ("failed", code, retryable)
        assert TextDelta(0, "b") not in found


def test_an_exception_after_the_finish_keeps_the_finish() -> None:
    found = read(BEGIN, delta(0, text="a"), finish("max_tokens"), exception("x", {}))

    assert end_of(found).status == "failed"
    assert end_of(found).finish_reason == "length"


def test_an_exception_without_json_is_one_too() -> None:
    parser = Parser(upstream="u")
    found = parser.feed(Message("exception:throttlingException", "<html>"))

    assert error_of(found).code == "upstream_rate_limited"


@pytest.mark.parametrize("data", ["", "[1]", '{"a', "5"])
def test_a_payload_that_is_no_object_fails_an_answer_that_is_not_finished(data: str) -> None:
    parser = Parser(upstream="u")
    found = parser.feed(Message("event:contentBlockDelta", data))
    assert error_of(found).code == "upstream_invalid_response"

    parser = Parser(upstream="u")
    parser.feed(Message("event:messageStop", '{"stopReason": "end_turn"}'))
    found = parser.feed(Message("event:metadata", data)) + parser.close(None)
    assert kinds(found)[0] == "notice"
    assert end_of(found).status == "completed"


GUARDRAIL = {
    "actionReason": "Guardrail blocked.",
    "modelOutput": ["the secret is 42"],
    "inputAssessment": {
        "g": {
            "topicPolicy": {
                "topics": [{"name": "money", "type": "DENY", "action": "BLOCKED", "detected": True}]
            },
            "wordPolicy": {
                "customWords": [{"match": "bad", "action": "BLOCKED"}],
                "managedWordLists": [{"match": "worse", "type": "PROFANITY", "action": "NONE"}],
            },
        }
    },
    "outputAssessments": {
        "g": [
            {
                "contentPolicy": {
                    "filters": [{"type": "HATE", "confidence": "LOW", "action": "NONE"}]
                },
                "sensitiveInformationPolicy": {
                    "piiEntities": [{"match": "a@b.c", "type": "EMAIL", "action": "ANONYMIZED"}],
                    "regexes": [{"name": "n", "regex": "x+", "match": "xx", "action": "NONE"}],
                },
                "invocationMetrics": {"usage": {"topicPolicyUnits": 1}},
            }
        ]
    },
}


def test_a_guardrails_trace_is_told_without_what_it_hid() -> None:
    found = read(
        BEGIN,
        delta(0, text="Sorry."),
        stop(0),
        finish("guardrail_intervened"),
        metadata(trace={"guardrail": GUARDRAIL}),
    )

    money = {"type": "DENY", "name": "money", "action": "BLOCKED", "detected": True}
    assert [e for e in found if isinstance(e, ContentFilter)] == [
        ContentFilter(
            "prompt",
            {
                "topicPolicy": {"filtered": True, "findings": [money]},
                "wordPolicy": {
                    "filtered": True,
                    "findings": [{"action": "BLOCKED"}, {"type": "PROFANITY", "action": "NONE"}],
                },
            },
            True,
        ),
        ContentFilter(
            "completion",
            {
                "contentPolicy": {
                    "filtered": False,
                    "findings": [{"type": "HATE", "action": "NONE", "confidence": "LOW"}],
                },
                "sensitiveInformationPolicy": {
                    "filtered": True,
                    "findings": [
                        {"type": "EMAIL", "action": "ANONYMIZED"},
                        {"name": "n", "action": "NONE"},
                    ],
                },
            },
            True,
        ),
    ]
    assert end_of(found).finish_reason == "content_filter"
    assert TextDelta(0, "Sorry.") in found
    whole = b"".join(events.encode(e) for e in found).decode()
    for hidden in ("42", "bad", "worse", "a@b.c", "xx", "x+"):
        assert hidden not in whole


@pytest.mark.parametrize("row", recordings("bedrock_converse", "guard"))
def test_what_a_recorded_guardrail_masked_stays_masked(row: dict[str, Any]) -> None:
    found = play([body_of(row)], dialect="bedrock_converse")

    (verdict,) = (e for e in found if isinstance(e, ContentFilter))
    assert (verdict.scope, verdict.filtered) == ("completion", True)
    assert [f["type"] for f in verdict.categories["sensitiveInformationPolicy"]["findings"]] == [
        "ADDRESS"
    ] * 4
    whole = b"".join(events.encode(e) for e in found).decode()
    assert not any(word in whole for word in ("Rome", "Tokyo", "Italy", "Japan"))


def test_a_prompt_router_tells_the_model_and_not_the_account() -> None:
    parser = Parser(upstream="u")
    arn = "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.amazon.nova-lite-v1:0"
    trace = {"promptRouter": {"invokedModelId": arn}}
    parser.feed(Message("event:metadata", json.dumps({"trace": trace})))

    assert parser.model == "us.amazon.nova-lite-v1:0"


WHOLE = {
    "output": {
        "message": {
            "role": "assistant",
            "content": [
                {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "c2ln"}}},
                {"text": "a"},
                {"citationsContent": {"content": [{"text": "b"}], "citations": [{"source": "s"}]}},
                {"toolUse": {"toolUseId": "t", "name": "f", "input": {"x": 1}}},
                {
                    "toolUse": {
                        "toolUseId": "s",
                        "name": "g",
                        "input": {},
                        "type": "server_tool_use",
                    }
                },
                {"toolResult": {"toolUseId": "s", "content": [{"text": "r"}]}},
            ],
        }
    },
    "stopReason": "tool_use",
    "usage": USED,
}


def test_an_answer_that_is_no_stream_is_read_too() -> None:
    found = play([json.dumps(WHOLE).encode()], dialect="bedrock_converse")

    check(found)
    assert found == [
        *SIGNED,
        *text("a", block=1),
        TextStart(2),
        TextDelta(2, "b"),
        Source(document="s", block=2),
        TextEnd(2),
        ToolCallStart(3, "t", "f"),
        ToolCallDelta(3, '{"x": 1}'),
        ToolCallEnd(3, '{"x": 1}'),
        ProviderTool(4, "g", {}),
        ProviderTool(4, "g", output="r"),
        ChoiceEnd("tool_calls", "tool_use"),
        Usage(1, 2, 3),
        StreamEnd("completed", "tool_calls", COUNTS),
    ]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"message": "The security token included in the request is expired"}, "upstream_auth"),
        ({"Message": "nothing known"}, "upstream_unavailable"),
        ({"__type": "com.amazon#ThrottlingException"}, "upstream_rate_limited"),
        (
            {"Output": {"__type": "com.amazon.coral.service#UnknownOperationException"}},
            "upstream_unavailable",
        ),
        ({"error": {"code": "rate_limit_exceeded"}}, "upstream_rate_limited"),
        ({"a": 1}, "upstream_invalid_response"),
        ({}, "upstream_invalid_response"),
    ],
)
def test_a_body_of_json_is_an_error(body: Any, code: str) -> None:
    failed = end_of(play([json.dumps(body).encode()], dialect="bedrock_converse"))

    assert failed.error is not None
    assert (failed.status, failed.error.code) == ("failed", code)


def test_a_body_of_json_that_is_cut_is_a_truncation() -> None:
    failed = end_of(play([b'{"message": "x'], dialect="bedrock_converse"))

    assert failed.error is not None
    assert failed.error.code == "upstream_truncated"


def test_half_a_frame_after_the_finish_is_a_truncation() -> None:
    parser = Parser(upstream="u")
    parser.feed(Message("event:messageStop", '{"stopReason": "end_turn"}'))
    found = parser.close(Message(TRUNCATED, ""))

    assert end_of(found).error is not None
    assert "inside a frame" in error_of(found).message
