"""Output limit of a request body: its length, number of answers and reasoning budget. No I/O.

A body may be rendered, a client's own, or changed by `provider_options`. The limits are found by
the names that the hosts of all formats use, anywhere in it, ignoring case, "_" and "-", as some
hosts do.
"""

from collections.abc import Mapping
from typing import Any, Final

from ...errors import RequestError
from ...requests import OutputCeiling


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


LENGTHS: Final = _names(
    "maxtokens maxcompletiontokens maxoutputtokens maxnewtokens maxlength maxtokenstosample"
    " maxgentoks maxgenlen maxtokencount maxresponsetokens maxgenerationtokens"
    " maxgeneratedtokens npredict numpredict"
)
"""Names of the maximum length of an answer."""

BUDGETS: Final = _names(
    "budgettokens thinkingbudget thinkingbudgettokens thinkingtokenbudget tokenbudget"
    " reasoningbudget reasoningbudgettokens maxreasoningtokens maxthinkingtokens"
    " reasoningmaxtokens"
)
"""Names of the reasoning budget."""

CHOICES: Final = _names(
    "n bestof candidatecount numreturnsequences numgenerations numcompletions samplecount"
    " numbeams beamwidth numcandidates numimages numberofimages numoutputs"
    " numoutputsperprompt numimagesperprompt batchsize"
)
"""Names of the number of answers, or of images."""

_CONTENT: Final = _names(
    "messages contents input system systeminstruction instructions prompt tools toolconfig"
    " functions documents prediction metadata text requestmetadata responseformat"
    " responseschema responsejsonschema format outputconfig outputformat guidedjson"
    " jsonschema structuredoutputs logitbias clientmetadata"
)
"""Content for the model, and schemas, in which these names have other meanings."""

_LEAST_BUDGET: Final = 1024
"""Claude's minimum."""


def bound_output(body: Mapping[str, Any], ceiling: OutputCeiling, *, field: str) -> dict[str, Any]:
    """Return a body that does not exceed the ceiling.

    `field` is the path of the format's own limit, with steps separated by dots: the body always has
    this one, and no other.

    Raises:
        RequestError: `invalid_request`, the body requests more answers, or thinking that leaves no
            tokens for the answer.
    """
    *above, name = field.split(".")
    where, steps = _gather(dict(body), above)
    given = [where.pop(key) for key in list(where) if plain_name(key) in LENGTHS]
    limit = min([ceiling.tokens, *filter(_is_count, given)])
    bounded = _Bounds(ceiling.choices, limit)
    where = bounded.fields(where, path=".".join(above)) | {name: limit}
    for holder, key in reversed(steps):
        where = {**bounded.fields(holder, path=""), key: where}
    return where


def _gather(
    body: dict[str, Any], above: list[str]
) -> tuple[dict[str, Any], list[tuple[dict[str, Any], str]]]:
    """Return the object at a path, with all spellings merged, and its parents.

    Each parent comes without the step that follows, and with the name of that step.
    """
    steps = []
    for step in above:
        same = [key for key in body if plain_name(key) == plain_name(step)]
        found: dict[str, Any] = {}
        for key in sorted(same, key=lambda key: key == step):  # the exact name is last and wins
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
        """Return the fields of an object, with excessive values lowered at any depth."""
        return {
            name: self._field(name, value, path=f"{path}.{name}" if path else name)
            for name, value in fields.items()
        }

    def _field(self, name: str, value: Any, *, path: str) -> Any:
        plain = plain_name(name)
        if value is None or plain in _CONTENT:
            return value
        if plain in CHOICES and not isinstance(value, dict):
            if _is_count(value) and value <= self._choices:
                return value
            raise RequestError(
                "invalid_request",
                f"{path[:120]}: {str(value)[:40]!r} differs from the number of reserved answers, "
                f"{self._choices}; set `n`",
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
        """Return a budget below the limit; -1 leaves it to the model, within the limit."""
        if value in (0, -1) or (_is_count(value) and value < self._limit):
            return value
        if plain != "budgettokens":
            return max(1, self._limit - 1)
        if self._limit <= _LEAST_BUDGET:
            raise RequestError(
                "invalid_request",
                f"{path[:120]}: usage limits leave {self._limit} tokens, and thinking needs "
                f"more than {_LEAST_BUDGET}; disable thinking, or try again later",
            )
        return max(_LEAST_BUDGET, self._limit // 2)


def _is_count(value: Any) -> bool:
    return type(value) is int and value > 0


def plain_name(name: str) -> str:
    """Return a name normalized across spellings, including those that Go treats as equal."""
    return name.casefold().replace("_", "").replace("-", "")
