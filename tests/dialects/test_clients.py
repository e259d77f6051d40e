"""Every provider's stream in every client's format: laws that hold in all of them.

`test_matrix.py` has the same laws for all that was recorded from providers.
"""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.dialects.client_formats import CLIENT_FORMATS
from app.errors import UpstreamError
from tests.dialects import clients
from tests.dialects.streams import play
from tests.fuzz.streams_corpus import Body, kept

pytestmark = pytest.mark.pure

EVERY_BODY = pytest.mark.parametrize("body", kept(), ids=lambda body: body.name)


def test_every_format_is_read() -> None:
    assert set(CLIENT_FORMATS) - {"native"} == set(clients.READERS)


@EVERY_BODY
def test_a_stream_says_the_same_in_every_format(body: Body) -> None:
    events = clients.logged(body)

    clients.check_answer(events)
    clients.check_results(events)


@EVERY_BODY
def test_frames_after_any_cursor_are_the_rest(body: Body) -> None:
    clients.check_cursors(clients.logged(body))


@EVERY_BODY
def test_no_client_takes_a_cut_or_stopped_answer_for_a_whole_one(body: Body) -> None:
    clients.check_cuts(body, cuts=2)


WORDS = st.text(min_size=1, max_size=4)
CALLS = st.fixed_dictionaries(
    {"index": st.integers(0, 2)},
    optional={
        "id": st.sampled_from(["c1", "c2"]),
        "function": st.fixed_dictionaries(
            {}, optional={"name": WORDS, "arguments": st.sampled_from(["{", "}", '{"a":1}'])}
        ),
        "extra_content": st.just({"google": {"thought_signature": "sig"}}),
    },
)
DELTAS = st.fixed_dictionaries(
    {},
    optional={
        "content": WORDS,
        "reasoning_content": WORDS,
        "refusal": WORDS,
        "tool_calls": st.lists(CALLS, max_size=2),
        "annotations": st.just([{"type": "url_citation", "url": "https://a.example/"}]),
        "images": st.just([{"image_url": {"url": "data:image/png;base64,aa=="}}]),
        "audio": st.just({"data": "aa=="}),
        "reasoning_details": st.lists(
            st.sampled_from(
                [
                    {"type": "reasoning.text", "signature": "s", "format": "f"},
                    {"type": "reasoning.encrypted", "data": "d", "format": "openai"},
                ]
            ),
            max_size=1,
        ),
    },
)
CHOICES = st.fixed_dictionaries(
    {"index": st.integers(0, 2), "delta": DELTAS},
    optional={
        "finish_reason": st.sampled_from(["stop", "length", "tool_calls", "error", "x"]),
        "logprobs": st.just({"content": [{"token": "x", "logprob": -1}]}),
    },
)
CHUNKS = st.lists(st.fixed_dictionaries({"choices": st.lists(CHOICES, max_size=2)}), max_size=8)
CUT = UpstreamError("upstream_truncated", "cut off")


@given(CHUNKS, st.sampled_from(["[DONE]", '{"error": {"message": "no"}}', None]))
def test_any_stream_is_one_that_clients_take(chunks: list[dict[str, Any]], last: str | None):
    ends = [] if last is None else [last]
    body = "".join(f"data: {data}\n\n" for data in [*map(json.dumps, chunks), *ends])
    played = play([body.encode()], cut=CUT if last is None else None)
    events = [*clients.HEAD, *played]

    clients.check_answer(events)
    clients.check_results(events)
