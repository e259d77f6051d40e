"""Events to Responses events: the types and the helper of OpenAI's client are the judge."""

import json
from typing import Any

import msgspec
import pytest

from app import events as e
from app.dialects.answering.ids import public_token
from app.dialects.openai_responses.client.result import is_response_id, render_result, response_id
from app.dialects.openai_responses.compaction_summary import pack_summary
from app.dialects.upstream_formats import UPSTREAM_FORMATS
from app.errors import CODES
from tests.dialects import examples as ex
from tests.dialects.clients import STREAM, frames
from tests.dialects.openai_responses import verify

pytestmark = pytest.mark.pure

NAME = public_token(STREAM, "openai_responses")
ITEMS = public_token(STREAM, "openai_responses.items")
START: list[e.Event] = [
    e.StreamStart(STREAM, "fast", 1700000000, {"response": '{"metadata":{"a":"b"}}'}),
    e.Notice("retry", "again"),
    e.StreamTarget("up", "m-1", 1, "up-1"),
]
COUNTS = e.TokenCounts(3, 2, 5, cached_input_tokens=1, reasoning_tokens=0)


def payloads(events: list[e.Event]) -> list[dict[str, Any]]:
    return [json.loads(frame.data) for frame in frames("openai_responses", events)]


def check(events: list[e.Event]) -> dict[str, Any]:
    """Have the judge check a stream; return the last response object, which is the result too."""
    response = verify.check(frames("openai_responses", events))
    assert json.loads(msgspec.json.encode(render_result(STREAM, events))) == response
    return response


def whole(*events: e.Event, reason: Any = "stop") -> list[e.Event]:
    return [*START, *events, e.ChoiceEnd(reason), e.StreamEnd("completed", reason, COUNTS)]


def brief(events: list[e.Event]) -> list[Any]:
    """The types between the first two and the last, without what they share."""
    return [payload["type"].removeprefix("response.") for payload in payloads(events)[2:-1]]


TEXT: list[e.Event] = ex.text(0, "Hi", " 🌊")
THOUGHT: list[e.Event] = ex.thought(0, "Hm.")
FORMS = {
    "apply_patch": {"form": "custom", "name": "apply_patch"},
    "mcp__w__get": {"name": "get", "namespace": "mcp__w"},
    "tool_search": {"form": "tool_search", "name": "tool_search"},
}
TOOLS: list[e.Event] = [
    e.StreamStart(STREAM, "fast", 1700000000, {"response.tools": json.dumps(FORMS)}),
    e.StreamTarget("up", "m-1", 1, "up-1"),
]
CALL: list[e.Event] = ex.call(0, "c1", "now", '{"a":', "1}")

ADDED, DONE = "output_item.added", "output_item.done"
PART = ["content_part.added", "output_text.delta", "output_text.done", "content_part.done"]
TWO_PIECES = [PART[0], PART[1], *PART[1:]]
PIECE = "function_call_arguments.delta"
CALLED = ["function_call_arguments.done", DONE]
SUMMARY = ["part.added", "text.delta", "text.done", "part.done"]
TYPES: dict[str, tuple[list[e.Event], list[str]]] = {
    "nothing": ([], []),
    "text": (TEXT, [ADDED, *TWO_PIECES, DONE]),
    "two texts are two parts": ([*TEXT, *ex.text(1, "x")], [ADDED, *TWO_PIECES, *PART, DONE]),
    "a refusal": (ex.refusal(0, "No."), [ADDED, PART[0], "refusal.delta", "refusal.done", PART[3], DONE]),
    "reasoning, then text": (
        [*THOUGHT, *ex.text(1, "x")],
        [ADDED, *(f"reasoning_summary_{kind}" for kind in SUMMARY), DONE, ADDED, *PART, DONE],
    ),
    "a call": (CALL, [ADDED, PIECE, PIECE, *CALLED]),
    "a call without pieces": (ex.call(0, "c1", "now"), [ADDED, PIECE, *CALLED]),
    "a call is done when something follows it": (
        [*CALL, *ex.call(1, "c2", "then")],
        [ADDED, PIECE, PIECE, *CALLED, ADDED, PIECE, *CALLED],
    ),
    "calls that interleave": (
        [
            *(e.ToolCallStart(0, "c1", "now"), e.ToolCallStart(1, "c2", "then")),
            *(e.ToolCallDelta(1, "{}"), e.ToolCallDelta(0, "{}")),
            *(e.ToolCallEnd(0, "{}"), e.ToolCallEnd(1, "{}")),
        ],
        [ADDED, ADDED, PIECE, PIECE, *CALLED, *CALLED],
    ),
    "an image": ([e.Media(0, "image/png", data="aa==")], [ADDED, DONE]),
    "a signature alone": ([e.Opaque("a.b", "xx")], [ADDED, DONE]),
    "what has no place": (
        [
            e.ContentFilter("prompt", {}, False),
            e.ProviderTool(0, "search"),
            e.Media(1, "audio/pcm", data="aa=="),
            e.Source(url="https://a.example/"),
            e.Opaque("openai.phase", "commentary"),
            e.LogProbs(0, [{"token": "x", "logprob": -1}]),
            *ex.text(2, "another choice", choice=1),
        ],
        [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TYPES)
def test_events_make_these(name):
    events, expected = TYPES[name]

    assert expected == brief(whole(*events))
    assert "completed" == check(whole(*events))["status"]


def test_response_says_what_was_asked_and_what_it_took():
    response = check(whole(*TEXT))

    assert {
        "id": f"resp_{NAME}",
        "object": "response",
        "created_at": 1700000000,
        "model": "m-1",
        "metadata": {"a": "b"},
        "background": False,
        "error": None,
        "incomplete_details": None,
        "usage": {
            "input_tokens": 3,
            "input_tokens_details": {"cached_tokens": 1, "cache_write_tokens": 0},
            "output_tokens": 2,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 5,
        },
    }.items() <= response.items()
    (message,) = response["output"]
    assert {
        "id": f"msg_{ITEMS}_0",
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Hi 🌊", "annotations": [], "logprobs": []}],
    } == message


def test_model_is_the_route_until_it_is_known_what_answers():
    created, *_, last = payloads(whole(*TEXT))

    assert ("fast", "m-1") == (created["response"]["model"], last["response"]["model"])


def test_one_in_the_background_is_queued_until_it_is_known_what_answers():
    start = e.StreamStart(STREAM, "fast", 1, {"background": "1"})
    said = payloads([start, *START[1:], e.StreamEnd("completed", "stop")])

    assert ["created", "queued", "in_progress", "completed"] == [
        payload["type"].removeprefix("response.") for payload in said
    ]
    assert ["queued", "queued", "in_progress", "completed"] == [
        payload["response"]["status"] for payload in said
    ]
    assert said[0]["response"]["background"] is True


def test_call_of_an_answer_that_was_cut_is_never_done():
    error = e.ErrorInfo("upstream_truncated", "cut off", True)
    events: list[e.Event] = [*START, *CALL, e.StreamEnd("failed", "error", None, error)]
    response = check(events)

    assert "response.function_call_arguments.done" not in {p["type"] for p in payloads(events)}
    assert "response.output_item.done" not in {p["type"] for p in payloads(events)}
    assert {
        "code": "server_error",
        "message": "connection lost: cut off",
        "type": "upstream_truncated",
    } == response["error"]
    assert ("failed", "incomplete") == (response["status"], response["output"][0]["status"])
    assert '{"a":1}' == response["output"][0]["arguments"]


@pytest.mark.parametrize("code", CODES)
def test_every_code_is_an_error_of_the_format(code):
    events = [*START, e.StreamEnd("failed", "error", None, e.ErrorInfo(code, "x", False))]

    error = check(events)["error"]
    told = payloads(events)[-2]

    assert code == error["type"]
    assert {**error, "param": None} == told["error"]
    assert {"code": error["code"], "message": error["message"], "param": None} == {
        name: told[name] for name in ("code", "message", "param")
    }
    assert error["message"].endswith("x")


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("context_length_exceeded", "context_length_exceeded"),  # Codex compacts
        ("upstream_billing", "insufficient_quota"),  # Codex gives up, here and at the next two
        ("budget_exceeded", "insufficient_quota"),
        ("upstream_auth", "invalid_prompt"),
        ("upstream_forbidden", "invalid_prompt"),
        ("upstream_truncated", "server_error"),  # Codex and opencode ask again
    ],
)
def test_codes_are_those_that_agents_act_on(code, told):
    events = [*START, e.StreamEnd("failed", "error", None, e.ErrorInfo(code, "x", False))]

    assert told == check(events)["error"]["code"]


def test_stopped_answer_keeps_its_text_and_is_cancelled():
    events: list[e.Event] = [*START, *TEXT, e.StreamEnd("cancelled", "cancelled")]
    response = check(events)

    assert "response.incomplete" == payloads(events)[-1]["type"]
    assert ("cancelled", "Hi 🌊") == (
        response["status"],
        response["output"][0]["content"][0]["text"],
    )
    assert response["usage"] is None


def test_result_of_a_running_stream_has_what_there_is():
    events: list[e.Event] = [
        *START,
        *ex.thought(0, "Hm."),
        e.ToolCallStart(1, "c1", "now"),
        e.ToolCallDelta(1, '{"a"'),
        e.TextStart(2),
        e.TextDelta(2, "Hi"),
    ]
    result = render_result(STREAM, events)

    assert "in_progress" == result["status"]
    reasoning, call, message = result["output"]
    assert "Hm." == reasoning["summary"][0]["text"]
    assert ('{"a"', "in_progress") == (call["arguments"], call["status"])
    assert ("Hi", "in_progress") == (message["content"][0]["text"], message["status"])


def test_proofs_are_encrypted_content():
    events = whole(
        *ex.thought(0, "one"),
        *ex.thought(1, "two", encrypted="enc", format="openai"),
        *ex.thought(2, "three", signature="sig", format="anthropic"),
        e.Opaque("openai.reasoning", "raw"),
        e.Opaque("openai.compaction", "short"),
    )
    first, second, third, fourth = check(events)["output"]

    assert (["one", "two"], "enc") == (
        [part["text"] for part in first["summary"]],
        first["encrypted_content"],
    )
    assert second["encrypted_content"].startswith("seseragi.")
    assert ([], "raw") == (third["summary"], third["encrypted_content"])
    assert ("compaction", "short") == (fourth["type"], fourth["encrypted_content"])


COMPACTS: list[e.Event] = [
    e.StreamStart(STREAM, "fast", 1700000000, {"compaction": "1"}),
    e.StreamTarget("up", "m-1", 1, "up-1"),
]
NATIVE = [e.Opaque("openai.compaction", "short")]


@pytest.mark.parametrize(
    ("events", "reason", "expected"),
    [
        (TEXT, "stop", pack_summary("Hi 🌊")),
        ([*THOUGHT, *ex.text(1, " \n", "Hi"), *CALL], "length", pack_summary("Hi")),
        ([*TEXT, *NATIVE], "stop", "short"),
        ([*NATIVE, *NATIVE], "stop", "short"),
        (ex.text(0, " "), "length", None),
        ([*ex.text(0, " "), *CALL, e.Opaque("a.b", "xx")], "stop", None),
        (CALL, "tool_calls", None),
    ],
)
def test_text_of_a_compaction_is_a_summary(events, reason, expected):
    end = e.StreamEnd("completed", reason, COUNTS)
    stream = [*COMPACTS, *events, e.ChoiceEnd(reason), end]
    response = check(stream)
    found = [(item["type"], item["encrypted_content"]) for item in response["output"]]
    ended = "incomplete" if reason == "length" else "completed" if expected else "failed"

    assert [("compaction", expected)] * (expected is not None) == found
    assert (ended, ended == "failed") == (response["status"], response["error"] is not None)
    assert [] == check([*stream[:-1], e.StreamEnd("failed", "error")])["output"]


def test_phase_is_the_messages():
    (message,) = check(whole(e.Opaque("openai.phase", "commentary"), *TEXT))["output"]

    assert "commentary" == message["phase"]


FILE = json.dumps({"type": "file_citation", "file_id": "file-1", "index": 9, "filename": "f"})


def test_sources_are_annotations_of_the_open_text():
    events = whole(
        *TEXT[:3],
        e.Source(url="https://a.example/", title="A", start=0, end=2, block=0),
        e.Source(document="a.pdf", title="A paper", block=0),
        e.Source(document="f", start=9, end=9, block=7, raw=e.Raw("openai_responses", FILE)),
        e.Source(document="f", raw=e.Raw("anthropic", "{}")),
        e.TextEnd(0),
        e.Source(url="https://b.example/"),
    )
    (message,) = check(events)["output"]

    assert [
        {
            "type": "url_citation",
            "url": "https://a.example/",
            "title": "A",
            "start_index": 0,
            "end_index": 2,
        },
        {"type": "file_citation", "file_id": "", "index": 0, "filename": "A paper"},
        {"type": "file_citation", "file_id": "file-1", "index": 0, "filename": "f"},
        {"type": "file_citation", "file_id": "", "index": 0, "filename": "f"},
        {
            "type": "url_citation",
            "url": "https://b.example/",
            "title": "",
            "start_index": 0,
            "end_index": 0,
        },
    ] == message["content"][0]["annotations"]
    assert 5 == brief(events).count("output_text.annotation.added")


def test_log_probabilities_come_with_the_whole_text():
    row = {"token": "Hi", "logprob": -0.5, "top_logprobs": [{"token": "Hi", "logprob": -0.5}]}
    events = whole(*TEXT[:2], e.LogProbs(0, [row, {"junk": 1}]), e.TextEnd(0))
    (message,) = check(events)["output"]

    top = {"token": "Hi", "logprob": -0.5, "bytes": [72, 105]}
    assert [{**top, "top_logprobs": [top]}] == message["content"][0]["logprobs"]


def test_refusals_have_no_annotations_and_no_log_probabilities():
    events = whole(
        e.RefusalStart(0),
        e.RefusalDelta(0, "No."),
        e.LogProbs(0, [{"token": "No.", "logprob": -1}]),
        e.Source(url="https://a.example/", block=0),
        e.RefusalEnd(0),
    )
    (message,) = check(events)["output"]

    assert [{"type": "refusal", "refusal": "No."}] == message["content"]


def test_call_of_an_answer_that_was_too_long_is_incomplete():
    events = whole(*CALL[:-1], e.ToolCallEnd(0, '{"a":1}'), reason="length")
    (call,) = check(events)["output"]

    assert "incomplete" == call["status"]
    assert "function_call_arguments.done" not in brief(events)


def test_id_of_a_response_is_in_no_other_id():
    assert is_response_id(response_id(STREAM))
    assert not is_response_id(STREAM)
    assert NAME not in ITEMS


def tool(name: str, *pieces: str, **opaque: str) -> list[e.Event]:
    """Return an answer that is the call of a tool, of which a provider said something more."""
    return [
        *TOOLS,
        e.ToolCallStart(0, "c1", name),
        *(e.Opaque(f"openai.{kind}", data, 0) for kind, data in opaque.items()),
        *(e.ToolCallDelta(0, piece) for piece in pieces),
        e.ToolCallEnd(0, "".join(pieces) or "{}"),
        e.ChoiceEnd("tool_calls"),
        e.StreamEnd("completed", "tool_calls", COUNTS),
    ]


def shown(events: list[e.Event]) -> dict[str, Any]:
    (item,) = check(events)["output"]
    return {name: value for name, value in item.items() if name not in ("id", "status")}


CUSTOM_CALL = {"type": "custom_tool_call", "call_id": "c1", "name": "apply_patch"}


def test_a_call_of_a_function_that_stands_for_a_custom_tool_is_one_of_that_tool():
    events = tool("apply_patch", '{"input": "a', "\\", 'nb"', "}")

    assert {**CUSTOM_CALL, "input": "a\nb"} == shown(events)
    deltas = [p["delta"] for p in payloads(events) if p["type"].endswith("input.delta")]
    assert ["a\nb"] == deltas
    assert [
        "output_item.added",
        "custom_tool_call_input.delta",
        "custom_tool_call_input.done",
        "output_item.done",
    ] == brief(events)


@pytest.mark.parametrize(
    ("pieces", "text"),
    [(["a\n", '{"input"'], 'a\n{"input"'), ([], ""), (['{"input": "x"}'], '{"input": "x"}')],
)
def test_a_custom_call_of_a_provider_that_has_them_is_as_it_was(pieces, text):
    found = shown(tool("apply_patch", *pieces, custom_tool_call="c1"))

    assert {**CUSTOM_CALL, "input": text} == found


def test_arguments_that_come_whole_are_read_too():
    events = tool("apply_patch")
    events[events.index(e.ToolCallEnd(0, "{}"))] = e.ToolCallEnd(0, '{"input": "a"}')

    assert {**CUSTOM_CALL, "input": "a"} == shown(events)


def test_a_tool_in_a_namespace_is_called_there():
    item = {"type": "function_call", "call_id": "c1", "name": "get", "arguments": '{"a":1}'}

    assert {**item, "namespace": "mcp__w"} == shown(tool("mcp__w__get", '{"a"', ":1}"))
    assert {**item, "namespace": "n"} == shown(tool("get", '{"a":1}', namespace="n"))


def own_call(kind: str, **fields: str) -> list[Any]:
    """The payloads for a call of a provider that has namespaces, as its answer is read."""
    item = {"type": kind, "id": "i", "call_id": "c1", "name": "run", "namespace": "mcp__w"}
    name = next(iter(fields))
    body = "".join(
        f"data: {json.dumps(payload)}\n\n"
        for payload in (
            {"type": "response.output_item.added", "output_index": 0, "item": {**item, name: ""}},
            {"type": "response.output_item.done", "output_index": 0, "item": {**item, **fields}},
            {"type": "response.completed", "response": {"status": "completed", "output": []}},
        )
    )
    spoken = UPSTREAM_FORMATS["openai_responses"]
    decoder, parser = spoken.decoder(max_line=2**20, max_event=2**20), spoken.parser(upstream="u")
    parser.keep_provider_data()
    events = parser.feed(*decoder.feed(body.encode())) + parser.close(decoder.close())
    tools = {
        "run": {"form": "custom", "name": "run"},
        "mcp__w__run": {"form": "custom", "name": "run", "namespace": "mcp__w"},
    }
    if kind == "function_call":
        tools["mcp__w__run"].pop("form")
    start = e.StreamStart(STREAM, "fast", 1700000000, {"response.tools": json.dumps(tools)})
    return payloads([start, e.StreamTarget("u", "m-1", 1), *events])


@pytest.mark.parametrize(
    ("kind", "fields"),
    [("custom_tool_call", {"input": "a b"}), ("function_call", {"arguments": '{"a":1}'})],
)
def test_a_call_in_a_namespace_of_the_provider_is_as_it_was(kind, fields):
    sent = own_call(kind, **fields)
    added = [one["item"] for one in sent if one["type"] == "response.output_item.added"]
    done = [one["item"] for one in sent if one["type"] == "response.output_item.done"]

    assert [(kind, "run", "mcp__w")] == [(i["type"], i["name"], i["namespace"]) for i in added]
    assert [{**fields, "namespace": "mcp__w", "type": kind}] == [
        {name: item[name] for name in (*fields, "namespace", "type")} for item in done
    ]


def test_a_search_for_tools_is_called_in_its_own_form():
    assert {
        **{"type": "tool_search_call", "call_id": "c1", "execution": "client"},
        "arguments": {"query": "x"},
    } == shown(tool("tool_search", '{"query": ', '"x"}'))
    assert {} == shown(tool("tool_search", "[no JSON"))["arguments"]


@pytest.mark.parametrize("end", ["length", "failed"])
def test_a_custom_call_that_was_cut_is_not_complete(end):
    events = tool("apply_patch", '{"input": "a')[:-3]
    if end == "length":
        events += [e.ChoiceEnd("length"), e.StreamEnd("completed", "length")]
    else:
        error = e.ErrorInfo("upstream_timeout", "cut", retryable=True)
        events += [e.StreamEnd("failed", "error", error=error)]
    (item,) = check(events)["output"]

    assert ("incomplete", "") == (item["status"], item["input"])


def test_what_a_provider_asks_of_the_client_is_an_item_of_its_own():
    given: dict[str, Any] = {
        "id": "sh_1",
        "type": "local_shell_call",
        "call_id": "c1",
        "status": "completed",
    }
    given["action"] = {"type": "exec", "command": ["ls"], "env": {}}

    events = [*START, *TEXT, e.Opaque("openai.item", json.dumps(given), 1)]
    events += [e.ChoiceEnd("tool_calls"), e.StreamEnd("completed", "tool_calls")]

    assert given == check(events)["output"][1]
