"""The errors of a log."""

from ..errors import RequestError, ServiceError


class LogUnusable(Exception):
    """The log's storage cannot be used; the message is one line with the remedy."""


class StreamExpired(RequestError):
    """The stream existed and has been removed."""

    def __init__(self, message: str, *, owner: str) -> None:
        super().__init__("stream_expired", message)
        self.owner = owner
        """Its owner, if still known."""


class StreamTooLong(ServiceError):
    """The stream has reached its maximum length; its end can still be appended."""

    def __init__(self, limit: str) -> None:
        super().__init__("overloaded", f"the answer is longer than the limit of {limit}")


def full() -> ServiceError:
    """Return the error for a new stream when running ones take all the room."""
    return ServiceError(
        "overloaded",
        "the event log is full of running streams; try again shortly",
        retry_after_s=5,
    )


def unknown(stream: str) -> RequestError:
    """Return the error for an unknown stream."""
    # Longer than any id: a client may have put the URL's query in it, with a token.
    return RequestError("not_found", f"there is no stream {stream[:40]!r}")


def expired(stream: str, retention_s: float, *, owner: str) -> StreamExpired:
    """Return the error for a removed stream."""
    return StreamExpired(
        f"stream {stream} is gone: it was deleted, or made room, or its {retention_s:g} s are over",
        owner=owner,
    )
