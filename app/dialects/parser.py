"""What a relay needs of a dialect: bytes to messages, and messages to events.

Every row of the table of dialects has one class of each kind. No wire format is known here.
"""

from typing import Protocol

from app.errors import RelayError
from app.events import Event, Status
from app.framing.sse import Message


class Decoder(Protocol):
    """The framing of one body: `feed` it bytes as they come, `close` it at their end."""

    def __init__(self, *, max_line: int, max_event: int) -> None:
        """Limit what a line and an event may hold, in bytes."""

    def feed(self, data: bytes) -> list[Message]:
        """Take the next bytes; give the messages that they complete.

        Raises:
            FramingError: a limit is exceeded.
        """

    def close(self) -> Message | None:
        """Take the end of input; give the message that it left unterminated.

        Raises:
            FramingError: a limit is exceeded.
        """


class Parser(Protocol):
    """One answer: `feed` it messages, then `close`, `cut` or `stop` it.

    Every call returns the events that it completes, and none raises.
    """

    upstream_id: str | None
    """The provider's name for the answer, once it is known."""
    model: str | None
    """The model that answers, by the provider's word, once it is known."""

    def __init__(self, *, upstream: str, choices: int = 1) -> None:
        """Name the upstream for errors, and say how many answers were asked for."""

    @property
    def ended(self) -> bool:
        """Whether `stream.end` was returned; nothing else comes then."""

    @property
    def finished(self) -> bool:
        """Whether nothing but an end marker is missing."""

    def feed(self, message: Message) -> list[Event]:
        """Take the next message."""

    def close(self, tail: Message | None) -> list[Event]:
        """Take the end of input, and the message that it left unterminated."""

    def cut(self, error: RelayError) -> list[Event]:
        """Take the loss of the connection: too late to matter if `finished`, else a failure."""

    def stop(self, status: Status, error: RelayError | None = None) -> list[Event]:
        """End now, whatever was seen: cancelled, interrupted, or failed with `error`."""
