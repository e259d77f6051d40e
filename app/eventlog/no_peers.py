"""A log that one process has alone: there is nobody to hear, and nobody who says anything."""

import math
from functools import cached_property

from ..events import Stopper
from .contract import OnStop, Place
from .posts import MemoryPosts


class NoPeers:
    """The parts `Peers` and `Posts` of such a log."""

    @cached_property
    def _posts(self) -> MemoryPosts:
        return MemoryPosts()

    def has_peers(self) -> bool:
        return False

    async def post(self, place: Place, name: str, text: bytes, *, for_s: float) -> None:
        self._posts.post(place, name, text, for_s=for_s)

    async def posts(self, place: Place) -> dict[str, bytes]:
        return self._posts.read(place)

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
