"""Short-lived named messages between the processes that share a log."""

from typing import Literal, Protocol

from ..errors import ServiceError

MAX_MESSAGES = 500
MAX_MESSAGE_BYTES = 512 * 1024
MAX_READ_BYTES = 64 * 2**20
"""Limit of one `messages` call."""

Channel = Literal["commands", "snapshots"]


class Broadcast(Protocol):
    """Messages that expire, at most one per channel and name.

    A channel holds up to `MAX_MESSAGES` of up to `MAX_MESSAGE_BYTES`. They do not survive the
    loss of the log's storage. A log of one process has no broadcast.
    """

    async def publish(self, channel: Channel, name: str, message: bytes, *, for_s: float) -> None:
        """Publish a message for some seconds, replacing that of the same name; 0 removes it.

        Raises:
            ServiceError: `overloaded`, the channel is full or the message too long.
        """

    async def messages(self, channel: Channel) -> dict[str, bytes]:
        """Return the messages of a channel by name, up to `MAX_READ_BYTES` in all."""


def check_message(message: bytes) -> None:
    """Refuse a message that is too long.

    Raises:
        ServiceError: `overloaded`.
    """
    if len(message) > MAX_MESSAGE_BYTES:
        raise ServiceError(
            "overloaded", f"a message of {len(message)} bytes is longer than {MAX_MESSAGE_BYTES}"
        )


def channel_full() -> ServiceError:
    """Return the error for a channel without room for another name."""
    return ServiceError(
        "overloaded", f"the channel is full: it has {MAX_MESSAGES} messages", retry_after_s=5
    )
