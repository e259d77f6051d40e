"""Detection of the field in which each model of an upstream accepts its reasoning.

Hosts without a preset differ: models of DeepSeek, Kimi and GLM reject a turn with tool calls
but without its reasoning, others reject an unknown field. So a model receives reasoning in the
field in which it sent its own, and a rejection that names the field is honored, unless it may
quote the client. Each process detects this separately.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

MAX_MODELS: Final = 1_000
"""Per upstream; clients may use any name."""

_WANTED: Final = "reasoning_content"
"""The field in the hosts' error for missing reasoning: "must be passed back"."""

_NAMED: Final[Mapping[str, re.Pattern[str]]] = {
    _WANTED: re.compile(_WANTED, re.IGNORECASE),
    # Without quotes it is an ordinary word.
    "reasoning": re.compile(r"['\"`.]reasoning['\"`]", re.IGNORECASE),
}

_decoder = msgspec.json.Decoder(dict[str, Any])


class ReasoningFields:
    """The detected fields of one upstream's models."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}
        """The field of each model with one; "no" to send no reasoning."""

    def of(self, model: str) -> str:
        """Return the field for a model; "no" to send no reasoning."""
        return self.known.get(model, "no")

    def learn(self, model: str, field: str) -> None:
        """Record the field of an answer's reasoning, unless the model has rejected one."""
        if self.known.get(model) != "no":
            self._store(model, field)

    def refused(self, model: str, message: str, *, content: bytes, reasoned: bool) -> None:
        """Record a request's rejection, if its message names the field.

        `content` is the request's JSON body; `reasoned`: whether its conversation has
        reasoning. A host that received the field may not know it; one that did not may require
        it. A message that may quote the client is ignored, since the result applies to all
        clients.
        """
        known = self.of(model)
        field = _WANTED if known == "no" else known
        if not _NAMED[field].search(message):
            return
        body = _decoder.decode(content)
        sent = _take_reasoning(body, field)
        possible = reasoned and not sent if known == "no" else sent
        if possible and not _is_quotable([body, sent], field):
            self._store(model, "no" if sent else field)

    def _store(self, model: str, field: str) -> None:
        if model not in self.known and len(self.known) >= MAX_MODELS:
            del self.known[next(iter(self.known))]
        self.known[model] = field


def _take_reasoning(body: dict[str, Any], field: str) -> list[Any]:
    """Remove the field from all messages of a body; return its values."""
    messages = body.get("messages")
    found = messages if isinstance(messages, list) else []
    return [one.pop(field) for one in found if isinstance(one, dict) and field in one]


def _is_quotable(value: Any, field: str) -> bool:
    """Return whether JSON contains a text or key that a message could quote as the field."""
    named, left = _NAMED[field], [value]
    while left:
        match left.pop():
            case str(text) if named.search(f"'{text}'"):
                return True
            case list(items):
                left += items
            case dict(fields):
                left += [*fields, *fields.values()]
    return False
