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
    """What its `stream.start` is to say."""
    name: str | None = None
    """What it is found by."""
    names_of: Sequence[Callable[[str], str]] = ()
    """The same, where it is made of the stream's id."""
    request: bytes = b""
    """What it keeps of the request."""
    origin: RequestSource = RequestSource()
    client_format: str = ""
    leaves: bool = False
    """Whether the client is told where the stream is, instead of reading it."""
    asks_again_s: float = 0
    """For how many seconds a failure is told by a status, at which the client, if it is still
    connected, asks again by itself if it may pass."""
    memory: RequestMemory | None = None
    """What is taken for the request; the stream that it starts keeps and releases it."""
