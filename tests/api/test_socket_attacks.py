"""Hostile and honest WebSocket clients beside other clients, with a small memory for requests."""

import asyncio
import contextlib
import json
import struct
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
import websockets
from websockets.exceptions import ConnectionClosed, InvalidStatus

from app.api import responses_socket
from app.identity.principal import Principal
from app.ledger.config import UsageLimits
from app.policies import admission
from app.server import socket_protocol
from app.testing.upstream import DONE, FINISH, Hold, Step, answer, head, send, text, wait
from tests.identities import bearer, known
from tests.serving import Relay, serve_relay, serve_script
from tests.waiting import until

from .test_responses_socket import ask, connect, read

MEMORY = 4 * 2**20
LARGEST = 2**18
PIECE = "x" * 62_500
MALLORY, ALICE = bearer("mallory"), bearer("alice")


def principals() -> Any:
    return known(mallory=Principal(key="mallory"), alice=Principal(key="alice"))


@contextlib.asynccontextmanager
async def serve(**settings: Any) -> AsyncIterator[Relay]:
    bounds = {"max_request_memory_bytes": MEMORY, "max_request_bytes": LARGEST, "demo_pace": 0}
    async with serve_relay(**{"authenticator": principals(), **bounds, **settings}) as relay:
        yield relay


@contextlib.asynccontextmanager
async def connect_some(
    relay: Relay, most: int, *, headers: Mapping[str, str] | None
) -> AsyncIterator[list[websockets.ClientConnection]]:
    async with contextlib.AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(connect(relay, additional_headers=headers))
            for _ in range(most)
        ]


async def warm_up(connection: websockets.ClientConnection, **fields: Any) -> dict[str, Any]:
    await ask(connection, generate=False, **fields)
    return (await read(connection))[-1]


async def check_served(relay: Relay, headers: Mapping[str, str] | None) -> None:
    """Check that another client's requests succeed."""
    for size in (3_000, 100_000):
        body = {"model": "demo", "input": "y" * size}
        reply = await relay.client.post("/v1/responses", json=body, headers=headers)
        assert 200 == reply.status_code, reply.text


@pytest.mark.parametrize(
    ("mallory", "alice"),
    [
        (MALLORY, ALICE),
        (MALLORY | {"x-forwarded-for": "203.0.113.9"}, ALICE),
        ({"x-forwarded-for": "203.0.113.9"}, None),
        (None, None),
    ],
)
async def test_warm_ups_take_no_memory_of_others(mallory, alice):
    identifies = mallory and "authorization" in mallory
    async with (
        serve(authenticator=principals() if identifies else None) as relay,
        connect_some(relay, 9, headers=mallory) as connections,
    ):
        for connection in connections:
            for lane in range(8):
                await warm_up(connection, input=PIECE, stream_id=str(lane))
        assert relay.hub.admission.bytes > MEMORY // 5  # the attack is one
        await check_served(relay, alice)
    await until(lambda: relay.hub.admission.bytes == 0)


async def test_one_key_has_a_quarter_whatever_its_addresses():
    async with serve() as relay, contextlib.AsyncExitStack() as stack:
        for number in range(9):
            headers = MALLORY | {"x-forwarded-for": f"203.0.113.{number}"}
            connection = await stack.enter_async_context(connect(relay, additional_headers=headers))
            for lane in range(8):
                await warm_up(connection, input=PIECE, stream_id=str(lane))
        assert relay.hub.admission.bytes <= MEMORY // 4
        await check_served(relay, ALICE)


def half_message(size: int) -> bytes:
    """The beginning of a large text message."""
    return b"\x81\xff" + struct.pack(">Q", 250_000) + bytes(4) + b" " * size


async def test_half_sent_messages_take_no_memory_of_others():
    async with serve() as relay, connect_some(relay, 9, headers=MALLORY) as connections:
        for connection in connections:
            connection.transport.write(half_message(100_000))
        await until(lambda: relay.hub.admission.bytes > MEMORY // 5)
        await check_served(relay, ALICE)
        for connection in connections:
            connection.transport.write(b" " * 125_000)
        await until(lambda: any(connection.close_code for connection in connections))
        assert relay.hub.admission.bytes <= MEMORY // 4
        await check_served(relay, ALICE)
        for connection in connections:
            connection.transport.abort()
    await until(lambda: relay.hub.admission.bytes == 0)


async def test_half_sent_message_has_a_deadline(monkeypatch):
    monkeypatch.setattr(socket_protocol, "MESSAGE_S", 0.02)
    async with serve() as relay, connect(relay, additional_headers=MALLORY) as connection:
        connection.transport.write(half_message(100_000))
        await until(lambda: relay.hub.admission.bytes > 0)
        await asyncio.sleep(0.05)
        connection.transport.write(b" " * 100)
        with pytest.raises(ConnectionClosed) as closed:
            async with asyncio.timeout(5):
                await connection.recv()
        assert closed.value.rcvd is not None
        assert 1008 == closed.value.rcvd.code
        await until(lambda: relay.hub.admission.bytes == 0)


async def test_waiting_messages_take_no_memory_of_others():
    script: list[Step] = [head(), send(text("a")), Hold()]
    bounds = {"max_request_memory_bytes": MEMORY, "max_request_bytes": LARGEST, "demo_pace": 0}
    async with (
        serve_script(script, authenticator=principals(), **bounds) as (relay, _),
        connect_some(relay, 9, headers=MALLORY) as connections,
    ):
        for connection in connections:
            for _ in range(8):
                await ask(connection, input=PIECE, on_disconnect="cancel")
        await until(lambda: relay.hub.admission.bytes > MEMORY // 5)
        await check_served(relay, ALICE)
        assert relay.hub.admission.bytes <= MEMORY // 4


async def test_idle_connections_take_nothing_of_others_and_end(monkeypatch):
    monkeypatch.setattr(responses_socket, "IDLE_S", 0.3)
    async with serve() as relay, connect_some(relay, 9, headers=MALLORY) as connections:
        await warm_up(connections[0], input=PIECE)
        await check_served(relay, ALICE)
        for connection in connections:
            async with asyncio.timeout(5):
                said = [json.loads(message) async for message in connection]
            assert "websocket_connection_limit_reached" == said[-1]["error"]["code"]
            assert 1000 == connection.close_code
        await until(lambda: relay.hub.admission.bytes == 0)


async def test_connection_is_not_idle_while_a_response_runs(monkeypatch):
    monkeypatch.setattr(responses_socket, "IDLE_S", 0.2)
    script: list[Step] = [head(), wait(0.4), send(text("a") + FINISH + DONE)]
    async with serve_script(script) as (relay, _), connect(relay) as connection:
        await ask(connection)
        assert "response.completed" == (await read(connection))[-1]["type"]


@pytest.mark.parametrize(("headers", "host"), [(MALLORY, 8), ({}, 9)])
async def test_connections_of_an_address_or_a_key_are_limited(headers, host, caplog):
    limits = {"max_streams": 8, "max_streams_per_address": 4}
    authenticator = principals() if headers else None
    async with (
        serve(authenticator=authenticator, **limits) as relay,
        connect_some(relay, 2, headers=headers | {"x-forwarded-for": "203.0.113.9"}),
    ):
        with pytest.raises(InvalidStatus) as refused:
            async with connect_some(
                relay, 1, headers=headers | {"x-forwarded-for": f"203.0.113.{host}"}
            ):
                pass
        assert 429 == refused.value.response.status_code
        assert b"WebSocket connections" in refused.value.response.body
        await check_served(relay, headers | {"x-forwarded-for": "203.0.113.9"})
        await check_served(relay, ALICE if headers else None)
    assert "" == caplog.text


async def test_warm_ups_count_as_requests():
    limits = UsageLimits(requests_per_minute=3)
    authenticator = known(mallory=Principal(key="mallory", key_limits=limits))
    async with (
        serve(authenticator=authenticator) as relay,
        connect(relay, additional_headers=MALLORY) as connection,
    ):
        ends = [await warm_up(connection) for _ in range(5)]
        await ask(connection, model="demo")
        ends += await read(connection)

    assert ["response.completed"] * 3 == [end["type"] for end in ends[:3]]
    assert [429] * 3 == [end["status"] for end in ends[3:]]
    assert all("retry-after" in end["error"]["headers"] for end in ends[3:])


async def test_warm_ups_count_as_starts_of_their_address():
    headers = {"x-forwarded-for": "203.0.113.9"}
    async with (
        serve_relay(max_starts_per_minute_per_address=3) as relay,
        connect(relay, additional_headers=headers) as connection,
    ):
        ends = [await warm_up(connection) for _ in range(5)]
    assert [None] * 3 + [429] * 2 == [end.get("status") for end in ends]


async def test_dropped_conversation_is_unknown_and_its_client_can_send_it_again():
    async with (
        serve() as relay,
        connect(relay, additional_headers=ALICE) as alice,
        connect_some(relay, 9, headers=ALICE) as others,
    ):
        previous = (await warm_up(alice, input=PIECE))["response"]["id"]
        for connection in others:
            for lane in range(8):
                await warm_up(connection, input=PIECE, stream_id=str(lane))
        await ask(alice, model="demo", input="two", previous_response_id=previous)
        (refused,) = await read(alice)
        assert "previous_response_not_found" == refused["error"]["code"]
        await ask(alice, model="demo", input=PIECE, store=False)
        previous = (await read(alice))[-1]["response"]["id"]
        await ask(alice, model="demo", input="two", store=False, previous_response_id=previous)
        assert "response.completed" == (await read(alice))[-1]["type"]


async def test_old_conversation_is_dropped(monkeypatch):
    monkeypatch.setattr(admission, "MAX_UNUSED_S", 0)
    async with serve(authenticator=None) as relay, connect(relay) as connection:
        first = (await warm_up(connection, input=PIECE))["response"]["id"]
        await warm_up(connection, stream_id="b")
        assert relay.hub.admission.bytes < len(PIECE)
        await ask(connection, model="demo", previous_response_id=first)
        (refused,) = await read(connection)
    assert "previous_response_not_found" == refused["error"]["code"]


async def test_large_conversation_of_one_agent_lasts_many_turns():
    conversation = [{"role": "user", "content": "x" * 1000} for _ in range(2900)]
    async with (
        serve_script(answer("a")) as (relay, upstream),
        connect(relay, max_size=None) as connection,
    ):
        await ask(connection, input=conversation, generate=False, store=False)
        previous = (await read(connection))[-1]["response"]["id"]
        for turn in range(4):
            await ask(connection, input=f"turn {turn}", store=False, previous_response_id=previous)
            previous = (await read(connection))[-1]["response"]["id"]
    assert [2901, 2903, 2905, 2907] == [len(call.json["messages"]) for call in upstream.calls]


async def test_message_with_many_members_is_refused_and_holds_nothing():
    async with serve_script(answer("a")) as (relay, _), connect(relay) as connection:
        members = {str(number): 0 for number in range(100_000)}
        await connection.send(json.dumps({"type": "response.create"} | members))
        (refused,) = await read(connection)
        assert "members" in refused["error"]["message"]
        await ask(connection)
        assert "response.completed" == (await read(connection))[-1]["type"]
