"""Short-lived messages between the processes that share a log.

A log of one process has none: there is nobody to send them to.
"""

from typing import Literal, Protocol

from ..errors import ServiceError

MAX_POSTS = 500
MAX_POST_BYTES = 512 * 1024
MAX_POSTS_BYTES = 64 * 2**20
"""How much is read of a place at once."""

Place = Literal["commands", "snapshots"]


class Broadcast(Protocol):
    """What processes that share a log show each other for a while: each post under a name.

    In a place there are at most `MAX_POSTS`, and each has at most `MAX_POST_BYTES`. They say
    nothing of streams, and are not kept when the place of the log is lost.
    """

    async def post(self, place: Place, name: str, text: bytes, *, for_s: float) -> None:
        """Leave a post for so many seconds, in the place of one of its name; 0 removes that.

        Raises:
            ServiceError: `overloaded`, there are too many, or it is too long.
        """

    async def posts(self, place: Place) -> dict[str, bytes]:
        """Return the posts of a place by their names, some of them if they are very long."""


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
