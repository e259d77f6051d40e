"""A budget is not passed, however many ask at once, and who is refused is told so at once."""

import asyncio
import random
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path

import httpx2
import pytest

from tests.money.books import quiet_books
from tests.money.clients import Client
from tests.money.company import MEMBERS, relays
from tests.money.judge import judge
from tests.money.places import Log, place
from tests.money.provider import Plan, ceiling, serve_provider

pytestmark = pytest.mark.proving

TOKENS = 20
PATIENT = {"first_event_timeout_s": 60, "event_gap_timeout_s": 60, "idle_timeout_s": 60}
"""All wait for the same two cores."""


@pytest.mark.parametrize(
    ("log", "requests", "room", "over"),
    [("workers", 120, 12, "relay"), ("redis", 120, 12, "relay"), ("memory", 60, 10, "user")],
)
async def test_budget_with_room_for_some_is_not_passed_by_many_at_once(
    log: Log, requests: int, room: int, over: str, tmp_path: Path
):
    """`over` says whose limit it is."""
    dice = random.Random(1)
    plans = [Plan(f"r{number:06}", tokens=TOKENS, pace_ms=20) for number in range(requests)]
    worth = ceiling(room, 7 + -(-len(plans[0].prompt) // 4), TOKENS)
    async with AsyncExitStack() as stack:
        provider = await stack.enter_async_context(serve_provider())
        where = await place(stack, log, tmp_path, wires=False, lease_s=15)
        running = relays(
            where.relays,
            tmp_path,
            where.logs,
            provider=provider,
            budgets={over: worth / 1e9},
            records=where.records,
            **where.settings | PATIENT,
        )
        replicas = await stack.enter_async_context(running)
        limits = httpx2.Limits(max_connections=None)
        http = await stack.enter_async_context(
            httpx2.AsyncClient(timeout=60, trust_env=False, limits=limits)
        )
        clients = [
            Client(
                http,
                replicas,
                plan,
                way=dice.choice(("read", "chat", "messages", "result")),
                member=dice.choice(MEMBERS if over == "relay" else MEMBERS[:1]),
                max_tokens=TOKENS,
                dice=dice,
            )
            for plan in plans
        ]
        asked = await asyncio.gather(*(client.live() for client in clients))
        books = await quiet_books(http, replicas, where.records, within_s=30)
    verdict = judge(books, provider, asked)

    assert [] == verdict.faults
    assert {200: room, 429: requests - room} == Counter(one.status for one in asked)
    assert worth == provider.billed == verdict.booked
    assert provider.most_running <= room
    assert {TOKENS} == {call.max_tokens for call in provider.calls}
