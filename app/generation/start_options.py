"""Options for the start of a stream, beside its request."""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from ..policies.admission import RequestMemory
from .via import RequestSource


class StartOptions(msgspec.Struct, frozen=True):
    """Options for the start of a stream, beside its request."""

    linger_s: float | None
    """Seconds from its last reader's leaving to its cancellation; None lets it run to its end."""
    labels: Mapping[str, str] | None = None
    """The labels of its `stream.start`."""
    metadata: Mapping[str, str] | None = None
    """What lists of streams show of the request."""
    name: str | None = None
    """A name to find it by."""
    names_of: Sequence[Callable[[str], str]] = ()
    """Functions that make further names from the stream's id."""
    request: bytes = b""
    """The part of the request that the log stores."""
    origin: RequestSource = RequestSource()
    client_format: str = ""
    headers: Mapping[str, str] = {}
    """The client's headers for a provider of that format."""
    leaves: bool = False
    """Whether the client receives the stream's location instead of reading it."""
    client_retries_s: float = 0
    """Seconds in which a failure becomes an HTTP status, which a connected client retries by itself
    if it is retryable."""
    memory: RequestMemory | None = None
    """The memory of the request, which the started stream releases."""
