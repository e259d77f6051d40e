"""Messages about streams between the processes that share a log."""

import math
from collections.abc import Callable
from typing import Protocol

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
