"""Our events in Anthropic's words."""

import json
from typing import Any

import pytest
from anthropic.types import Usage
from hypothesis import given
from hypothesis import strategies as st

from app import events as e
from app.dialects.answering.ids import public_token, show_call
from app.dialects.anthropic.client.format import CLIENT_FORMAT
from app.dialects.anthropic.client.result import render_result
from app.dialects.reasoning_signatures import (
    UNSIGNED,
    PackedSignature,
    is_packed,
    pack,
    unpack,
)
from app.errors import RelayError, RequestError, UpstreamError
from tests.dialects import examples as ex
from tests.dialects.anthropic.messages_protocol import accumulate, payloads_of, without_unknown

pytestmark = pytest.mark.pure

START = e.StreamStart("st_T", "m", 1700000000)
HI: list[e.Event] = ex.text(0, "Hi")
SEARCH = [{"type": "web_search_result", "url": "https://a.example", "encrypted_content": "e"}]
SEARCHES = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search"}
FINDS = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1"}


COUNTS = (
    *("cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens_details"),
    *("server_tool_use", "fallback_credit", "iterations"),
)
TERMS = ("cache_creation", "inference_geo", "service_tier", "speed")


def raw(fields: dict[str, Any]) -> e.Raw:
    return e.Raw("anthropic", json.dumps(fields))


def ended(
    *events: e.Event, reason: Any = "stop", raw: str | None = None, **end: Any
) -> list[e.Event]:
    stop = end.pop("stop_sequence", None)
    return [START, *events, e.ChoiceEnd(reason, raw, stop), e.StreamEnd("completed", reason, **end)]


def message(*events: e.Event, **end: Any) -> dict[str, Any]:
    return accumulate(payloads_of(ended(*events, **end)))


def call(block: int, *pieces: str, id: str = "call_a") -> list[e.Event]:
    return ex.call(block, id, "f", *pieces)


@pytest.mark.parametrize(
    ("counts", "told"),
    [
        (None, {"input_tokens": 0}),
        (e.TokenCounts(9, estimated=True), {"input_tokens": 9}),
        (
            e.TokenCounts(
                100, cached_input_tokens=60, cache_write_tokens=30, cache_write_1h_tokens=10
            ),
            {
                "input_tokens": 10,
                "cache_read_input_tokens": 60,
                "cache_creation_input_tokens": 30,
                "cache_creation": {
                    "ephemeral_5m_input_tokens": 20,
                    "ephemeral_1h_input_tokens": 10,
                },
            },
        ),
    ],
)
def test_the_message_begins_with_the_counts_of_its_input(counts: Any, told: Any) -> None:
    again, target = e.Notice("retry", "again"), e.StreamTarget("u", "m-1", 1, usage=counts)
    start, *_ = payloads_of([START, again, target, *HI])
    usage = Usage.model_validate(start["message"]["usage"]).model_dump()

    assert {"output_tokens": 0, **told} == {k: v for k, v in usage.items() if v is not None}
    assert [] == payloads_of([START, again])


def test_a_text_is_said_in_anthropics_events() -> None:
    counts = e.TokenCounts(input_tokens=10, output_tokens=2, cached_input_tokens=4)

    assert payloads_of(
        ended(e.StreamTarget("u", "m-1", 1), *HI, e.Usage(10, 2), usage=counts), "st_aB-_9"
    ) == [
        {
            "type": "message_start",
            "message": {
                "id": f"msg_{public_token('st_aB-_9', 'anthropic')}",
                "type": "message",
                "role": "assistant",
                "model": "m",
                "content": [],
                "stop_reason": None,
                "stop_sequence": None,
                "stop_details": None,
                "container": None,
                "context_management": None,
                "diagnostics": None,
                "usage": {
                    **dict.fromkeys([*COUNTS, *TERMS]),
                    "input_tokens": 0,
                    "output_tokens": 0,
                },
            },
        },
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "text", "text": ""},
        },
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {
                "stop_reason": "end_turn",
                "stop_sequence": None,
                "stop_details": None,
                "container": None,
            },
            "usage": {
                **dict.fromkeys(COUNTS),
                "input_tokens": 6,
                "output_tokens": 2,
                "cache_read_input_tokens": 4,
            },
            "context_management": None,
        },
        {"type": "message_stop"},
    ]


def thinking(text: str, signature: str = "") -> dict[str, Any]:
    return {"type": "thinking", "thinking": text, "signature": signature}


def text(text: str, **fields: Any) -> dict[str, Any]:
    return {"type": "text", "text": text, **fields}


def use(id: str, input: str | None = None) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": "f", "input": {} if input is None else input}


def redacted(data: str) -> dict[str, Any]:
    return {"type": "redacted_thinking", "data": data}


def thought(**signature: Any) -> list[e.Event]:
    return ex.thought(0, "Hm", **signature)


PAGE = {
    "type": "web_search_result_location",
    "url": "https://a.example",
    "title": "A",
    "cited_text": "",
    "encrypted_index": "",
}

CONTENTS: dict[str, tuple[list[e.Event], list[dict[str, Any]]]] = {
    "signed thinking": (thought(signature="sig", format="anthropic"), [thinking("Hm", "sig")]),
    "thinking without a signature": (thought(), [thinking("Hm", pack(UNSIGNED))]),
    "thinking that another provider signed": (thought(encrypted="enc", format="openai"), [thinking("Hm", pack(PackedSignature("openai", encrypted="enc")))]),
    "a signature that nobody owns": (thought(signature="sig"), [thinking("Hm", pack(PackedSignature(signature="sig")))]),
    "thinking whose text is hidden": ([e.Opaque("anthropic", "sig")], [thinking("", "sig")]),
    "redacted thinking": ([e.Opaque("anthropic.redacted_thinking", "x")], [redacted("x")]),
    "what another provider wants back": ([e.Opaque("gemini", "x")], [redacted(pack(PackedSignature("gemini", data="x")))]),
    "what belongs to a call": (
        [e.ToolCallStart(0, "a", "f"), e.Opaque("gemini", "x", block=0), e.ToolCallEnd(0, "{}")],
        [use("a"), redacted(pack(PackedSignature("gemini", data="x", call="a")))],
    ),
    "a compaction": ([e.Opaque("anthropic.compaction", '{"type":"compaction","content":"c"}')], [{"type": "compaction", "content": "c"}]),
    "a compaction that is none": ([e.Opaque("anthropic.compaction", "[")], [redacted(pack(PackedSignature("anthropic.compaction", data="[")))]),
    "a refusal": (ex.refusal(0, "No"), [text("No")]),
    "a call": (call(0, '{"a"', ":1}"), [use("call_a", '{"a":1}')]),
    "a call without arguments": (call(0), [use("call_a")]),
    "an id with other letters": (call(0, id="functions.f:0"), [use("seseragi-ZnVuY3Rpb25zLmY6MA")]),
    "an id that the relay made up": (call(0, id="seseragi_0"), [use(show_call("st_T", "seseragi_0"))]),
    "a text that cites a page": ([e.TextStart(0), e.TextDelta(0, "Hi"), e.Source("https://a.example", title="A", block=0), *HI[2:]], [text("Hi", citations=[PAGE])]),
    "sources that have no form": ([*HI, e.Source(document="d", block=0), e.Source("https://a.example"), e.Source("x:", block=0)], [text("Hi")]),
    "a tool of Anthropic's": (
        [
            e.ProviderTool(0, "web_search", {"query": "q"}, raw=raw(SEARCHES)),
            e.ProviderTool(0, "web_search", output=SEARCH, raw=raw(FINDS)),
            e.ProviderTool(1, "web_search", "{oops", raw=raw(SEARCHES)),
        ],
        [
            {**SEARCHES, "input": '{"query":"q"}'},
            {**FINDS, "content": SEARCH},
            {**SEARCHES, "input": {}},
        ],
    ),
    "tools of others": ([e.ProviderTool(0, "web_search", {"query": "q"}), e.ProviderTool(0, "web_search", output=SEARCH), e.ProviderTool(1, "web_search", {}, raw=e.Raw("other", "{}")), e.ProviderTool(2, "web_search", {}, raw=e.Raw("anthropic", "[")), e.ProviderTool(3, "x", raw=raw(FINDS))], []),
    "what has no form": ([e.Media(0, "image/png", "https://a.example"), e.LogProbs(0, []), e.Notice("a", "b")], []),
    "other choices": (ex.text(0, "x", choice=1), []),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTENTS)
def test_every_block_has_its_form(name: str) -> None:
    events, content = CONTENTS[name]

    assert content == message(*events)["content"]


def test_blocks_that_interleave_are_told_one_after_another() -> None:
    events: list[e.Event] = [
        START,
        e.ToolCallStart(0, "a", "f"),
        e.ToolCallDelta(0, '{"a'),
        e.ToolCallStart(1, "b", "f"),
        e.ToolCallDelta(1, "{"),
        e.ToolCallDelta(0, '":1}'),
        e.ToolCallDelta(1, "}"),
        e.ToolCallEnd(1, "{}"),
        e.ToolCallEnd(0, '{"a":1}'),
        e.ChoiceEnd("tool_calls"),
        e.StreamEnd("completed", "tool_calls"),
    ]
    told = [(p["type"][14:], p.get("index")) for p in payloads_of(events)[1:-2]]

    kinds = ("start", "delta", "delta", "stop")
    assert told == [(kind, index) for index in (0, 1) for kind in kinds]


CUT = e.StreamEnd("failed", "error", None, UpstreamError("upstream_truncated", "cut").info())
DONE = e.StreamEnd("completed", "tool_calls")


@pytest.mark.parametrize(
    ("events", "end", "kinds"),
    [
        (HI, CUT, "start delta error"),
        ([*HI, *call(1, '{"path": "/')], CUT, "start delta stop start delta error"),
        ([*HI, *call(1, "{}")], DONE, "start delta stop start delta stop message_delta message_stop"),
    ],
)  # fmt: skip
def test_a_block_that_was_cut_is_not_stopped(events: Any, end: e.StreamEnd, kinds: str) -> None:
    """Claude Code would go on with half a tool call."""
    found = [p["type"].removeprefix("content_block_") for p in payloads_of([START, *events, end])]

    assert ["message_start", *kinds.split()] == found


def test_the_first_block_is_told_while_it_comes() -> None:
    assert payloads_of([START, *HI[:2]])[-1]["delta"]["text"] == "Hi"


@pytest.mark.parametrize(
    ("events", "end", "reason"),
    [
        (HI, {}, "end_turn"),
        (HI, {"stop_sequence": "END"}, "stop_sequence"),
        (HI, {"reason": "length", "raw": "model_context_window_exceeded"}, "model_context_window_exceeded"),
        (call(0), {"reason": "tool_calls"}, "tool_use"),
        (ex.refusal(0), {}, "refusal"),
        (call(0), {"reason": "unknown"}, "tool_use"),
    ],
)  # fmt: skip
def test_the_stop_reason_is_anthropics(
    events: list[e.Event], end: dict[str, Any], reason: str
) -> None:
    found = message(*events, **end)

    assert (found["stop_reason"], found["stop_sequence"]) == (reason, end.get("stop_sequence"))


def test_counts_that_are_unknown_are_zero_where_clients_need_them() -> None:
    assert message(*HI)["usage"] == {"input_tokens": 0, "output_tokens": 0}


def test_all_counts_are_told() -> None:
    counts = e.TokenCounts(20, 5, 25, 4, 6, 3, estimated=True)

    assert message(*HI, usage=counts)["usage"] == {
        "estimated": True,
        "input_tokens": 10,
        "output_tokens": 5,
        "cache_read_input_tokens": 4,
        "cache_creation_input_tokens": 6,
        "output_tokens_details": {"thinking_tokens": 3},
    }


@pytest.mark.parametrize("status", ["failed", "cancelled", "interrupted"])
@pytest.mark.parametrize("error", [e.ErrorInfo("upstream_overloaded", "busy", True), None])
def test_what_did_not_complete_ends_with_an_error(status: Any, error: e.ErrorInfo | None) -> None:
    events = [START, *HI, e.StreamEnd(status, "error", error=error)]
    found = accumulate(payloads_of(events))

    assert found["content"] == [text("Hi")]
    assert found["error"]["type"] == ("overloaded_error" if error else "api_error")
    with pytest.raises(RelayError):
        render_result("st_T", events)


def test_a_call_that_the_limit_has_torn_is_left_out_of_a_result() -> None:
    events = ended(*HI, *call(1, '{"a'), reason="length")

    assert without_unknown(render_result("st_T", events))["content"] == [text("Hi")]


@pytest.mark.parametrize("arguments", ["[1]", '{"a'])
def test_a_call_with_arguments_that_are_no_object_is_a_failure(arguments: str) -> None:
    events = ended(*call(0, arguments), reason="tool_calls")

    assert accumulate(payloads_of(events))["error"]["type"] == "api_error"
    with pytest.raises(UpstreamError, match="'f' are not a JSON object"):
        render_result("st_T", events)


def test_a_missing_model_is_not_found() -> None:
    failure = CLIENT_FORMAT.render_failure(RequestError("model_not_found", "m"), "req_1")

    assert failure.status == 404


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("'openai' finds it too long", "prompt is too long: 'openai' finds it too long"),
        ("anthropic: Prompt is too long: 9", "anthropic: Prompt is too long: 9"),
    ],
)
def test_full_context_is_told_in_the_words_that_clients_look_for(message: str, shown: str) -> None:
    code = "context_length_exceeded"
    failure = CLIENT_FORMAT.render_failure(UpstreamError(code, message), "req_1")
    error = e.ErrorInfo(code, message, retryable=False)
    streamed = accumulate(payloads_of([START, e.StreamEnd("failed", "error", error=error)]))

    expected = {"type": "invalid_request_error", "message": shown}
    assert [expected, expected] == [json.loads(failure.body)["error"], streamed["error"]]


@given(st.builds(PackedSignature, *[st.none() | st.text()] * 5))
def test_a_signature_unpacks_to_what_was_packed(packed: PackedSignature) -> None:
    assert is_packed(pack(packed))
    assert unpack(pack(packed)) == packed


@given(st.text())
def test_what_is_no_proof_is_none(junk: str) -> None:
    assert unpack(junk) is None
    assert unpack(f"seseragi.{junk}") in (None, PackedSignature())
