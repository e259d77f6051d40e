"""The errors of a log."""

from ..errors import RequestError, ServiceError


class LogUnusable(Exception):
    """The place of the log cannot be used; the text is one line that says what to do."""


class StreamExpired(RequestError):
    """The stream was there, and has been removed."""

    def __init__(self, message: str, *, owner: str) -> None:
        super().__init__("stream_expired", message)
        self.owner = owner
        """Whose it was, as far as that is remembered."""


class StreamTooLong(ServiceError):
    """The stream has as much as the log takes of one; its end can still be appended."""

    def __init__(self, limit: str) -> None:
        super().__init__("overloaded", f"the answer is longer than the limit of {limit}")


def full() -> ServiceError:
    """What a new stream is refused with when the running ones take all the room."""
    return ServiceError(
        "overloaded",
        "the event log is full of running streams; try again shortly",
        retry_after_s=5,
    )


def unknown(stream: str) -> RequestError:
    """What a stream is answered with that there never was."""
    # No id is as long; a client may have the query of its URL in it, with a token.
    return RequestError("not_found", f"there is no stream {stream[:40]!r}")


def expired(stream: str, retention_s: float, *, owner: str) -> StreamExpired:
    """What a stream is answered with that has been removed."""
    return StreamExpired(
        f"stream {stream} is gone: it was deleted, or made room, or its {retention_s:g} s are over",
        owner=owner,
    )
