"""Claude's restrictions on sampling, prefill and thinking, on any platform.

With thinking, `temperature` must be 1 and `top_p` at least 0.95, and up to Claude 4.7 no tool
choice may force a call.
"""

import re
from collections.abc import Sequence
from itertools import chain, takewhile
from typing import Any, Final

import msgspec

from ...requests import (
    ChatRequest,
    Message,
    OpaquePart,
    ReasoningPart,
    ToolChoice,
    ToolMessage,
    UserMessage,
)
from ..reasoning_signatures import CLAUDE_REDACTED, CLAUDE_THINKING

_VERSION: Final = re.compile(r"claude-(?:[a-z]+-)?([0-9])(?:[-.]([0-9]{1,2}))?(?![0-9])")
"""Matches "claude-3-7-sonnet-20250219", "claude-haiku-4-5@20251001", "claude-opus-5"."""

_LOWEST_TOP_P: Final = 0.95

_ONE_OF_BOTH: Final = (4, 1)
"""The first version that refuses `temperature` and `top_p` together."""

_NEITHER: Final = (4, 7)
"""The first version that refuses each of them: there is a quirk for those."""

_NO_PREFILL: Final = (4, 6)
"""The first version that refuses a last turn of the assistant."""


def find_version(model: str) -> tuple[int, int] | None:
    """Return the version in a model's name, such as (4, 5)."""
    found = _VERSION.search(model)
    return None if found is None else (int(found[1]), int(found[2] or 0))


def is_thinking(config: object) -> bool:
    """Return whether the `thinking` of a request enables it."""
    return isinstance(config, dict) and config.get("type") in ("enabled", "adaptive")


def takes_prefill(model: str, *, thinks: bool) -> bool:
    """Return whether a model continues its own last turn: up to 4.5, without thinking."""
    version = find_version(model)
    return not thinks and version is not None and version < _NO_PREFILL


def choose_sampling(request: ChatRequest, *, model: str) -> tuple[ChatRequest, list[str]]:
    """Return a request with one of `temperature` and `top_p`, if the model allows only one.

    The one that is 1, the default of both, is dropped; `top_p` if neither is.
    """
    version = find_version(model)
    if version is None or not _ONE_OF_BOTH <= version < _NEITHER:
        return request, []
    if request.temperature is None or request.top_p is None:
        return request, []
    field = "top_p" if request.top_p == 1 or min(request.temperature, 1) != 1 else "temperature"
    fields: dict[str, Any] = {field: None}
    change = f"allows only one of temperature and top_p for this model: dropped {field}"
    return msgspec.structs.replace(request, **fields), [change]


def begins_with_call(messages: Sequence[Message]) -> bool:
    """Return whether the results of a turn with tool calls are last, and it has no thinking.

    `Expected thinking or redacted_thinking, but found tool_use` (400 of models that think with a
    budget, Kilo-Org/kilocode#5219, 2026-01-20).
    """
    turn = takewhile(lambda one: not isinstance(one, UserMessage), reversed(messages))
    lists = [one.content for one in turn if isinstance(one.content, list)]
    signed = any(
        part.format in (None, CLAUDE_THINKING, CLAUDE_REDACTED) and getattr(part, "signature", True)
        for part in chain.from_iterable(lists)
        if isinstance(part, ReasoningPart | OpaquePart)
    )
    return bool(messages) and isinstance(messages[-1], ToolMessage) and not signed


def leave_out_refused(
    request: ChatRequest, *, model: str, budgeted: bool
) -> tuple[ChatRequest, list[str]]:
    """Return a request for an answer with thinking, without fields that Claude refuses then.

    The second value lists the changes, each as the end of a sentence about the upstream.
    """
    fields: dict[str, Any] = {}
    changes: list[str] = []
    if request.temperature is not None and min(request.temperature, 1) != 1:
        fields["temperature"] = None
        changes.append("requires temperature 1 for a model that thinks: dropped")
    if request.top_p is not None and request.top_p < _LOWEST_TOP_P:
        fields["top_p"] = None
        changes.append(
            f"does not allow top_p below {_LOWEST_TOP_P} for a model that thinks: dropped"
        )
    version = find_version(model)
    forced = request.tool_choice == "required" or isinstance(request.tool_choice, ToolChoice)
    if forced and (budgeted or (version is not None and version < (4, 8))):
        fields["tool_choice"] = "auto"
        changes.append("does not allow a forced tool_choice for a model that thinks: sent 'auto'")
    return (msgspec.structs.replace(request, **fields) if fields else request), changes
