"""A client of Chat Completions receives what a provider of Chat Completions sent.

`python -m tests.dialects.openai_chat.test_same_dialect` writes the table of the exceptions into
the document.
"""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.dialects.openai_chat.upstream.provider_members import MAX_RECORDED, MAX_REPEATED
from app.events import (
    ChoiceEnd,
    Event,
    Notice,
    ProviderData,
    Raw,
    StreamEnd,
    TextDelta,
    ToolCallStart,
)
from tests.dialects.openai_chat import same
from tests.dialects.openai_chat.anything import chunks
from tests.dialects.strategies import scalars, some
from tests.dialects.streams import body_of, check, recordings, specified_bodies
from tests.dialects.tables import Table

pytestmark = pytest.mark.pure

DOCUMENT = Path(__file__).parents[3] / "docs" / "clients" / "openai.md"
BEGIN, END = "<!-- same dialect: begin -->", "<!-- same dialect: end -->"

DIFFERENCES = {
    "`id`, `created`": (r"id|created", "the relay's"),
    "`object`, an empty `model`": (r"(object|model) changed", "`chat.completion.chunk`, the model's name"),
    "`obfuscation`, Mistral's `p`": (r"(obfuscation|p) lost", "left out: padding between provider and relay"),
    "`choices[].text`, `message` in a stream, `delta.token_id`": (r"N\.(text|message\..*|delta\.token_id) lost", "left out: they repeat the content"),
    "`delta.content` as a list": (r"N\.delta\.(content changed|reasoning_content added)", "a text, and `reasoning_content`"),
    "`delta.audio.transcript`": (r"N\.delta\.content added", "is in `content` too"),
    "`delta.role`, `id` and `type` of calls": (r"N\.(delta\.role|tool_calls\.\d+\.(id|type)) added", "added where they are missing"),
    "`finish_reason`": (r"N\.finish_reason", "one of OpenAI's; `tool_calls` if there are calls, none if the answer is incomplete"),
    "sources in `citations`, `search_results`, `web_search`": (r"N\.delta\.annotations added", "are `annotations` too"),
    "LiteLLM's `thinking_blocks`": (r"N\.delta\.reasoning_details added", "are `reasoning_details` too"),
    "`usage`": (
        r"usage\.((prompt|completion|total)_tokens changed|\w+_details\.\w+ added)",
        "the totals and `cost` (in an object: `total_cost`) are the relay's; all else is as sent",
    ),
    "`error`": (r"error|code|message|type", "the relay's, without the answer's `usage`"),
}  # fmt: skip
"""By its name in the document: what may differ (`N` is a choice), and how."""


def bodies() -> list[Any]:
    """Parameters: the bodies recorded and specified for the dialect."""
    specified = [
        pytest.param(path.read_bytes(), id=path.name)
        for dialect, path in specified_bodies()
        if dialect == "openai_chat"
    ]
    recorded = [
        row if row.marks else pytest.param(body_of(row.values[0]), id=row.id)
        for row in recordings("openai_chat")
    ]
    return [*recorded, *specified]


def unexpected(found: dict[str, str]) -> dict[str, str]:
    """Return the differences that the table has not."""
    patterns = (pattern.replace("N", r"choices\.\d+") for pattern, _ in DIFFERENCES.values())
    allowed = re.compile("|".join(rf"(?:{p})( \w+)?" for p in patterns))
    return {path: how for path, how in found.items() if not allowed.fullmatch(f"{path} {how}")}


@pytest.mark.parametrize("body", bodies())
def test_recorded_members_reach_the_client(body: bytes) -> None:
    events = same.parse(body)
    end = events[-1]
    assert isinstance(end, StreamEnd)
    sent = same.sent(body)
    found = same.compare(sent, same.received(events))
    if end.status != "completed":
        # Members of the last chunk wait for the next one, and an error has no usage.
        found = {p: how for p, how in found.items() if how != "changed" and "usage." not in p}

    assert {} == unexpected(found)
    if end.status == "completed":
        assert {} == lost_from_the_whole(sent, events)


def lost_from_the_whole(sent: list[Any], events: list[Event]) -> dict[str, str]:
    """Return what the answer as JSON lacks."""
    whole = same.walk([same.answer(events)])
    names = {path.replace(".delta.", ".message.") for path in same.walk(sent)}
    return unexpected({p.replace(".message.", ".delta."): "lost" for p in names - whole.keys()})


def body(*chunks: dict[str, Any], done: bool = True) -> bytes:
    """Return a stream of chunks."""
    head = {"id": "a", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    lines = [f"data: {json.dumps({**head, **chunk})}\n\n" for chunk in chunks]
    return "".join([*lines, "data: [DONE]\n\n" if done else ""]).encode()


def choice(delta: dict[str, Any] | None = None, *, index: int = 0, **fields: Any) -> dict[str, Any]:
    return {"index": index, "delta": delta or {}, **fields}


def one(delta: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """Return a chunk with one choice."""
    return {"choices": [choice(delta, **fields)]}


ROLE = one({"role": "assistant", "content": ""})
STOP = one({}, finish_reason="stop")

CONSTANTS = {"system_fingerprint": "f", "service_tier": "default", "provider": "P"}
ANSWER: list[dict[str, Any]] = [
    {"choices": []},
    ROLE,
    one({"content": "a"}),
    one({"content": "b"}),
    STOP,
    {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}},
]


def token(text: str) -> dict[str, Any]:
    return {"token": text, "logprob": -0.5, "bytes": [*text.encode()], "top_logprobs": []}


def thought(text: str) -> dict[str, Any]:
    """Return DeepSeek's chunk of a thought."""
    logprobs = {"content": None, "reasoning_content": [token(text)]}
    return one({"content": None, "reasoning_content": text}, logprobs=logprobs)


def said(text: str) -> dict[str, Any]:
    """Return DeepSeek's chunk of a text."""
    logprobs = {"content": [token(text)], "reasoning_content": None}
    return one({"content": text, "reasoning_content": None}, logprobs=logprobs)


BODIES: dict[str, list[dict[str, Any]]] = {
    "constants": [{**chunk, "system_fingerprint": "f", "x": [1]} for chunk in (ROLE, one({"content": "a"}), one({"content": "b"}), STOP)],
    "a constant that ends, and one that changes": [
        *({**one({"content": "a"}), "x": 1, "y": 1} for _ in range(3)),
        {**one({"content": "b"}), "y": 2},
        {**one({"content": "b"}), "y": 2},
        STOP,
    ],
    "a constant that changes between two texts": [
        ROLE,
        *({**one({"content": t}), "system_fingerprint": f} for t, f in ("af", "bf", "cg", "dg")),
        STOP,
    ],
    "first and last chunk": [{**ROLE, "x_groq": {"id": "r"}}, one({"content": "a"}), {**STOP, "x_groq": {"id": "r", "n": 1}, "timings": {"a": 1}}],
    "before the answer": [{"choices": [], "prompt_progress": {"done": n}} for n in range(3)] + [one({"content": "a"}), STOP],
    "each piece of text": [ROLE, *(one({"content": "a", "z": n}, y=n) for n in range(5)), STOP],
    "no text at all": [ROLE, one({"content": "a"}), *(one({"steps": [n]}) for n in range(3)), STOP],
    "vLLM's stop_reason": [one({"content": "a"}), one({}, finish_reason="stop", stop_reason=42)],
    "Azure's later annotations": [
        *(ROLE, one({"content": "a"}), STOP),
        *({"choices": [{"index": 0, "content_filter_offsets": {"end": n}, "content_filter_results": {}}]} for n in range(3)),
    ],
    "both fields of reasoning": [one({"reasoning": "a", "reasoning_content": "a"}), one({"content": "b"}), STOP],
    "another field of reasoning": [one({"reasoning_content": "a"}), one({"reasoning": "b"}), one({"content": "b"}), STOP],
    "details": [
        *(one({"reasoning": t, "reasoning_details": [{"type": "reasoning.text", "text": t, "index": 0, "format": "f"}]}) for t in "abc"),
        one({"reasoning_details": [{"type": "reasoning.text", "signature": "s", "index": 0, "format": "f"}]}),
        one({"content": "b"}),
        STOP,
    ],
    "annotations": [one({"content": "a"}), one({"annotations": [{"type": "file_citation", "file_citation": {"file_id": "f", "x": 1}}]}), STOP],
    "calls": [
        one({"tool_calls": [{"index": 0, "id": "c", "type": "function", "x": 1, "function": {"name": "f", "arguments": "", "y": 2}}]}),
        one({"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}),
        one({}, finish_reason="tool_calls", native_finish_reason="tool_use"),
    ],
    "two choices": [
        *({"choices": [choice({"content": "a", "channel": f"c{n}"}, index=n, x=n) for n in (0, 1)]} for _ in range(3)),
        {"choices": [choice({}, index=n, finish_reason="stop", seed=n) for n in (0, 1)]},
    ],
    "DeepSeek's log probabilities": [ROLE, thought("Hm"), thought("."), said("Yes"), said("!"), STOP],
    "log probabilities of a thought and its answer in one chunk": [
        one({"reasoning_content": "Hm", "content": "Yes"}, logprobs={"reasoning_content": [token("Hm")], "content": [token("Yes")]}),
        STOP,
    ],
    "log probabilities of a thought beside the answer": [
        one({"reasoning_content": "Hm"}),
        one({"content": "Yes"}, logprobs={"reasoning_content": [token("Hm")], "content": [token("Yes")]}),
        STOP,
    ],
    "log probabilities of a thought beside a call": [
        thought("Hm"),
        one({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}]}, logprobs={"reasoning_content": [token(".")]}),
        one({}, finish_reason="tool_calls"),
    ],
    **{
        f"a constant of {where}": [{**chunk, **(CONSTANTS if number == place else {})} for number, chunk in enumerate(ANSWER)]
        for where, place in (("the first chunk alone", 0), ("the first text alone", 2), ("the last chunk alone", 4), ("the count alone", 5))
    },
    "log probabilities of another form": [one({"content": "a"}, logprobs={"tokens": ["a"]}), one({"content": "b"}, logprobs={"tokens": ["b"]}), STOP],
    "usage": [
        one({"content": "a"}), STOP,
        {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3, "completion_tokens_details": {"accepted_prediction_tokens": 1, "image_tokens": 2}, "queue_time": 0.1}},
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", BODIES)
def test_members_reach_the_client_in_order(name: str) -> None:
    sent = body(*BODIES[name])

    events = same.parse(sent)
    received = same.received(events)

    assert {} == unexpected(same.compare(same.sent(sent), received))
    assert {} == lost_from_the_whole(same.sent(sent), events)
    assert all(chunk["choices"] for chunk in received if "usage" not in chunk)


def test_the_whole_answer_has_the_last_of_each() -> None:
    details = [
        {"type": "reasoning.text", "index": 0, "text": "abc", "format": "f", "signature": "s"}
    ]
    wanted: dict[str, dict[str, Any]] = {
        "constants": {"system_fingerprint": "f", "x": [1]},
        "first and last chunk": {"x_groq": {"id": "r", "n": 1}, "timings": {"a": 1}},
        "details": {"message": {"reasoning": "abc", "reasoning_details": details}},
        "no text at all": {"message": {"steps": [0, 1, 2]}},
        "log probabilities of another form": {"logprobs": {"tokens": ["a", "b"]}},
        "calls": {"native_finish_reason": "tool_use"},
    }
    found = {}
    for name in wanted:
        whole = same.answer(same.parse(body(*BODIES[name])))
        (first,) = whole.pop("choices")
        values = whole | first
        message = {k: first["message"].get(k) for k in wanted[name].get("message", ())}
        found[name] = {k: message if k == "message" else values[k] for k in wanted[name]}

    assert wanted == found


def recorded(events: list[Event]) -> int:
    return sum(isinstance(event, ProviderData) for event in events)


def test_what_stays_the_same_is_recorded_once() -> None:
    fields = {"system_fingerprint": "f", "service_tier": "default", "unknown": [1]}
    details = {"type": "reasoning.text", "index": 0, "format": "f"}
    thoughts = [
        {
            **one({"reasoning": f"t{n}", "reasoning_details": [{**details, "text": f"t{n}"}]}),
            **fields,
        }
        for n in range(500)
    ]
    texts = [{**one({"content": f"t{n}"}), **fields, "obfuscation": f"{n}"} for n in range(500)]

    assert recorded(same.parse(body(*thoughts, *texts, {**STOP, **fields}))) < 10


def test_a_constant_of_the_first_chunk_costs_the_texts_nothing() -> None:
    texts = [one({"content": f"t{n}"}) for n in range(50)]
    events = same.parse(body({**ROLE, **CONSTANTS}, *texts, STOP))

    assert 1 == recorded(events)
    assert all(chunk.items() >= CONSTANTS.items() for chunk in same.received(events))


def test_what_changes_with_every_chunk_is_bounded_and_the_answer_goes_on() -> None:
    chunks = [one({"content": f"{n} "}, token_ids=[n]) for n in range(5000)]

    events = same.parse(body(*chunks, STOP))

    assert recorded(events) < MAX_RECORDED / 200
    assert ["provider_data_dropped"] == [e.code for e in events if isinstance(e, Notice)]
    assert 5000 == sum(isinstance(event, TextDelta) for event in events)


def test_an_incomplete_answer_has_nothing_of_its_end() -> None:
    end = one({}, finish_reason="tool_calls", native_finish_reason="x")
    chunks = [one({"content": "a"}), end, one({}, native_finish_reason="y")]
    call = {"index": 0, "id": "c", "function": {"name": "f", "arguments": "{"}}

    events = same.parse(body(one({"tool_calls": [call]}), *chunks, done=False))

    assert "failed" == events[-1].status  # type: ignore[union-attr]
    assert "native_finish_reason" not in json.dumps(same.received(events))


def bare(events: list[Event]) -> list[Event]:
    """Return events without what is only for clients of the dialect."""
    return [
        msgspec.structs.replace(event, raw=None)
        if isinstance(event, ChoiceEnd | ToolCallStart)
        else event
        for event in events
        if not isinstance(event, ProviderData)
    ]


@given(st.lists(chunks, max_size=6))
def test_any_chunks_have_the_same_events_beside(found: list[Any]) -> None:
    sent = body(*(chunk for chunk in found if isinstance(chunk, dict)))
    events = same.parse(sent)
    check(events[2:])

    received = same.received(events)

    plain = same.parse(sent, own=False)
    assert bare(events) == plain == bare(plain)
    if events[-1].status == "completed":  # type: ignore[union-attr]
        same.answer(events)
    else:
        finished = [c["finish_reason"] for chunk in received for c in chunk.get("choices", ())]
        assert not any(finished)


NAMES = ("id", "choices", "index", "delta", "finish_reason", "logprobs", "content", "role", "x")
values = scalars | st.dictionaries(st.sampled_from(NAMES), scalars) | st.lists(scalars)
members = scalars | st.dictionaries(st.sampled_from(NAMES), values)
levels = scalars | some(once=members, kept=members, gone=values)
records = some(
    chunk=levels, choice=levels, delta=levels, reasoning=values, usage=values, now=scalars
)


@given(st.lists(records, max_size=3))
def test_no_record_breaks_the_answer(found: list[Any]) -> None:
    """They may come from another relay, by its native format."""
    raws = [Raw("openai_chat", json.dumps(fields)) for fields in found]
    events = same.parse(body(ROLE, one({"content": "a"}), one({"content": "b"}), STOP), own=False)
    place = next(n for n, event in enumerate(events) if isinstance(event, TextDelta))
    events[place:place] = map(ProviderData, raws)

    received = same.received(events)

    choices = [choice for chunk in received for choice in chunk["choices"]]
    assert {received[0]["id"]} == {chunk["id"] for chunk in received}
    assert "ab" == "".join(choice["delta"].get("content") or "" for choice in choices)
    assert ["stop"] == [c["finish_reason"] for c in choices if c["finish_reason"]]
    assert "ab" == same.answer(events)["choices"][0]["message"]["content"]


def test_a_large_constant_is_sent_once() -> None:
    large = {"citations": ["x" * 2 * MAX_REPEATED]}
    sent = body(*({**one({"content": "a"}), **large} for _ in range(9)), {**STOP, **large})
    events = same.parse(sent)

    received = same.received(events)

    assert large["citations"] == received[0]["citations"] == same.answer(events)["citations"]
    assert 1 == sum("citations" in chunk for chunk in received)


def test_sound_has_the_fields_of_the_provider() -> None:
    fields = {"id": "audio_1", "expires_at": 7, "transcript": "Hi"}
    pieces = [{"id": "audio_1", "transcript": "Hi"}, {"data": "AAAA"}, {"expires_at": 7}]

    events = same.parse(body(*(one({"audio": piece}) for piece in pieces), STOP))

    assert {**fields, "data": "AAAA"} == same.answer(events)["choices"][0]["message"]["audio"]
    audios = [c["choices"][0]["delta"].get("audio") for c in same.received(events)]
    assert pieces == [audio for audio in audios if audio]


TABLE = Table(
    DOCUMENT,
    BEGIN,
    END,
    head=("member", "to the client"),
    rows=(
        *((name, how) for name, (_, how) in DIFFERENCES.items()),
        (f"a value above {MAX_REPEATED // 1024} KiB in all chunks", "only in the first"),
        (
            "members that change with every chunk",
            f"up to {MAX_RECORDED // 1024} KiB, then a `notice`",
        ),
    ),
)


def test_the_document_has_the_exceptions() -> None:
    assert TABLE.render() == TABLE.read()


if __name__ == "__main__":
    TABLE.write()
