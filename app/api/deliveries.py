"""Answers that were sent whole: a chat's name leads to its answer until a client has taken it."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from ..errors import RelayError
from ..generation.owned_streams import OwnedStreams
from .request import ClientConnection

CONFIRM_S = 5.0
"""How long a client's system may take to acknowledge the last bytes: the RTT, and losses."""

POLL_S = 0.01

SETTLE_S = 0.3
"""How long the next request of a chat waits for that: systems delay it by 40 to 200 ms."""


OnWhole = Callable[[ClientConnection | None], Awaitable[None]]
"""Called after the last byte of an answer: `Deliveries.confirm` of its stream."""


class Deliveries:
    """The answers of this process whose last bytes are on their way."""

    def __init__(self) -> None:
        self._confirming: dict[asyncio.Future[None], str] = {}

    async def confirm(
        self, stream: str, streams: OwnedStreams, connection: ClientConnection | None
    ) -> None:
        """Forget the names of a stream once its last bytes, which were sent, are taken.

        A client that lost its network took none, and comes back for them. Without a connection,
        as under another server, what was sent counts as taken.
        """
        done = asyncio.get_running_loop().create_future()
        self._confirming[done] = stream
        try:
            # Otherwise the answer can be read again.
            with suppress(ConnectionError, TimeoutError, RelayError):
                async with asyncio.timeout(CONFIRM_S):
                    while connection is not None and not connection.is_taken():  # noqa: ASYNC110
                        await asyncio.sleep(POLL_S)
                    await streams.forget_names(stream)
        finally:
            del self._confirming[done]
            done.set_result(None)

    async def settle(self, stream: str) -> bool:
        """Wait until it is known whether a client has taken the answer; False: nothing waits."""
        waiting = [done for done, name in self._confirming.items() if name == stream]
        if waiting:
            await asyncio.wait(waiting, timeout=SETTLE_S)
        return bool(waiting)
