"""Posts in the memory of a process that has its log alone; see `contract.Posts`."""

import time
from collections.abc import Callable

from ..errors import ServiceError
from .contract import MAX_POST_BYTES, MAX_POSTS


def check_post(text: bytes) -> None:
    """Refuse a post that is too long.

    Raises:
        ServiceError: `overloaded`.
    """
    if len(text) > MAX_POST_BYTES:
        raise ServiceError(
            "overloaded", f"a post of {len(text)} bytes is longer than {MAX_POST_BYTES}"
        )


def too_many() -> ServiceError:
    """Return what is said where a place has no room for one more."""
    return ServiceError(
        "overloaded", f"there are {MAX_POSTS} posts, as many as there may be", retry_after_s=5
    )


class MemoryPosts:
    """The posts of all places."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._places: dict[str, dict[str, tuple[float, bytes]]] = {}

    def post(self, place: str, name: str, text: bytes, *, for_s: float) -> None:
        """Do what `Posts.post` does."""
        check_post(text)
        now = self._clock()
        held = {n: post for n, post in self._places.get(place, {}).items() if post[0] > now}
        if for_s <= 0:
            held.pop(name, None)
        elif name not in held and len(held) >= MAX_POSTS:
            raise too_many()
        else:
            held[name] = now + for_s, text
        self._places[place] = held

    def read(self, place: str) -> dict[str, bytes]:
        """Return those of a place that hold."""
        now = self._clock()
        held = self._places.get(place, {})
        return {name: text for name, (until, text) in held.items() if until > now}
