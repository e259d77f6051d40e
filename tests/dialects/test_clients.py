"""Every provider's stream in every client's format: laws that hold in all of them.

`test_matrix.py` has the same laws for all that was recorded from providers.
"""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app import events as e
from app.dialects.client_formats import CLIENT_FORMATS
from app.errors import UpstreamError
from tests.dialects import clients
from tests.dialects import examples as ex
from tests.dialects.streams import play
from tests.fuzz.streams_corpus import Body, kept

pytestmark = pytest.mark.pure

EVERY_BODY = pytest.mark.parametrize("body", kept(), ids=lambda body: body.name)


def test_every_format_is_read() -> None:
    assert set(CLIENT_FORMATS) - {"native"} == set(clients.READERS)
    assert set(CLIENT_FORMATS) == set(clients.REQUESTS)


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


FINISH_REASONS = [
    ("stop", "stop", ("completed", None), "end_turn", "stop"),
    ("length", "length", ("incomplete", "max_output_tokens"), "max_tokens", "length"),
    ("tool_calls", "tool_calls", ("completed", None), "tool_use", "tool-calls"),
    ("content_filter", "content_filter", ("incomplete", "content_filter"), "refusal", "content-filter"),
    ("refusal", "content_filter", ("incomplete", "content_filter"), "refusal", "content-filter"),
    ("pause", "length", ("incomplete", "max_output_tokens"), "pause_turn", "other"),
    ("unknown", "stop", ("completed", None), "end_turn", "other"),
]  # fmt: skip


@pytest.mark.parametrize(("reason", "chat", "responses", "anthropic", "ui"), FINISH_REASONS)
def test_finish_reasons_are_those_of_the_format(
    reason: Any, chat: str, responses: tuple[str, str | None], anthropic: str, ui: str
) -> None:
    events = [*clients.HEAD, *ex.text(0, "Hi")]
    events += [e.ChoiceEnd(reason), e.StreamEnd("completed", reason)]
    results = {name: clients.render_result(name, events) for name in CLIENT_FORMATS}
    response = results["openai_responses"]

    assert chat == results["openai_chat"]["choices"][0]["finish_reason"]
    assert responses == (
        response["status"],
        (response["incomplete_details"] or {}).get("reason"),
    )
    assert response["status"] == response["output"][0]["status"]
    assert anthropic == results["anthropic"]["stop_reason"]
    assert ui == results["ui"][-1]["finishReason"]
    assert reason == results["ag_ui"][-1]["metadata"]["finishReason"]


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
