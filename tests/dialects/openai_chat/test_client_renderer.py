"""Events to chunks: the types and the helper of OpenAI's client are the judge."""

import base64
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion
from openai.types.responses.response import Moderation as ResponsesModeration

from app import events as e
from app.dialects.answering.ids import public_token
from app.dialects.client_format import Frame
from app.dialects.openai_chat.client.renderer import Renderer
from app.dialects.openai_chat.client.result import render_result
from app.dialects.openai_responses.client.result import render_result as openai_responses_result
from app.errors import RelayError
from tests.dialects import clients
from tests.dialects import examples as ex
from tests.dialects.clients import STREAM
from tests.dialects.openai_chat import verify

pytestmark = pytest.mark.pure

TOKEN = public_token(STREAM, "openai_chat")
START: list[e.Event] = [
    e.StreamStart(STREAM, "fast", 1700000000, {"usage": "1"}),
    e.Notice("retry", "again"),
    e.StreamTarget("up", "m-1", 1, "up-1"),
]
COUNTS = e.TokenCounts(3, 2, 5, cached_input_tokens=1, reasoning_tokens=0)
DONE: list[e.Event] = [e.StreamEnd("completed", "stop", COUNTS)]


def frames(events: list[e.Event]) -> list[Frame]:
    return clients.frames("openai_chat", events)


def check(events: list[e.Event]) -> Any:
    """Have the judge check a stream; return what the client's helper makes of it."""
    end = events[-1]
    assert isinstance(end, e.StreamEnd)
    return verify.check(frames(events), completed=end.status == "completed")


def deltas(*events: e.Event, reason: Any = "stop") -> list[tuple[int, dict[str, Any]]]:
    """What the chunks say of an answer that was completed, but for finish and usage."""
    end = [e.ChoiceEnd(reason), *DONE]
    payloads = [json.loads(frame.data) for frame in frames([*START, *events, *end])[:-1]]
    found = [(c["index"], c["delta"]) for p in payloads for c in p["choices"]]
    return found[:-1]


def role(content: str | None = None) -> tuple[int, dict[str, Any]]:
    return (0, {"role": "assistant", "content": content})


def say(**delta: Any) -> tuple[int, dict[str, Any]]:
    return (0, delta)


def piece(index: int, arguments: str = "", **fields: Any) -> tuple[int, dict[str, Any]]:
    """Return what a chunk says of a call; `name` is its function's, and makes it the first."""
    function = {"name": fields.pop("name")} if "name" in fields else {}
    return say(
        tool_calls=[{"index": index, **fields, "function": {**function, "arguments": arguments}}]
    )


def cited(index: int, url: str, title: str, *span: int) -> dict[str, Any]:
    found = {"start_index": span[0], "end_index": span[1], "url": url, "title": title}
    return {"type": "url_citation", "url_citation": found, "index": index}


HM = [role(), say(reasoning_content="Hm"), say(reasoning_content=".")]
TABLE: dict[str, tuple[list[e.Event], list[Any]]] = {
    "text": (ex.text(0, "Hi", " 🌊"), [role(""), say(content="Hi"), say(content=" 🌊")]),
    "an empty answer": ([], [role()]),
    "a refusal": (ex.refusal(0, "No."), [role(), say(refusal="No.")]),
    "reasoning without a signature": (ex.thought(0, "Hm", "."), HM),
    "reasoning whose format is known": (
        [*ex.thought(0, "Hm", ".", format="anthropic-claude-v1"), *ex.thought(1, "So", format="openai-responses-v1")],
        [*HM, say(reasoning_content="So"), say(reasoning_details=[
            {"type": "reasoning.text", "text": "Hm.", "format": "anthropic-claude-v1", "index": 0},
            {"type": "reasoning.summary", "summary": "So", "format": "openai-responses-v1", "index": 1},
        ])],
    ),
    "signed reasoning": (
        [*ex.thought(0, "Hm", ".", signature="sig", format="anthropic"), e.Opaque("a.b", "xx", 0), *ex.thought(1, signature="bare")],
        [*HM, say(reasoning_details=[
            {"type": "reasoning.text", "text": "Hm.", "signature": "sig", "format": "anthropic", "index": 0},
            {"type": "reasoning.encrypted", "data": "xx", "format": "a.b", "index": 1},
            {"type": "reasoning.text", "text": "", "signature": "bare", "index": 2},
        ])],
    ),
    "calls that interleave": (
        [
            *(e.ToolCallStart(0, "c1", "now"), e.ToolCallStart(1, "c2", "then")),
            *(e.ToolCallDelta(0, '{"a"'), e.ToolCallDelta(0, ":1}")),
            *(e.Opaque("gemini.thought_signature", "sig", 0), e.Opaque("openai.custom_tool_call", "c2", 1)),
            *(e.ToolCallEnd(0, '{"a":1}'), e.ToolCallEnd(1, "{}")),
        ],
        [
            role(),
            piece(0, id="c1", type="function", name="now"),
            piece(1, id="c2", type="function", name="then"),
            piece(0, '{"a"'),
            piece(0, ":1}"),
            piece(0, extra_content={"google": {"thought_signature": "sig"}}),
            piece(1, extra_content={"seseragi": {"openai.custom_tool_call": "c2"}}),
            piece(1, "{}"),
        ],
    ),
    "sources count in the whole content": (
        [
            *ex.text(0, "🌊ab"),
            *(e.TextStart(1), e.TextDelta(1, "cd")),
            e.Source(url="https://a.example/", title="A", start=0, end=2, block=1),
            *(e.Source(url="https://b.example/"), e.Source(document="only.pdf")),
            e.TextEnd(1),
        ],
        [
            *(role(""), say(content="🌊ab"), say(content="cd")),
            say(annotations=[cited(0, "https://a.example/", "A", 3, 5), cited(1, "https://b.example/", "", 0, 0)]),
        ],
    ),
    "images and sounds": (
        [e.Media(0, "image/png", data="aa=="), e.Media(1, "audio/pcm", data="bb==")],
        [
            role(),
            (0, {"audio": {"id": f"audio_{TOKEN}_0", "data": "bb=="}}),
            (0, {"images": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,aa=="}, "index": 0}]}),
        ],
    ),
    "a second choice that comes first": (
        [*ex.text(0, "b", choice=1), *ex.text(1, "a")],
        [role(), (1, {"role": "assistant", "content": ""}), (1, {"content": "b"}), (0, {"content": "a"}), (0, {})],
    ),
    "what has no place": ([e.ContentFilter("prompt", {}, False), e.ProviderTool(0, "search"), e.Notice("retry", "x")], [role()]),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLE)
def test_events_make_these_deltas(name):
    events, expected = TABLE[name]

    assert expected == deltas(*events)
    whole = [*START, *events, e.ChoiceEnd("stop"), *DONE]
    assert check(whole) is not None


@pytest.mark.parametrize("name", TABLE)
def test_whole_answer_is_the_sum_of_its_deltas(name):
    events = [*START, *TABLE[name][0], e.ChoiceEnd("stop"), *DONE]
    usage = render_result(STREAM, events)["usage"]

    clients.check_results(events)
    assert (3, 2, 5) == (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"])


def test_whole_sound_is_joined_from_pieces_with_padding():
    data = [base64.b64encode(piece).decode() for piece in (b"a", b"bc")]
    events = [*START, *(e.Media(0, "audio/pcm", data=d) for d in data), e.ChoiceEnd("stop"), *DONE]
    message = ChatCompletion.model_validate(render_result(STREAM, events)).choices[0].message

    assert message.audio is not None
    assert b"abc" == base64.b64decode(message.audio.data)


def test_sound_that_is_no_base64_is_handed_on_as_it_is():
    events = [*START, e.Media(0, "audio/pcm", data="?"), e.ChoiceEnd("stop"), *DONE]

    assert "?" == render_result(STREAM, events)["choices"][0]["message"]["audio"]["data"]


def test_log_probabilities_stand_where_they_belong():
    token = {"token": "Hi", "logprob": -0.1, "bytes": [72, 105], "top_logprobs": []}
    bare = {"token": "No", "logprob": -1}
    told = {"token": "Hm", "logprob": -2, "bytes": None}
    events: list[e.Event] = [
        *START,
        e.TextStart(0),
        e.LogProbs(0, [token, {"junk": 1}]),
        e.TextEnd(0),
        e.RefusalStart(1),
        e.LogProbs(1, [bare]),
        e.RefusalEnd(1),
        e.ReasoningStart(2),
        e.LogProbs(2, [{**told, "top_logprobs": [told]}]),
        e.ReasoningEnd(2),
        e.ChoiceEnd("stop"),
        *DONE,
    ]
    check(events)
    logprobs = render_result(STREAM, events)["choices"][0]["logprobs"]

    assert {
        "content": [token],
        "refusal": [{"token": "No", "logprob": -1, "bytes": None, "top_logprobs": []}],
        "reasoning_content": [{**told, "top_logprobs": [told]}],
    } == logprobs


RESULT = {
    **{"type": "moderation_result", "model": "m", "flagged": True, "categories": {"hate": True}},
    **{"category_scores": {"hate": 0.9}, "category_applied_input_types": {"hate": ["text"]}},
}
FAILED = {"type": "error", "code": "c", "message": "m"}
LISTED = {"type": "moderation_results", "model": "m", "results": [RESULT]}


@pytest.mark.parametrize("told", [LISTED, RESULT])
def test_moderation_results_have_a_chunk_of_their_own(told: dict[str, Any]) -> None:
    events: list[e.Event] = [
        *START,
        *ex.text(0, "Hi"),
        e.ContentFilter("prompt", told, False),
        e.ContentFilter("completion", FAILED, False),
        e.ContentFilter("completion", {"hate": {"filtered": False}}, False),
        e.ChoiceEnd("stop"),
        *DONE,
    ]
    check(events)
    found = json.loads(frames(events)[-3].data)

    assert ([], {"input": LISTED, "output": FAILED}) == (found["choices"], found["moderation"])
    assert found["moderation"] == render_result(STREAM, events)["moderation"]
    ResponsesModeration.model_validate(openai_responses_result(STREAM, events)["moderation"])


def test_model_is_what_answers_and_the_rest_is_the_streams():
    payload = json.loads(frames([*START, e.TextStart(0)])[0].data)

    assert ("m-1", 1700000000, f"chatcmpl-{TOKEN}") == (
        payload["model"],
        payload["created"],
        payload["id"],
    )


def test_usage_comes_only_if_asked_for_and_known():
    asked = [*START, e.ChoiceEnd("stop"), *DONE]
    unasked: list[e.Event] = [e.StreamStart(STREAM, "fast", 1), *asked[1:]]
    unknown: list[e.Event] = [*asked[:-1], e.StreamEnd("completed", "stop")]

    assert {
        "prompt_tokens": 3,
        "completion_tokens": 2,
        "total_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 1},
        "completion_tokens_details": {"reasoning_tokens": 0},
    } == json.loads(frames(asked)[-2].data)["usage"]
    assert [] == json.loads(frames(asked)[-2].data)["choices"]
    for events in (unasked, unknown):
        assert not any(b"usage" in frame.data for frame in frames(events))


def test_counts_that_are_not_known_are_numbers_all_the_same():
    events = [
        *START,
        e.Usage(output_tokens=4),
        e.StreamEnd("completed", "stop", e.TokenCounts(None, 4)),
    ]

    assert {"prompt_tokens": 0, "completion_tokens": 4, "total_tokens": 4} == (
        render_result(STREAM, events)["usage"]
    )


def test_failed_stream_has_an_error_and_no_finish_reason():
    error = e.ErrorInfo("upstream_truncated", "cut off", True)
    events: list[e.Event] = [
        *START,
        *ex.text(0, "Hi"),
        e.ChoiceEnd("stop"),
        e.StreamEnd("failed", "stop", COUNTS, error),
    ]
    found = frames(events)
    check(events)

    assert {
        "error": {
            "message": "connection lost: cut off",
            "type": "server_error",
            "param": None,
            "code": "upstream_truncated",
        }
    } == json.loads(found[-1].data)


@pytest.mark.parametrize("status", ["cancelled", "interrupted"])
def test_stopped_stream_has_an_error_and_no_finish_reason(status):
    events: list[e.Event] = [*START, *ex.text(0, "Hi"), e.StreamEnd(status, "cancelled", COUNTS)]
    found = frames(events)
    check(events)

    code = "cancelled" if status == "cancelled" else "producer_lost"
    assert code == json.loads(found[-1].data)["error"]["code"]
    with pytest.raises(RelayError) as raised:
        render_result(STREAM, events)
    assert code == raised.value.code


def test_stream_that_ended_before_anything_still_ends_in_the_format():
    events: list[e.Event] = [START[0], e.StreamEnd("completed", "unknown")]

    assert check(events) is not None


@given(st.text(), st.integers(0, 3), st.text(max_size=4))
def test_text_is_written_as_any_piece(text: str, choice: int, model: str) -> None:
    """The short way of a text's chunk writes what the long one does, byte for byte."""
    renderer = Renderer(STREAM)
    for event in (
        e.StreamStart(STREAM, model, 1),
        e.StreamTarget("u", model, 1),
        *(e.TextStart(0, choice), e.RefusalStart(1, choice)),
    ):
        renderer.feed(event)

    (short,) = renderer.feed(e.TextDelta(0, text, choice))
    (long,) = renderer.feed(e.RefusalDelta(1, text, choice))
    chunk = json.loads(long.data)
    chunk["choices"][0]["delta"] = {"content": text}
    assert msgspec.json.encode(chunk) == short.data
