"""A small HTTP/1.1 client on asyncio's streams: one request, whose body may be cut anywhere."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final


class Cut(Exception):
    """The connection ended before the answer."""


class Silent(Cut):
    """Nothing came for so long that the connection must be dead: a relay sends heartbeats."""


SILENCE_S: Final = 9.0
"""Longer than the 5 s between two heartbeats."""

WHOLE_S: Final = 150.0
"""The most time for an answer without heartbeats: above all deadlines of the relay together."""

SMALL: Final = 64
"""The bytes that a slow client takes ahead."""
SLOW_PIECES: Final = 12


class Answer:
    """The head of an answer, and its body as it arrives."""

    def __init__(
        self,
        status: int,
        headers: Mapping[str, str],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.status, self.headers = status, headers
        self.takes_s = 0.0
        """How long it works on each of its first pieces; meanwhile little more is taken."""
        self._reader, self._writer = reader, writer

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """Yield pieces of the body.

        Raises:
            Cut: it is incomplete.
        """
        length = self.headers.get("content-length")
        if self.status == 204:
            return
        try:
            if length is not None:
                yield await asyncio.wait_for(self._reader.readexactly(int(length)), WHOLE_S)
                return
            count = 0
            if self.takes_s:
                reader: Any = self._reader
                reader._limit = SMALL
            while piece := await asyncio.wait_for(self._read_chunk(), SILENCE_S):
                yield piece
                count += 1
                if self.takes_s and count < SLOW_PIECES:
                    await asyncio.sleep(self.takes_s)
        except TimeoutError:
            raise Silent from None
        except (OSError, ValueError, asyncio.IncompleteReadError) as error:
            raise Cut from error

    async def _read_chunk(self) -> bytes:
        size = int(await self._reader.readline(), 16)
        return (await self._reader.readexactly(size + 2))[:-2]

    async def read(self) -> bytes:
        return b"".join([piece async for piece in self.pieces()])

    def leave(self, *, silently: bool = False) -> None:
        """Close the connection; silently: the client's network is gone, and nobody is told."""
        transport: Any = self._writer.transport
        if silently:
            transport.silent = transport.other.silent = True
        self._writer.close()


async def ask(
    address: tuple[str, int],
    method: str,
    path: str,
    *,
    body: Any = None,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """Send a request on a new connection, and return the head of its answer.

    Raises:
        Cut: there was none.
    """
    content = b"" if body is None else json.dumps(body).encode()
    fields = {"host": "localhost", "content-length": str(len(content)), **(headers or {})}
    if content:
        fields["content-type"] = "application/json"
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    try:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + content)
        raw = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), WHOLE_S)
        first, *lines = raw.decode().split("\r\n")
    except TimeoutError:
        raise Silent from None
    except (OSError, asyncio.IncompleteReadError) as error:
        raise Cut from error
    parts = [line.partition(": ") for line in lines if line]
    found = {name.lower(): value for name, _, value in parts}
    return Answer(int(first.split(" ")[1]), found, reader, writer)
