"""An answer in the words of Completions: the text of Chat Completions' deltas.

What the model thought, its calls and its pictures have no place there; a refusal is text.
"""

from collections.abc import Iterable
from typing import Any, Final, Literal, NamedTuple

from ....events import Event
from ...answering.public_ids import public_token
from ...openai_chat.client.deltas import DeltaBuilder as ChatDeltas

ECHO: Final = "echo"
"""The label that is the prompt, where the client wants it said again."""

Finish = Literal["stop", "length", "content_filter"]


class Delta(NamedTuple):
    """What one chunk says of one choice."""

    choice: int
    text: str
    finish_reason: Finish | None = None
    logprobs: dict[str, Any] | None = None


class DeltaBuilder:
    """Takes the events of one stream; it keeps what the chunks of that stream share."""

    def __init__(self, stream: str) -> None:
        self._chat = ChatDeltas(stream)
        self.id = f"cmpl-{public_token(stream, 'openai_completions')}"
        self._offsets: dict[int, int] = {}
        """Of a choice that has begun: where the next token with a probability begins."""

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
        """Yield what an event adds."""
        for said in self._chat.feed(event):
            text = said.delta.get("content") or said.delta.get("refusal") or ""
            if said.choice not in self._offsets:
                echo = self.labels.get(ECHO, "")
                self._offsets[said.choice] = len(echo)
                text = echo + text
            finish = said.finish_reason
            if finish == "tool_calls" or finish == "function_call":
                finish = "stop"
            logprobs = self._logprobs(said.choice, said.logprobs) if said.logprobs else None
            if text or finish or logprobs:
                yield Delta(said.choice, text, finish, logprobs)

    def _logprobs(self, choice: int, given: dict[str, Any]) -> dict[str, Any]:
        """Return the older form: a list for each kind of value."""
        rows = given.get("content") or given.get("refusal") or ()
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
