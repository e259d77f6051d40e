"""A TCP proxy that cuts connections: after so many bytes, with FIN, with RST, or by freezing."""

import asyncio
import contextlib
import random
import socket
import struct
from collections.abc import AsyncIterator, Callable
from typing import Literal

How = Literal["fin", "rst", "freeze", "none"]


class CuttingProxy:
    """Forwards to `port`; `plan` says for each connection after how many bytes it is cut.

    A connection that has carried `mercy` is cut no more.
    """

    mercy: bytes | None = None
    delay_s = 0.0
    """The seconds from the last byte to the cut: at once, a browser's `fetch` drops bytes that the
    page has not read, so that no connection brings it further."""

    def __init__(self, port: int, plan: Callable[[], tuple[int, How]]) -> None:
        self._target = port
        self._plan = plan
        self.port = 0
        self.cuts = 0
        self._tasks: set[asyncio.Task] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if task := asyncio.current_task():
            self._keep(task)
        try:
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except BaseException:
            writer.transport.abort()
            raise
        upward = asyncio.create_task(_forward(reader, up_writer))
        self._keep(upward)
        left, how = self._plan()
        tail = b""
        try:
            while data := await up_reader.read(4096):
                # What would come after the cut is not carried, however much is read at once.
                if self.mercy is not None and self.mercy in tail + data[: max(0, left)]:
                    how = "none"
                tail = (tail + data)[-100:]
                writer.write(data if how == "none" else data[:left])
                await writer.drain()
                left -= len(data)
                if left <= 0 and how != "none":
                    self.cuts += 1
                    await asyncio.sleep(self.delay_s)
                    await self._cut(writer, how)
                    return
        except ConnectionError:
            pass
        finally:
            upward.cancel()
            up_writer.transport.abort()
            writer.close()

    def _keep(self, task: asyncio.Task) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """End all connections."""
        left = [*self._tasks]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _cut(self, writer: asyncio.StreamWriter, how: How) -> None:
        match how:
            case "rst":
                linger = struct.pack("ii", 1, 0)
                raw = writer.get_extra_info("socket")
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                writer.transport.abort()
            case "freeze":
                await asyncio.sleep(0.3)
                writer.transport.abort()
            case _:
                writer.close()


async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.write_eof()


def randomly(
    seed: int, *, least: int = 1, most: int, hows: tuple[How, ...] = ("fin", "rst")
) -> Callable[[], tuple[int, How]]:
    """A plan that cuts every connection somewhere in its first bytes."""
    dice = random.Random(seed)
    return lambda: (dice.randrange(least, most), dice.choice(hows))


@contextlib.asynccontextmanager
async def cutting_proxy(
    port: int, plan: Callable[[], tuple[int, How]]
) -> AsyncIterator[CuttingProxy]:
    """Run the proxy on a free port."""
    proxy = CuttingProxy(port, plan)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        await proxy.close()
