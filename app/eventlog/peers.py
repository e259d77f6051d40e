"""Messages about streams between the processes that share a log."""

import math
from collections.abc import Callable
from typing import Protocol

from ..events import Stopper

OnStop = Callable[[str, Stopper], None]
"""Is told of a stream that is to stop, and who has asked for it."""


class Peers(Protocol):
    """What processes that share a log tell each other by it."""

    def on_stop(self, stop: OnStop) -> None:
        """Have this told of every stream that is to be produced here no more, and by whom.

        Somebody asked for its end in another process, or has ended or removed it there.
        """

    async def ask_stop(self, stream: str, by: Stopper = "user") -> None:
        """Have a running stream stopped by the process that produces it, which takes a moment."""

    def readers_here(self, stream: str) -> None:
        """Say that a stream of another process has readers here, until `readers_gone`."""

    def readers_gone(self, stream: str) -> None:
        """Say that a stream of another process has no readers here any more."""

    async def reader_lease_s(self, stream: str) -> float:
        """Return for how many seconds yet a stream is sure to have readers in other processes.

        Below zero: for how long it has had none.
        """

    def release_remote_readers(self) -> None:
        """Let no reader here wait any longer for streams of other processes: this one stops."""


class NoPeers:
    """The `Peers` of a log that one process has alone."""

    def on_stop(self, stop: OnStop) -> None:
        pass

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
