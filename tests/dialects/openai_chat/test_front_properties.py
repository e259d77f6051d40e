"""Whatever an upstream sends, both of OpenAI's formats tell it in a way that its clients take."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.dialects.openai_chat.client.result import render_result
from app.errors import UpstreamError
from app.events import StreamTarget
from tests.dialects.openai_chat import test_client_renderer as chat
from tests.dialects.openai_responses import test_client_renderer as responses
from tests.dialects.streams import play

pytestmark = pytest.mark.pure

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
    events = [chat.START[0], StreamTarget("u", "m-1", 1), *played]

    summed = chat.check(chat.frames(events), events=events)
    responses.check(events)
    if summed is not None:
        result = render_result(chat.STREAM, events)
        assert [choice["index"] for choice in result["choices"]] == [
            choice.index for choice in summed.choices
        ]
