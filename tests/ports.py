"""Ports for servers that the tests start as processes of their own, and whether they answer."""

import contextlib
import fcntl
import os
import random
import socket
import tempfile
from functools import cache
from pathlib import Path

import httpx2

FIRST, END = 12_000, 32_000


def free_port() -> int:
    """Find a port for a server that binds it later, or again.

    It is none of those that the system gives to clients (32768 and above): while the server is
    away one of them could be given it, even one that looks whether the server is there, which is
    then connected to itself. Nor is it one that was found before, here or by tests that run
    beside these: the byte of its number is locked for as long as this process lives.
    """
    dice = random.SystemRandom()
    claims, found = _claims()
    while True:
        port = dice.randrange(FIRST, END)
        if port in found:
            continue
        with socket.socket() as probe, contextlib.suppress(OSError):
            fcntl.lockf(claims, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
            found.add(port)
            probe.bind(("127.0.0.1", port))
            return port


@cache
def _claims() -> tuple[int, set[int]]:
    """Open the file of locks, one for all tests of a user; with what this process has found."""
    path = Path(tempfile.gettempdir(), f"seseragi-ports-{os.getuid()}")
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600), set()


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
