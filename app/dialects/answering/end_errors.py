"""The error of an incomplete answer, for dialects that end one with an error."""

from typing import Final

from ...errors import RelayError, ServiceError
from ...events import StreamEnd

_CUTS: Final = ("upstream_truncated", "producer_lost")

_CUT: Final = "connection lost"
"""Coding agents (pi and its kin) recognize a cut answer by these words, and retry."""


def error_of_end(end: StreamEnd) -> RelayError | None:
    """Return the error of an answer that did not complete; None if it did."""
    if end.status == "completed":
        return None
    if end.error is not None:
        error = RelayError.of(end.error)
    else:
        code = "cancelled" if end.status == "cancelled" else "producer_lost"
        error = ServiceError(code, f"the answer was not completed: it was {end.status}")
    if error.code in _CUTS:
        error.message = f"{_CUT}: {error.message}"
    return error
