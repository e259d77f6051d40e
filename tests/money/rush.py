"""Very many requests at once, before a budget that has room for some of them.

python -m tests.money.rush redis --requests 1000 --room 100
"""

import argparse
import asyncio
import random
import tempfile
import time
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path

import httpx2

from tests.money.books import quiet_books
from tests.money.clients import Client
from tests.money.company import MEMBERS, relays
from tests.money.judge import Asked, Verdict, judge
from tests.money.places import LOGS, Log, place
from tests.money.provider import Plan, ceiling, serve_provider

TOKENS = 20
PATIENT = {"first_event_timeout_s": 60, "event_gap_timeout_s": 60, "idle_timeout_s": 60}
"""All wait for the same two cores."""


class Rush:
    """So many requests at once, in a room for a few; `over` says which limit leaves that room."""

    def __init__(
        self,
        log: Log,
        folder: Path,
        *,
        requests: int,
        room: int,
        over: str = "relay",
        pace_ms: float = 20,
        seed: int = 1,
    ) -> None:
        self._log = log
        self._folder = folder
        self._requests = requests
        self._room = room
        self._over = over
        self._pace_ms = pace_ms
        self._dice = random.Random(seed)
        self.asked: list[Asked] = []
        self.verdict: Verdict
        self.billed = 0
        self.worth = 0
        """What those may cost that there is room for, in nano-USD."""
        self.most_running = 0
        """Calls at the provider at once."""
        self.asked_for: set[int | None] = set()
        """The longest answers that the provider was asked for."""
        self.took_s = self.slowest_refusal_s = 0.0

    @property
    def by_status(self) -> Counter[int | None]:
        return Counter(one.status for one in self.asked)

    @property
    def statuses(self) -> Counter[tuple[int | None, str]]:
        return Counter((one.status, one.code) for one in self.asked)

    async def run(self) -> None:
        """Let them come, and judge the books when the last has gone."""
        async with AsyncExitStack() as stack:
            provider = await stack.enter_async_context(serve_provider())
            plans = [
                Plan(f"r{number:06}", tokens=TOKENS, pace_ms=self._pace_ms)
                for number in range(self._requests)
            ]
            words = len(plans[0].prompt)
            input_tokens = 7 + -(-words // 4)
            self.worth = ceiling(self._room, input_tokens, TOKENS)
            where = await place(stack, self._log, self._folder, wires=False, lease_s=15)
            replicas = await stack.enter_async_context(
                relays(
                    where.relays,
                    self._folder,
                    where.logs,
                    provider=provider,
                    budgets={self._over: self.worth / 1e9},
                    records=where.records,
                    **where.settings | PATIENT,
                )
            )
            limits_of = httpx2.Limits(max_connections=None)
            http = await stack.enter_async_context(
                httpx2.AsyncClient(timeout=60, trust_env=False, limits=limits_of)
            )
            members = MEMBERS if self._over == "relay" else MEMBERS[:1]
            started = time.monotonic()
            self.asked = await asyncio.gather(
                *(
                    Client(
                        http,
                        replicas,
                        plan,
                        way=self._dice.choice(("read", "chat", "messages", "result")),
                        member=self._dice.choice(members),
                        max_tokens=TOKENS,
                        dice=self._dice,
                    ).live()
                    for plan in plans
                )
            )
            self.took_s = time.monotonic() - started
            refused = [one.took_s for one in self.asked if one.status == 429]
            self.slowest_refusal_s = max(refused, default=0)
            books = await quiet_books(http, replicas, where.records, within_s=30)
            self.verdict = judge(books, provider, self.asked)
            self.billed = provider.billed
            self.most_running = provider.most_running
            self.asked_for = {call.max_tokens for call in provider.calls}


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("log", choices=LOGS)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--room", type=int, default=100)
    parser.add_argument("--over", default="relay", choices=("relay", "tenant", "key", "user"))
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    for seed in range(options.rounds):
        with tempfile.TemporaryDirectory() as folder:
            rush = Rush(
                options.log,
                Path(folder),
                requests=options.requests,
                room=options.room,
                over=options.over,
                seed=seed,
            )
            await rush.run()
        print(
            f"{rush.took_s:.1f} s, {dict(rush.statuses)}, billed {rush.billed} of {rush.worth}, "
            f"at most {rush.most_running} at once, slowest refusal {rush.slowest_refusal_s:.2f} s"
        )
        print(rush.verdict, *rush.verdict.faults[:20], sep="\n  ")


if __name__ == "__main__":
    asyncio.run(main())
