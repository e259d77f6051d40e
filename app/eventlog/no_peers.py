"""A log that one process has alone: there is nobody to hear, and nobody who says anything."""

import math
from collections.abc import Callable


class NoPeers:
    """The part `Peers` of such a log."""

    def on_stop(self, stop: Callable[[str], None]) -> None:
        pass

    async def ask_stop(self, stream: str) -> None:
        pass

    def readers_here(self, stream: str) -> None:
        pass

    def readers_gone(self, stream: str) -> None:
        pass

    async def reader_lease_s(self, stream: str) -> float:
        return -math.inf

    def release_remote_readers(self) -> None:
        pass
