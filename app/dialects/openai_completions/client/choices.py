"""Conversion of events to choices of Completions, from the deltas of Chat Completions.

Reasoning, tool calls and images have no counterpart and are dropped; a refusal is text.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from ....events import Event
from ...answering.ids import public_token
from ...openai_chat.client.deltas import DeltaBuilder

_FINISH: Final = {"tool_calls": "stop"}


class ChoiceBuilder:
    """Converts the events of one stream; holds the fields that all its chunks share."""

    def __init__(self, stream: str) -> None:
        self.deltas = DeltaBuilder(stream)
        self._id = f"cmpl-{public_token(stream, 'openai_completions')}"
        self._offsets: Counter[int] = Counter()
        """By choice: the offset in the text of its next token with log probabilities."""

    def feed(self, event: Event) -> Iterable[dict[str, Any]]:
        """Yield the choices for an event."""
        for chat in self.deltas.feed(event):
            text = chat.delta.get("content") or chat.delta.get("refusal") or ""
            finish = chat.finish_reason and _FINISH.get(chat.finish_reason, chat.finish_reason)
            logprobs = self._logprobs(chat.choice, chat.logprobs) if chat.logprobs else None
            if text or finish or logprobs:
                yield {
                    "text": text,
                    "index": chat.choice,
                    "logprobs": logprobs,
                    "finish_reason": finish,
                }

    def render(self, **fields: object) -> dict[str, Any]:
        """Return a chunk or a response of these fields."""
        return {
            "id": self._id,
            "object": "text_completion",
            "created": self.deltas.created,
            "model": self.deltas.model,
            **fields,
        }

    def _logprobs(self, choice: int, logprobs: dict[str, Any]) -> dict[str, Any]:
        """Return the legacy form of log probabilities: a list per kind of value."""
        rows = logprobs.get("content") or logprobs.get("refusal") or ()
        offsets = []
        for row in rows:
            offsets.append(self._offsets[choice])
            self._offsets[choice] += len(row["token"])
        return {
            "tokens": [row["token"] for row in rows],
            "token_logprobs": [row["logprob"] for row in rows],
            "top_logprobs": [
                {top["token"]: top["logprob"] for top in row["top_logprobs"]} for row in rows
            ],
            "text_offset": offsets,
        }
