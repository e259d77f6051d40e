"""Conversion of events to Completions deltas: the text of Chat Completions' deltas.

Reasoning, tool calls and images have no counterpart and are dropped; a refusal is text.
"""

from collections.abc import Iterable
from typing import Any, Final, Literal, NamedTuple

from ....events import Event
from ...answering.ids import public_token
from ...openai_chat.client.deltas import DeltaBuilder as ChatDeltas

ECHO: Final = "echo"
"""The label with the prompt, if the client requested `echo`."""

Finish = Literal["stop", "length", "content_filter"]


class Delta(NamedTuple):
    """The part of a chunk that belongs to one choice."""

    choice: int
    text: str
    finish_reason: Finish | None = None
    logprobs: dict[str, Any] | None = None


class DeltaBuilder:
    """Converts the events of one stream; holds the fields that all its chunks share."""

    def __init__(self, stream: str) -> None:
        self._chat = ChatDeltas(stream)
        self.id = f"cmpl-{public_token(stream, 'openai_completions')}"
        self._offsets: dict[int, int] = {}
        """By started choice: the text offset of the next token that has log probabilities."""

    @property
    def created(self) -> int:
        return self._chat.created

    @property
    def model(self) -> str:
        return self._chat.model

    @property
    def labels(self) -> dict[str, str]:
        return self._chat.labels

    def feed(self, event: Event) -> Iterable[Delta]:
        """Yield the deltas for an event."""
        for chat in self._chat.feed(event):
            text = chat.delta.get("content") or chat.delta.get("refusal") or ""
            if chat.choice not in self._offsets:
                echo = self.labels.get(ECHO, "")
                self._offsets[chat.choice] = len(echo)
                text = echo + text
            finish = chat.finish_reason
            if finish == "tool_calls":
                finish = "stop"
            logprobs = self._logprobs(chat.choice, chat.logprobs) if chat.logprobs else None
            if text or finish or logprobs:
                yield Delta(chat.choice, text, finish_reason=finish, logprobs=logprobs)

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
            "top_logprobs": [_tops(row) for row in rows],
            "text_offset": offsets,
        }


def _tops(row: dict[str, Any]) -> dict[str, float]:
    return {top["token"]: top["logprob"] for top in row["top_logprobs"]}
