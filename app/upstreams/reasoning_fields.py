"""The field in which each model of an upstream takes its reasoning back, learnt from it.

A host without a preset may be either kind: DeepSeek's, Kimi's and GLM's models refuse a turn
that called tools without its reasoning, others refuse a field that they do not know. So a model
is sent reasoning in the field in which it has sent its own, and a refusal that names the field
is believed. Each process learns for itself.
"""

import re
from collections.abc import Mapping
from typing import Final

MAX_MODELS: Final = 1_000
"""Of one upstream; clients may name any."""

_WANTED: Final = "reasoning_content"
"""The field that hosts name where they miss it: "must be passed back"."""

_NAMED: Final[Mapping[str, re.Pattern[str]]] = {
    _WANTED: re.compile(rf"\b{_WANTED}\b"),
    "reasoning": re.compile(r"['\"`.]reasoning['\"`]"),  # else it is a word like any other
}


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

    def refused(self, model: str, message: str) -> None:
        """Note what a refused request says of the field, which it was sent or not."""
        field = self.of(model)
        if field == "no" and _NAMED[_WANTED].search(message):
            self._learn(model, _WANTED)
        elif field != "no" and _NAMED[field].search(message):
            self._learn(model, "no")

    def _learn(self, model: str, field: str) -> None:
        if model not in self._fields and len(self._fields) >= MAX_MODELS:
            del self._fields[next(iter(self._fields))]
        self._fields[model] = field
