"""Why an answer is not a whole one, for dialects that say it with an error."""

from ...errors import RelayError, ServiceError
from ...events import StreamEnd


def error_of_end(end: StreamEnd) -> RelayError | None:
    """Return why an answer did not complete; None if it did."""
    if end.status == "completed":
        return None
    if end.error is not None:
        return RelayError.of(end.error)
    code = "cancelled" if end.status == "cancelled" else "producer_lost"
    return ServiceError(code, f"the answer was not completed: it was {end.status}")
