"""Extras: Chat Completions fields that the chat request lacks, in other dialects.

Providers have added them, and clients send them to any provider: each dialect maps those with an
equivalent. Thinking becomes a reasoning effort for all others.
"""

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any, Final

from ...errors import RequestError

BUDGETS: Final = ((4096, "low"), (16_384, "medium"))
"""The efforts for budgets below these token counts; any other is "high"."""

CHANGE_ANSWER: Final = (
    "modalities",
    "audio",
    "web_search_options",
    "structured_outputs",
    "guided_*",
    "grammar",
    "json_schema",
)
"""The fields without which the request would have a different answer."""


MAX_EXTRAS: Final = 100


def check_extras(extras: Mapping[str, Any]) -> None:
    """Bound the number of unknown fields.

    Raises:
        RequestError: `invalid_request`, there are too many.
    """
    if len(extras) > MAX_EXTRAS:
        what = f"{len(extras)} unknown fields; send at most {MAX_EXTRAS}"
        raise RequestError("invalid_request", what)


def changes_answer(name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in CHANGE_ANSWER)


def render_at(paths: Mapping[str, str]) -> Callable[..., dict[str, Any] | None]:
    """Return a function that renders extras at these paths, with steps separated by dots."""
    steps = {name: tuple(path.split(".")) for name, path in paths.items()}

    def render(name: str, value: Any, *, quirks: Any) -> dict[str, Any] | None:
        if name not in steps:
            return None
        for step in reversed(steps[name]):
            value = {step: value}
        return value  # type: ignore[no-any-return]  # there is a step

    return render


def is_claudes(thinking: Any) -> bool:
    """Return whether `thinking` is in Claude's form; others have no budget in it."""
    match thinking:
        case {"type": "disabled" | "adaptive"} | {"budget_tokens": int()}:
            return True
        case _:
            return False


def find_effort(name: str, value: Any, *, words_only: bool) -> str | None:
    """Return the effort of an extra; with `words_only`, only if it names one."""
    match name, value:
        case "reasoning", {"effort": str(effort)}:
            return effort
        case _ if words_only:
            return None
        case "reasoning" | "thinking", {"max_tokens": int(budget)} | {"budget_tokens": int(budget)}:
            return _effort_of(budget)
        case "reasoning", {"enabled": bool(on)}:
            return _switch(on)
        case "thinking", {"type": "enabled" | "adaptive" | "disabled" as word}:
            return _switch(word != "disabled")
        case "enable_thinking" | "think", bool(on):
            return _switch(on)
        case "think", str(effort):
            return effort
        case "thinking_budget", int(budget):
            return _effort_of(budget)
        case "chat_template_kwargs", {"enable_thinking": bool(on)} | {"thinking": bool(on)}:
            return _switch(on)
        case _:
            return None


def _switch(on: bool) -> str:
    return "medium" if on else "none"


def _effort_of(budget: int) -> str:
    if budget <= 0:
        return "none" if budget == 0 else "medium"
    return next((word for below, word in BUDGETS if budget < below), "high")
