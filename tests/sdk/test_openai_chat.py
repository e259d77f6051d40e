"""What we send in Chat Completions is what OpenAI's SDK sends for the same conversation."""

import copy
from typing import Any

import msgspec
import openai
import pytest

from app.dialects.openai_chat.upstream.request import Quirks, render_request
from tests.sdk.conversations import TURNS, request_of
from tests.sdk.recorder import Recorder

USAGE = {"stream_options": {"include_usage": True}}
"""Ours alone: clients are told the usage whether they asked for it or not."""

TOOL = {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {}}}


def sent_by_sdk(recorder: Recorder, words: dict[str, Any]) -> Any:
    url = f"{recorder.url}/v1"
    with openai.OpenAI(api_key="key", base_url=url, max_retries=0) as client:
        recorded = recorder.record(
            lambda: client.chat.completions.create(model="m", stream=True, **words)
        )
    assert (recorded.method, recorded.path) == ("POST", "/v1/chat/completions")
    return recorded.body


def sent_by_us(turn: dict[str, Any], **quirks: Any) -> dict[str, Any]:
    return render_request(request_of(turn), model="m", quirks=msgspec.convert(quirks, Quirks)).body


@pytest.mark.parametrize("name", TURNS)
def test_a_turn_is_sent_as_the_sdk_sends_it(recorder: Recorder, name: str) -> None:
    """The words of `POST /v1/chat` are the SDK's own, so they need no translation."""
    words = copy.deepcopy(TURNS[name])
    for message in words["messages"]:
        if message["role"] == "assistant":
            message.setdefault("content", None)  # which the SDK leaves to its caller

    assert sent_by_us(TURNS[name]) == sent_by_sdk(recorder, {**words, **USAGE})


def test_the_limit_of_reasoning_models_has_another_name(recorder: Recorder) -> None:
    words = {key: value for key, value in TURNS["effort"].items() if key != "max_tokens"}
    body = sent_by_us(TURNS["effort"], max_tokens_field="max_completion_tokens")

    assert body == sent_by_sdk(recorder, {**words, "max_completion_tokens": 4000, **USAGE})


THOUGHT = [
    {"type": "reasoning", "text": "One.", "signature": "S", "format": "anthropic-claude-v1"},
    {"type": "reasoning", "encrypted": "E", "format": "openai-responses-v1"},
    {"type": "text", "text": "Thought."},
]


@pytest.mark.parametrize(
    ("send", "said"),
    [
        ("no", {}),
        ("reasoning_content", {"reasoning_content": "One."}),
        ("reasoning", {"reasoning": "One."}),
        (
            "reasoning_details",
            {
                "reasoning_details": [
                    {
                        "type": "reasoning.text",
                        "text": "One.",
                        "signature": "S",
                        "format": "anthropic-claude-v1",
                    },
                    {"type": "reasoning.encrypted", "data": "E", "format": "openai-responses-v1"},
                ]
            },
        ),
    ],
)
def test_reasoning_goes_back_as_the_sdk_sends_it(
    recorder: Recorder, send: str, said: dict[str, Any]
) -> None:
    """The SDK sends fields that it does not know as they are; each host names its own."""
    question = {"role": "user", "content": "Think."}
    turn = {"messages": [question, {"role": "assistant", "content": THOUGHT}, question]}
    answer = {"role": "assistant", "content": [{"type": "text", "text": "Thought."}], **said}
    words = {"messages": [question, answer, question]}

    assert sent_by_us(turn, send_reasoning=send) == sent_by_sdk(recorder, {**words, **USAGE})


def test_all_that_tunes_is_sent_as_the_sdk_sends_it(recorder: Recorder) -> None:
    words = {
        **TURNS["one-turn"],
        "n": 2,
        "seed": 7,
        "frequency_penalty": 0.5,
        "presence_penalty": -0.5,
        "logprobs": True,
        "top_logprobs": 3,
        "tools": [{"type": "function", "function": TOOL}],
        "parallel_tool_calls": False,
        "metadata": {"a": "b"},
        "user": "u",
    }

    assert sent_by_us(words) == sent_by_sdk(recorder, {**words, **USAGE})
