"""What a relay held that is lost is settled by another, and can be used again."""

import asyncio
import random
from contextlib import AsyncExitStack

import httpx2
import pytest

from tests.money.books import quiet_books
from tests.money.clients import Client
from tests.money.company import MEMBERS, relays
from tests.money.judge import Asked, judge
from tests.money.places import place
from tests.money.provider import Plan, ceiling, serve_provider
from tests.replicas.processes import Replica, browser
from tests.waiting import until

pytestmark = pytest.mark.proving

LEASE_S = 4
ROOM = 10
TOKENS = 100
PLAN = Plan("l000", "stall", tokens=20, pace_ms=1)
INPUT = 7 + -(-len(PLAN.prompt) // 4)


def asking(http: httpx2.AsyncClient, relay: Replica, name: str, how: str = "stall") -> Client:
    plan = Plan(name, how, tokens=20, pace_ms=1)  # type: ignore[arg-type]  # it is one
    dice = random.Random(name)
    return Client(http, [relay], plan, way="read", member=MEMBERS[0], max_tokens=TOKENS, dice=dice)


async def logged(http: httpx2.AsyncClient, relay: Replica, client: Client) -> int:
    """Return how many tokens of an answer are in the log, where another relay has it from."""
    for stream in client.asked.streams:
        url = f"{relay.url}/v1/streams/{stream}"
        reply = await http.get(url, headers=MEMBERS[0].headers)
        if reply.status_code == 200:
            return len(reply.json()["text"]) // 4
    return 0


async def test_what_a_killed_relay_held_is_settled_within_a_lease(tmp_path):
    """Its streams cost what was streamed; the rest of the budget is there for others."""
    worth = ceiling(ROOM, INPUT, TOKENS)
    async with AsyncExitStack() as stack:
        provider = await stack.enter_async_context(serve_provider())
        where = await place(stack, "redis", tmp_path, lease_s=LEASE_S)
        running = relays(
            2,
            tmp_path,
            where.logs,
            provider=provider,
            budgets={"tenant": worth / 1e9},
            records=where.records,
            event_gap_timeout_s=60,
            idle_timeout_s=60,
            **where.settings,
        )
        first, second = await stack.enter_async_context(running)
        http = await stack.enter_async_context(browser())
        lost = [asking(http, first, f"l{number:03}") for number in range(ROOM)]
        reading = [asyncio.create_task(client.live()) for client in lost]

        async def all_is_logged() -> bool:
            return {PLAN.tokens} == {await logged(http, second, client) for client in lost}

        await until(all_is_logged, limit_s=60)
        refused = await asking(http, second, "l100").live()
        assert (429, "budget_exceeded") == (refused.status, refused.code)

        await first.kill()
        asked: list[Asked] = [refused, *await asyncio.gather(*reading)]
        await quiet_books(http, [second], where.records, within_s=2 * LEASE_S + 25)
        after = await asking(http, second, "l101", "whole").live()
        asked.append(after)
        books = await quiet_books(http, [second], where.records, within_s=30)
        verdict = judge(books, provider, asked)

        assert "completed" == after.end
        assert [] == verdict.faults
        assert ROOM + 1 == verdict.streams
        assert [True] * ROOM == [row.lost for _, row in books.rows if row.request_id < "l100"]
        # All that was sent was in the log before the kill.
        assert {INPUT} == {row.input_tokens for _, row in books.rows}
        assert {20} == {row.output_tokens for _, row in books.rows}
        assert provider.billed == verdict.booked
