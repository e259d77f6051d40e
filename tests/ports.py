"""Ports for servers that the tests start as processes of their own, and whether they answer."""

import contextlib
import os
import random
import socket
from collections import deque

import httpx2

WORKERS, PORTS_EACH = 10, 2_000
_found: deque[int] = deque(maxlen=PORTS_EACH // 2)
"""Those that were found last: who asked for one may not have bound it yet."""


def free_port() -> int:
    """Find a port for a server that binds it later, or again.

    It is none of those that the system gives to clients (32768 and above): while the server is
    away one of them could be given it, even one that looks whether the server is there, which is
    then connected to itself. Nor is it one that tests of another worker would find, or that was
    found here before and may not be bound yet.
    """
    dice = random.SystemRandom()
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % WORKERS
    first = 12_000 + worker * PORTS_EACH
    while True:
        port = dice.randrange(first, first + PORTS_EACH)
        if port in _found:
            continue
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            _found.append(port)
            return port


async def answers(port: int, host: str = "127.0.0.1") -> bool:
    """Ask whether a server answers HTTP there, whatever it says.

    A connection proves less: Vite listens for a moment on each address with a server that takes
    connections and answers none, to see whether the port is free, and then on the one it serves.
    """
    async with httpx2.AsyncClient(trust_env=False, timeout=2) as client:
        try:
            await client.get(f"http://{host}:{port}/")
        except httpx2.TransportError:
            return False
    return True
