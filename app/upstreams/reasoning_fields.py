"""The field in which each model of an upstream takes its reasoning back, learnt from it.

A host without a preset may be either kind: DeepSeek's, Kimi's and GLM's models refuse a turn
that called tools without its reasoning, others refuse a field that they do not know. So a model
is sent reasoning in the field in which it has sent its own, and a refusal that names the field
is believed, unless it may quote the client. Each process learns for itself.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

MAX_MODELS: Final = 1_000
"""Of one upstream; clients may name any."""

_WANTED: Final = "reasoning_content"
"""The field that hosts name where they miss it: "must be passed back"."""

_NAMED: Final[Mapping[str, re.Pattern[str]]] = {
    _WANTED: re.compile(_WANTED, re.IGNORECASE),
    # Without quotes it is a word like any other.
    "reasoning": re.compile(r"['\"`.]reasoning['\"`]", re.IGNORECASE),
}

_decoder = msgspec.json.Decoder(dict[str, Any])


class ReasoningFields:
    """The learnt fields of the models of one upstream."""

    def __init__(self) -> None:
        self._fields: dict[str, str] = {}

    def of(self, model: str) -> str:
        """Return the field for a model, "no" if it is sent no reasoning."""
        return self._fields.get(model, "no")

    def saw(self, model: str, field: str) -> None:
        """Note the field of an answer's reasoning, unless the model has refused one."""
        if self._fields.get(model) != "no":
            self._learn(model, field)

    def refused(self, model: str, message: str, *, content: bytes, reasoned: bool) -> None:
        """Note what the refusal of a request says of the field.

        The request's body is the JSON `content`; its conversation has reasoning if it is
        `reasoned`. A host that was sent the field may not know it, one that was not may miss it.
        A message that may quote the client's own text is ignored: it counts for everybody.
        """
        known = self.of(model)
        field = _WANTED if known == "no" else known
        if not _NAMED[field].search(message):
            return
        body = _decoder.decode(content)
        sent = _take_reasoning(body, field)
        possible = reasoned and not sent if known == "no" else sent
        if possible and not _is_quotable([body, sent], field):
            self._learn(model, "no" if sent else field)

    def _learn(self, model: str, field: str) -> None:
        if model not in self._fields and len(self._fields) >= MAX_MODELS:
            del self._fields[next(iter(self._fields))]
        self._fields[model] = field


def _take_reasoning(body: dict[str, Any], field: str) -> list[Any]:
    """Take the field out of all messages of a body; return its values."""
    messages = body.get("messages")
    found = messages if isinstance(messages, list) else []
    return [one.pop(field) for one in found if isinstance(one, dict) and field in one]


def _is_quotable(value: Any, field: str) -> bool:
    """Return whether JSON has a text or key that names the field where a message quotes it."""
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
