"""The limit on the output that a request body may ask for. No I/O.

A body may be rendered, a client's own, or changed by `provider_options`. The length of an
answer, the number of answers and the reasoning budget are found by the names that the hosts of
all formats use, anywhere in it, ignoring case, "_" and "-", as some hosts do.
"""

from collections.abc import Mapping
from typing import Any, Final

from ...errors import RequestError
from ...requests import OutputCeiling

LENGTHS: Final = frozenset(
    (
        "maxtokens",
        "maxcompletiontokens",
        "maxoutputtokens",
        "maxnewtokens",
        "maxlength",
        "maxtokenstosample",
        "maxgentoks",
        "maxgenlen",
        "maxtokencount",
        "maxresponsetokens",
        "maxgenerationtokens",
        "maxgeneratedtokens",
        "npredict",
        "numpredict",
    )
)
"""Names of the maximum length of an answer."""

BUDGETS: Final = frozenset(
    (
        "budgettokens",
        "thinkingbudget",
        "thinkingbudgettokens",
        "thinkingtokenbudget",
        "tokenbudget",
        "reasoningbudget",
        "reasoningbudgettokens",
        "maxreasoningtokens",
        "maxthinkingtokens",
        "reasoningmaxtokens",
    )
)
"""Names of the reasoning budget."""

CHOICES: Final = frozenset(
    (
        "n",
        "bestof",
        "candidatecount",
        "numreturnsequences",
        "numgenerations",
        "numcompletions",
        "samplecount",
        "numbeams",
        "beamwidth",
        "numcandidates",
    )
)
"""Names of the number of answers."""

_CONTENT: Final = frozenset(
    (
        "messages",
        "contents",
        "input",
        "system",
        "systeminstruction",
        "instructions",
        "prompt",
        "tools",
        "toolconfig",
        "functions",
        "documents",
        "prediction",
        "metadata",
        "text",
        "requestmetadata",
        "responseformat",
        "responseschema",
        "responsejsonschema",
        "format",
        "outputconfig",
        "outputformat",
        "guidedjson",
        "jsonschema",
        "structuredoutputs",
        "logitbias",
        "clientmetadata",
    )
)
"""Content for the model, and schemas: in there these names mean something else."""

_LEAST_BUDGET: Final = 1024
"""Claude's minimum."""


def bound_output(body: Mapping[str, Any], ceiling: OutputCeiling, *, field: str) -> dict[str, Any]:
    """Return a body that asks for no more than the ceiling.

    `field` is the path of the format's own limit, with dots between the steps: the body always
    has this one, and no other.

    Raises:
        RequestError: `invalid_request`, the body asks for more answers, or for thought that
            leaves no room for one.
    """
    *above, name = field.split(".")
    where, steps = _gather(dict(body), above)
    given = [where.pop(key) for key in list(where) if _plain(key) in LENGTHS]
    limit = min([ceiling.tokens, *filter(_is_count, given)])
    bounded = _Bounds(ceiling.choices, limit)
    where = bounded.fields(where, path=".".join(above)) | {name: limit}
    for holder, key in reversed(steps):
        where = {**bounded.fields(holder, path=""), key: where}
    return where


def _gather(
    body: dict[str, Any], above: list[str]
) -> tuple[dict[str, Any], list[tuple[dict[str, Any], str]]]:
    """Return the object that the steps lead to, all spellings of them joined.

    And the objects on the way, each without the step that leads on, with that.
    """
    steps = []
    for step in above:
        same = [key for key in body if _plain(key) == _plain(step)]
        found: dict[str, Any] = {}
        for key in sorted(same, key=lambda key: key == step):  # the right spelling counts
            value = body.pop(key)
            if isinstance(value, dict):
                found |= value
        steps.append((body, step))
        body = found
    return body, steps


class _Bounds:
    def __init__(self, choices: int, limit: int) -> None:
        self._choices = choices
        self._limit = limit

    def fields(self, fields: Mapping[str, Any], *, path: str) -> dict[str, Any]:
        """Return the fields of an object, and of those in it, with what is too much lowered."""
        return {
            name: self._field(name, value, path=f"{path}.{name}" if path else name)
            for name, value in fields.items()
        }

    def _field(self, name: str, value: Any, *, path: str) -> Any:
        plain = _plain(name)
        if value is None or plain in _CONTENT:
            return value
        if plain in CHOICES and not isinstance(value, dict | list):
            if _is_count(value) and value <= self._choices:
                return value
            raise RequestError(
                "invalid_request",
                f"{path[:120]}: {str(value)[:40]!r} asks for other than the {self._choices} "
                "answers that were reserved for; say how many in `n` of the request",
            )
        if plain in BUDGETS:
            return self._budget(plain, value, path=path)
        if plain in LENGTHS:
            return value if _is_count(value) and value < self._limit else max(1, self._limit - 1)
        return self._below(value, path=path)

    def _below(self, value: Any, *, path: str) -> Any:
        if isinstance(value, dict):
            return self.fields(value, path=path)
        if isinstance(value, list):
            return [self._below(item, path=path) for item in value]
        return value

    def _budget(self, plain: str, value: Any, *, path: str) -> Any:
        """Return a budget that is a part of the limit; -1 leaves it to the model, within that."""
        if value in (0, -1) or (_is_count(value) and value < self._limit):
            return value
        if plain != "budgettokens":
            return max(1, self._limit - 1)
        if self._limit <= _LEAST_BUDGET:
            raise RequestError(
                "invalid_request",
                f"{path[:120]}: limits leave {self._limit} tokens for the answer, and thinking "
                f"needs more than {_LEAST_BUDGET}; ask without it, or later",
            )
        return max(_LEAST_BUDGET, self._limit // 2)


def _is_count(value: Any) -> bool:
    return type(value) is int and value > 0


def _plain(name: str) -> str:
    """Return what all spellings of a name have in common, those too that Go takes for the same."""
    return name.casefold().replace("_", "").replace("-", "")
