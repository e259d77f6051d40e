"""The end of a stream in clients' formats: the error of an incomplete answer, and the cost."""

from typing import Any, Final

from ...errors import RelayError, ServiceError
from ...events import StreamEnd

_CUTS: Final = ("upstream_truncated", "producer_lost")

_CUT: Final = "connection lost"
"""Coding agents (pi and similar) recognize a truncated answer by these words, and retry."""


def error_of_end(end: StreamEnd) -> RelayError | None:
    """Return the error of an answer that did not complete; None if it did."""
    if end.status == "completed":
        return None
    if end.error is not None:
        error = RelayError.of(end.error)
    else:
        code = "cancelled" if end.status == "cancelled" else "producer_lost"
        error = ServiceError(code, f"the answer was {end.status} before its end")
    if error.code in _CUTS:
        error.message = f"{_CUT}: {error.message}"
    return error


def render_cost(end: StreamEnd) -> dict[str, Any]:
    """Return the fields beside the counts in the usage of OpenAI's and Anthropic's formats.

    `cost` is for the whole stream in USD, a number like OpenRouter's `usage.cost`;
    `estimated` says that the counts are not the provider's.
    """
    fields: dict[str, Any] = {}
    if end.cost is not None:
        fields["cost"] = float(end.cost)
    if end.usage is not None and end.usage.estimated:
        fields["estimated"] = True
    return fields
