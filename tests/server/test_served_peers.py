"""How many connections there may be, from one address and from all."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from tests.hostile import HEALTH, read_all, statuses
from tests.serving import Relay, serve_relay
from tests.waiting import until

Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@contextlib.asynccontextmanager
async def opened(relay: Relay, count: int, address: str = "127.0.0.1") -> AsyncIterator[None]:
    """Have idle connections from an address."""
    before = len(relay.server.server_state.connections)
    clients = [
        await asyncio.open_connection("127.0.0.1", relay.port, local_addr=(address, 0))
        for _ in range(count)
    ]
    await until_open(relay, before + count)
    try:
        yield
    finally:
        for _, writer in clients:
            writer.close()
        await until_open(relay, before)


async def until_open(relay: Relay, count: int) -> None:
    """Wait until the relay has so many connections."""
    await until(lambda: count == len(relay.server.server_state.connections))


async def ask(relay: Relay, address: str = "127.0.0.1") -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", relay.port, local_addr=(address, 0))
    with contextlib.suppress(ConnectionError):
        writer.write(HEALTH + b"connection: close\r\n\r\n")
    try:
        return await asyncio.wait_for(read_all(reader), 20)
    finally:
        writer.close()


async def test_one_address_of_this_machine_has_half_of_all_places():
    async with serve_relay(max_connections=10) as relay:
        async with opened(relay, 5):
            refused, other = await ask(relay), await ask(relay, "127.0.0.2")
        again = await ask(relay)

    assert [429] == statuses(refused)
    assert b"connection: close\r\n" in refused
    assert b"retry-after: 2\r\n" in refused
    assert b"'127.0.0.1' has 5 open connections" in refused
    assert [200] == statuses(other) == statuses(again)


async def test_all_addresses_together_have_a_limit():
    async with serve_relay(max_connections=10) as relay:
        async with opened(relay, 5), opened(relay, 5, "127.0.0.2"):
            refused = await ask(relay, "127.0.0.3")
            assert 11 > len(relay.server.server_state.connections)
        again = await ask(relay, "127.0.0.3")

    assert [503] == statuses(refused)
    assert b'"code":"overloaded"' in refused
    assert [200] == statuses(again)


async def test_thousand_connections_of_this_machine_are_no_attack():
    async with serve_relay() as relay, opened(relay, 1200):
        assert [200] == statuses(await ask(relay))
