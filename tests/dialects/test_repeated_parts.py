"""What hosts send again, in another form or too early: it comes once, and the last word counts."""

import json
from typing import Any

import pytest

from app.events import ReasoningDelta, TextDelta
from tests.dialects.openai_chat.written import DONE, STOP, TEXT, chunk, sse
from tests.dialects.streams import TRUNCATED, check, end_of, joined, outcome, play

pytestmark = pytest.mark.pure

COMPLETED = ("completed", "stop")


def message(content: str, finish: str | None = None, **more: Any) -> dict[str, Any]:
    said = {"index": 0, "message": {"role": "assistant", "content": content, **more}}
    return {"object": "chat.completion", "choices": [{**said, "finish_reason": finish}]}


MESSAGES = {
    "the finish alone": (message("Hel"), message("lo"), message("", "stop")),
    "the finish with the last piece": (message("Hel"), message("lo", "stop")),
    "all again at the finish": (message("Hel"), message("lo"), message("Hello", "stop")),
    "a chunk for the finish": (message("Hel"), message("lo"), STOP),
    "a whole one alone": (message("Hello", "stop"),),
    "after deltas": (chunk({"content": "Hel"}), chunk({"content": "lo"}), message("Hello", "stop")),
}


@pytest.mark.parametrize("done", [DONE, b""])
@pytest.mark.parametrize("chunks", MESSAGES.values(), ids=MESSAGES)
def test_messages_instead_of_deltas_go_on_to_the_finish(chunks: Any, done: bytes) -> None:
    found = play([sse(*chunks) + done])
    check(found)

    assert joined(found, TextDelta) == "Hello"
    assert outcome(found) == COMPLETED


def test_messages_without_a_finish_are_cut_unless_done() -> None:
    body = sse(message("Hel"), message("lo"))

    assert outcome(play([body])) == TRUNCATED
    found = play([body + DONE])
    assert outcome(found) == ("completed", "unknown")
    assert joined(found, TextDelta) == "Hello"
    assert outcome(play([json.dumps(message("Hello")).encode()])) == ("completed", "unknown")


def thought(field: str, text: str, content: str | None = None) -> dict[str, Any]:
    return chunk({field: text} | ({} if content is None else {"content": content}))


A, B = "reasoning_content", "reasoning"
DETAILS = {"reasoning_details": [{"type": "reasoning.text", "text": "Let me see."}]}
THOUGHTS = {
    "in a later delta": [thought(A, "Let me"), thought(A, " see."), thought(A, "Let me see.")],
    "a single one": [thought(A, "Let me see."), thought(A, "Let me see.")],
    "beside the answer": [thought(A, "Let me"), thought(A, " see."), thought(A, "Let me see.", "x")],
    "after the answer": [thought(A, "Let me see."), chunk({"content": "x"}), thought(A, "Let me see.")],
    "in another field": [thought(A, "Let me see."), thought(B, "Let me see.")],
    "each piece in another field": [
        *(thought(A, "Let me"), thought(B, "Let me")),
        *(thought(A, " see."), thought(B, " see.")),
    ],
    "in both fields": [chunk({A: "Let me see.", B: "Let me see."})],
    "in details": [thought(B, "Let me"), thought(B, " see."), chunk(DETAILS)],
    "in the last message": [thought(A, "Let me"), thought(A, " see."), message("", **{A: "Let me see."})],
}  # fmt: skip


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("chunks", THOUGHTS.values(), ids=THOUGHTS)
def test_a_thought_comes_once(chunks: list[dict[str, Any]], fast: bool) -> None:
    """Also in chunks that have other members, which another parser reads."""
    more: dict[str, Any] = {} if fast else {"citations": []}
    found = play([sse(*({**one, **more} for one in chunks), TEXT, STOP) + DONE])
    check(found)

    assert joined(found, ReasoningDelta) == "Let me see."


@pytest.mark.parametrize("pieces", [["ha", "ha"], ["a", "b", "c"], ["no, ", "no", ", no, no"]])
def test_a_thought_may_repeat_itself(pieces: list[str]) -> None:
    found = play([sse(*(thought(A, piece) for piece in pieces), TEXT, STOP) + DONE])

    assert joined(found, ReasoningDelta) == "".join(pieces)


def usage(prompt: int, completion: int, **more: Any) -> dict[str, Any]:
    total = prompt + completion
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total, **more}


def claude(last: dict[str, int]) -> bytes:
    head = {"input_tokens": 9, "cache_read_input_tokens": 4}
    return sse(
        {"type": "message_start", "message": {"id": "m", "usage": head}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "a"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": last},
        {"type": "message_stop"},
    )


@pytest.mark.parametrize(
    ("dialect", "body", "counts"),
    [
        (
            "openai_chat",
            sse({**TEXT, "usage": usage(9, 5)}, STOP, {"choices": [], "usage": usage(0, 0)}) + DONE,
            (9, 5, 14),
        ),
        (
            "openai_chat",
            sse({**TEXT, "usage": usage(9, 0)}, STOP, {"choices": [], "usage": usage(9, 5)}) + DONE,
            (9, 5, 14),
        ),
        ("anthropic", claude({"input_tokens": 0, "output_tokens": 5}), (13, 5, 18)),
        (
            "anthropic",
            claude({"input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 5}),
            (13, 5, 18),
        ),
    ],
)
def test_later_zeros_replace_no_counts(dialect: str, body: bytes, counts: Any) -> None:
    found = end_of(play([body], dialect=dialect)).usage

    assert found is not None
    assert (found.input_tokens, found.output_tokens, found.total_tokens) == counts


@pytest.mark.parametrize("last", ["length", "content_filter"])
def test_the_last_word_of_a_limit_counts(last: str) -> None:
    chunks = [chunk({"content": "a"}, "stop"), chunk({"content": "b"}, last)]

    assert outcome(play([sse(*chunks) + DONE])) == ("completed", last)
    assert outcome(play([sse(*reversed(chunks)) + DONE])) == ("completed", last)
