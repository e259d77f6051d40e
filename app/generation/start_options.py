"""Options for the start of a stream, beside its request."""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from .admission import RequestMemory
from .via import RequestSource


class StartOptions(msgspec.Struct, frozen=True):
    """Options for the start of a stream, beside its request."""

    linger_s: float | None
    """Seconds after which it is cancelled once its last reader has left; None lets it run."""
    labels: Mapping[str, str] | None = None
    """Labels of its `stream.start`."""
    name: str | None = None
    """A name to find it by."""
    names_of: Sequence[Callable[[str], str]] = ()
    """Functions that make further names from the stream's id."""
    request: bytes = b""
    """The part of the request that the log keeps."""
    origin: RequestSource = RequestSource()
    client_format: str = ""
    leaves: bool = False
    """Whether the client gets the stream's location instead of reading it."""
    client_retries_s: float = 0
    """Seconds in which a failure becomes a status, after which a connected client retries by
    itself if the failure is retryable."""
    memory: RequestMemory | None = None
    """The memory of the request; the stream that it starts releases it."""
