"""Events to chunks: the types and the helper of OpenAI's client are the judge."""

import base64
import json
from typing import Any

import pytest
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from app.dialects.answering.call_ids import show_call
from app.dialects.answering.public_ids import public_token
from app.dialects.client_format import Frame, NumberedWriter
from app.dialects.openai_chat.client.renderer import Renderer
from app.dialects.openai_chat.client.result import render_result
from app.errors import RelayError
from app.events import (
    ChoiceEnd,
    ContentFilter,
    ErrorInfo,
    Event,
    LogProbs,
    Media,
    Notice,
    Opaque,
    ProviderTool,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    RefusalDelta,
    RefusalEnd,
    RefusalStart,
    Source,
    StreamEnd,
    StreamStart,
    StreamTarget,
    TextDelta,
    TextEnd,
    TextStart,
    TokenCounts,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from tests.dialects.streams import DIALECT_OF, body_of, end_of, joined, play, recordings, tool_calls

pytestmark = pytest.mark.pure

STREAM = "st_4fJ9qXw0V1cT8mYbR2nZkQ"
TOKEN = public_token(STREAM, "openai_chat")
START: list[Event] = [
    StreamStart(STREAM, "fast", 1700000000, {"usage": "1"}),
    Notice("retry", "again"),
    StreamTarget("up", "m-1", 1, "up-1"),
]
COUNTS = TokenCounts(3, 2, 5, cached_input_tokens=1, reasoning_tokens=0)
DONE: list[Event] = [StreamEnd("completed", "stop", COUNTS)]


def frames(events: list[Event]) -> list[Frame]:
    renderer = Renderer(STREAM)
    return [frame for event in events for frame in renderer.feed(event)]


def deltas(*events: Event, reason: Any = "stop") -> list[tuple[int, dict[str, Any]]]:
    """What the chunks say of an answer that was completed, but for finish and usage."""
    end = [ChoiceEnd(reason), *DONE]
    payloads = [json.loads(frame.data) for frame in frames([*START, *events, *end])[:-1]]
    found = [(c["index"], c["delta"]) for p in payloads for c in p["choices"]]
    return found[:-1]


def role(content: str | None = None) -> tuple[int, dict[str, Any]]:
    return (0, {"role": "assistant", "content": content})


def check(found: list[Frame], *, events: list[Event]) -> Any:
    """Assert what holds of every stream; give what the client's helper makes of it."""
    end = events[-1]
    assert isinstance(end, StreamEnd)
    done = [frame.data == b"[DONE]" for frame in found]
    assert done.count(True) == (end.status == "completed")
    assert all(frame.event is None and b"\n" not in frame.data for frame in found)
    if end.status == "completed":
        assert done[-1]
        found = found[:-1]
    payloads = [json.loads(frame.data) for frame in found]
    if end.status != "completed":
        assert {"message", "type", "param", "code"} == payloads[-1]["error"].keys()
        payloads.pop()
    state: ChatCompletionStreamState = ChatCompletionStreamState()
    roles: set[int] = set()
    finished: set[int] = set()
    ids = set()
    for payload in payloads:
        chunk = ChatCompletionChunk.model_validate(payload, strict=True)
        ids.add((chunk.id, chunk.created, chunk.model))
        for choice in chunk.choices:
            assert choice.index not in finished
            assert (choice.delta.role == "assistant") == (choice.index not in roles)
            roles.add(choice.index)
            if choice.finish_reason:
                finished.add(choice.index)
        state.handle_chunk(chunk)
    assert len(ids) <= 1
    assert finished == (roles if end.status == "completed" else set())
    return state.current_completion_snapshot if end.status == "completed" else None


THOUGHT: list[Event] = [ReasoningStart(0), ReasoningDelta(0, "Hm"), ReasoningDelta(0, ".")]

TABLE: dict[str, tuple[list[Event], list[Any]]] = {
    "text": (
        [TextStart(0), TextDelta(0, "Hi"), TextDelta(0, " 🌊"), TextEnd(0)],
        [role(""), (0, {"content": "Hi"}), (0, {"content": " 🌊"})],
    ),
    "an empty answer": ([], [role()]),
    "a refusal": (
        [RefusalStart(0), RefusalDelta(0, "No."), RefusalEnd(0)],
        [role(), (0, {"refusal": "No."})],
    ),
    "reasoning without proof": (
        [*THOUGHT, ReasoningEnd(0)],
        [role(), (0, {"reasoning_content": "Hm"}), (0, {"reasoning_content": "."})],
    ),
    "signed reasoning": (
        [
            *THOUGHT,
            ReasoningEnd(0, signature="sig", format="anthropic"),
            Opaque("a.b", "xx", 0),
            ReasoningStart(1),
            ReasoningEnd(1, signature="bare"),
        ],
        [
            role(),
            (0, {"reasoning_content": "Hm"}),
            (0, {"reasoning_content": "."}),
            (
                0,
                {
                    "reasoning_details": [
                        {
                            "type": "reasoning.text",
                            "text": "Hm.",
                            "signature": "sig",
                            "format": "anthropic",
                            "index": 0,
                        },
                        {
                            "type": "reasoning.encrypted",
                            "data": "xx",
                            "format": "a.b",
                            "index": 1,
                        },
                        {
                            "type": "reasoning.text",
                            "text": "",
                            "signature": "bare",
                            "index": 2,
                        },
                    ]
                },
            ),
        ],
    ),
    "calls that interleave": (
        [
            ToolCallStart(0, "c1", "now"),
            ToolCallStart(1, "c2", "then"),
            ToolCallDelta(0, '{"a"'),
            ToolCallDelta(0, ":1}"),
            Opaque("gemini.thought_signature", "sig", 0),
            Opaque("openai.custom_tool_call", "c2", 1),
            ToolCallEnd(0, '{"a":1}'),
            ToolCallEnd(1, "{}"),
        ],
        [
            role(),
            *(
                (0, {"tool_calls": [call]})
                for call in (
                    {
                        "index": 0,
                        "id": "c1",
                        "type": "function",
                        "function": {"name": "now", "arguments": ""},
                    },
                    {
                        "index": 1,
                        "id": "c2",
                        "type": "function",
                        "function": {"name": "then", "arguments": ""},
                    },
                    {"index": 0, "function": {"arguments": '{"a"'}},
                    {"index": 0, "function": {"arguments": ":1}"}},
                    {
                        "index": 0,
                        "extra_content": {"google": {"thought_signature": "sig"}},
                        "function": {"arguments": ""},
                    },
                    {
                        "index": 1,
                        "extra_content": {"seseragi": {"openai.custom_tool_call": "c2"}},
                        "function": {"arguments": ""},
                    },
                    {"index": 1, "function": {"arguments": "{}"}},
                )
            ),
        ],
    ),
    "sources count in the whole content": (
        [
            TextStart(0),
            TextDelta(0, "🌊ab"),
            TextEnd(0),
            TextStart(1),
            TextDelta(1, "cd"),
            Source(url="https://a.example/", title="A", start=0, end=2, block=1),
            Source(url="https://b.example/"),
            Source(document="only.pdf"),
            TextEnd(1),
        ],
        [
            role(""),
            (0, {"content": "🌊ab"}),
            (0, {"content": "cd"}),
            (
                0,
                {
                    "annotations": [
                        {
                            "type": "url_citation",
                            "url_citation": {
                                "start_index": 3,
                                "end_index": 5,
                                "url": "https://a.example/",
                                "title": "A",
                            },
                            "index": 0,
                        },
                        {
                            "type": "url_citation",
                            "url_citation": {
                                "start_index": 0,
                                "end_index": 0,
                                "url": "https://b.example/",
                                "title": "",
                            },
                            "index": 1,
                        },
                    ]
                },
            ),
        ],
    ),
    "images and sounds": (
        [Media(0, "image/png", data="aa=="), Media(1, "audio/pcm", data="bb==")],
        [
            role(),
            (0, {"audio": {"id": f"audio_{TOKEN}_0", "data": "bb=="}}),
            (
                0,
                {
                    "images": [
                        {
                            "type": "image_url",
                            "image_url": {"url": "data:image/png;base64,aa=="},
                            "index": 0,
                        }
                    ]
                },
            ),
        ],
    ),
    "a second choice that comes first": (
        [TextStart(0, 1), TextDelta(0, "b", 1), TextEnd(0, 1), TextStart(1), TextDelta(1, "a")],
        [
            role(),
            (1, {"role": "assistant", "content": ""}),
            (1, {"content": "b"}),
            (0, {"content": "a"}),
            (0, {}),
        ],
    ),
    "what has no place": (
        [ContentFilter("prompt", {}, False), ProviderTool(0, "search"), Notice("retry", "x")],
        [role()],
    ),
}


@pytest.mark.parametrize("name", TABLE)
def test_events_make_these_deltas(name):
    events, expected = TABLE[name]

    assert expected == deltas(*events)
    whole = [*START, *events, ChoiceEnd("stop"), *DONE]
    assert check(frames(whole), events=whole) is not None


@pytest.mark.parametrize("name", TABLE)
def test_whole_answer_is_the_sum_of_its_deltas(name):
    events = [*START, *TABLE[name][0], ChoiceEnd("stop"), *DONE]
    summed = check(frames(events), events=events)
    assert summed is not None
    result = ChatCompletion.model_validate(render_result(STREAM, events), strict=True)

    ours, theirs = result.choices[0].message, summed.choices[0].message
    assert (ours.content or None, ours.refusal) == (theirs.content or None, theirs.refusal)
    assert [(c.id, c.function.name, c.function.arguments) for c in ours.tool_calls or ()] == [  # type: ignore[union-attr]
        (c.id, c.function.name, c.function.arguments) for c in theirs.tool_calls or ()
    ]
    assert {**(ours.model_extra or {})} == {**(theirs.model_extra or {})}
    assert result.usage is not None
    assert (3, 2, 5) == (
        result.usage.prompt_tokens,
        result.usage.completion_tokens,
        result.usage.total_tokens,
    )


def test_whole_sound_is_joined_from_pieces_with_padding():
    data = [base64.b64encode(piece).decode() for piece in (b"a", b"bc")]
    events = [*START, *(Media(0, "audio/pcm", data=d) for d in data), ChoiceEnd("stop"), *DONE]
    message = ChatCompletion.model_validate(render_result(STREAM, events)).choices[0].message

    assert message.audio is not None
    assert b"abc" == base64.b64decode(message.audio.data)


def test_sound_that_is_no_base64_is_handed_on_as_it_is():
    events = [*START, Media(0, "audio/pcm", data="?"), ChoiceEnd("stop"), *DONE]

    assert "?" == render_result(STREAM, events)["choices"][0]["message"]["audio"]["data"]


def test_log_probabilities_stand_where_they_belong():
    token = {"token": "Hi", "logprob": -0.1, "bytes": [72, 105], "top_logprobs": []}
    bare = {"token": "No", "logprob": -1}
    events: list[Event] = [
        *START,
        TextStart(0),
        LogProbs(0, [token, {"junk": 1}]),
        TextEnd(0),
        RefusalStart(1),
        LogProbs(1, [bare]),
        RefusalEnd(1),
        ChoiceEnd("stop"),
        *DONE,
    ]
    check(frames(events), events=events)
    logprobs = render_result(STREAM, events)["choices"][0]["logprobs"]

    full = {"token": "No", "logprob": -1, "bytes": None, "top_logprobs": []}
    assert {"content": [token], "refusal": [full]} == logprobs


def test_model_is_what_answers_and_the_rest_is_the_streams():
    payload = json.loads(frames([*START, TextStart(0)])[0].data)

    assert ("m-1", 1700000000, f"chatcmpl-{TOKEN}") == (
        payload["model"],
        payload["created"],
        payload["id"],
    )


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        *(("stop", "stop"), ("length", "length"), ("tool_calls", "tool_calls")),
        *(("content_filter", "content_filter"), ("refusal", "content_filter")),
        *(("pause", "length"), ("unknown", "stop")),
    ],
)
def test_finish_reasons_are_those_of_the_format(reason, expected):
    events: list[Event] = [*START, TextStart(0), TextEnd(0), ChoiceEnd(reason), *DONE]

    assert expected == render_result(STREAM, events)["choices"][0]["finish_reason"]


def test_usage_comes_only_if_asked_for_and_known():
    asked = [*START, ChoiceEnd("stop"), *DONE]
    unasked: list[Event] = [StreamStart(STREAM, "fast", 1), *asked[1:]]
    unknown: list[Event] = [*asked[:-1], StreamEnd("completed", "stop")]

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
    events = [*START, Usage(output_tokens=4), StreamEnd("completed", "stop", TokenCounts(None, 4))]

    assert {"prompt_tokens": 0, "completion_tokens": 4, "total_tokens": 4} == (
        render_result(STREAM, events)["usage"]
    )


def test_failed_stream_has_an_error_and_no_finish_reason():
    error = ErrorInfo("upstream_truncated", "cut off", True)
    events: list[Event] = [
        *START,
        TextStart(0),
        TextDelta(0, "Hi"),
        TextEnd(0),
        ChoiceEnd("stop"),
        StreamEnd("failed", "stop", COUNTS, error),
    ]
    found = frames(events)
    check(found, events=events)

    assert {
        "error": {
            "message": "cut off",
            "type": "server_error",
            "param": None,
            "code": "upstream_truncated",
        }
    } == json.loads(found[-1].data)


@pytest.mark.parametrize("status", ["cancelled", "interrupted"])
def test_stopped_stream_has_an_error_and_no_finish_reason(status):
    events: list[Event] = [
        *START,
        TextStart(0),
        TextDelta(0, "Hi"),
        TextEnd(0),
        StreamEnd(status, "cancelled", COUNTS),
    ]
    found = frames(events)
    check(found, events=events)

    code = "cancelled" if status == "cancelled" else "producer_lost"
    assert code == json.loads(found[-1].data)["error"]["code"]
    with pytest.raises(RelayError) as raised:
        render_result(STREAM, events)
    assert code == raised.value.code


def test_stream_that_ended_before_anything_still_ends_in_the_format():
    events: list[Event] = [START[0], StreamEnd("completed", "unknown")]

    assert check(frames(events), events=events) is not None


@pytest.mark.parametrize("row", recordings())
def test_recorded_streams_come_out_as_their_truth_says(row):
    dialect, truth = DIALECT_OF[row["format"]], row["truth"]
    played = play([body_of(row)], dialect=dialect, choices=len(truth["choices"]) or 1)
    events = [START[0], StreamTarget("u", "m-1", 1), *played]
    final = check(frames(events), events=events)
    if end_of(played).error is not None:
        return
    assert final is not None
    result = ChatCompletion.model_validate(render_result(STREAM, events), strict=True)
    for choice in truth["choices"]:
        index = choice["index"]
        for message in (final.choices[index].message, result.choices[index].message):
            assert choice["text"] == (message.content or "")
            assert choice["refusal"] == (message.refusal or "")
            assert choice["reasoning"] == (message.model_extra or {}).get("reasoning_content", "")
            assert [
                (show_call(STREAM, call["id"]), call["name"], call["arguments"])
                for call in tool_calls(played)
                if call["choice"] == index
            ] == [
                (call.id, call.function.name, call.function.arguments)
                for call in message.tool_calls or ()
            ]
        assert joined(played, TextDelta, index) == choice["text"]


@pytest.mark.parametrize("row", recordings())
def test_frames_after_any_cursor_are_the_rest(row):
    dialect = DIALECT_OF[row["format"]]
    events = [START[0], *play([body_of(row)], dialect=dialect)]

    def written(after: int) -> list[bytes]:
        writer = NumberedWriter(Renderer(STREAM), STREAM, letter="c", after=after, retry_ms=1)
        raw = b"".join(map(writer.feed, events)).removeprefix(b"retry: 1\n")
        return raw.split(b"\n\n")[:-1]

    whole = written(0)
    for after in range(0, len(whole) + 1, max(1, len(whole) // 20)):
        assert whole[after:] == written(after)
