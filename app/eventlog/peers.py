"""Messages between the processes that share a log: about streams, and short-lived named ones."""

import math
from collections.abc import Callable
from typing import Literal, Protocol

from ..errors import ServiceError
from ..events import Stopper

OnStop = Callable[[str, Stopper], None]
"""Receives a stream to stop, and who stops it."""


def ignore_stop(stream: str, by: Stopper) -> None:
    """Receive a stream that nothing here produces."""


class Peers(Protocol):
    """Messages about streams to the other processes."""

    async def ask_stop(self, stream: str, by: Stopper = "user") -> None:
        """Ask the process that produces a stream to stop it; returns before it has stopped.

        That process receives it by the `on_stop` of `EventLog.open`.
        """

    def readers_here(self, stream: str) -> None:
        """Report that a stream of another process has readers here, until `readers_gone`."""

    def readers_gone(self, stream: str) -> None:
        """Report that a stream of another process has no readers here any more."""

    async def reader_lease_s(self, stream: str) -> float:
        """Return for how many more seconds other processes are sure to have readers of a stream.

        Negative: for how long they have had none.
        """

    def release_remote_readers(self) -> None:
        """Wake all readers here of other processes' streams: this process shuts down."""


class NoPeers:
    """The `Peers` of a log of one process."""

    async def ask_stop(self, stream: str, by: Stopper = "user") -> None:
        pass

    def readers_here(self, stream: str) -> None:
        pass

    def readers_gone(self, stream: str) -> None:
        pass

    async def reader_lease_s(self, stream: str) -> float:
        return -math.inf

    def release_remote_readers(self) -> None:
        pass


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
