"""A small company: relays with two tenants, keys and users, before a provider with a ledger."""

import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from tests.money.provider import PRICE, Provider
from tests.replicas.processes import Replica


class Member(NamedTuple):
    """Who asks: a key of a name, and whose it is."""

    key: str
    tenant: str
    user: str

    @property
    def secret(self) -> str:
        return f"ssk_{hashlib.sha256(self.key.encode()).hexdigest()[:43]}"

    @property
    def accounts(self) -> tuple[str, ...]:
        tenant, user = quote(self.tenant, safe=""), quote(self.user, safe="")
        names = ["relay", f"tenant:{tenant}", f"key:{quote(self.key, safe='')}"]
        return (*names, f"user:{tenant}:{user}") if user else tuple(names)

    @property
    def headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.secret}"}


ADMIN = Member("bookkeeper", "", "")
"""Who is told of all accounts, and asks for no stream."""
MEMBERS = (
    Member("web", "acme", "ann"),
    Member("app", "acme", "bob"),
    Member("batch", "acme", ""),
    Member("zoo", "zeta & co", "ann"),
)
ACCOUNTS = tuple(dict.fromkeys(name for member in MEMBERS for name in member.accounts))

QUICK = {
    "status_wait_s": 10,
    "linger_s": 0.3,
    "drain_s": 0.2,
    "attempts": 3,
    "connect_timeout_s": 5,
    "first_event_timeout_s": 1,
    "event_gap_timeout_s": 0.7,
    "idle_timeout_s": 0.7,
    "max_streams": 5_000,
    "max_streams_per_address": 5_000,
    "max_starts_per_minute_per_address": 10**6,
    "max_readers_per_address": 10_000,
    "max_connections_per_address": 10_000,
}
"""Patience that a test has, and room for all of its clients at one address."""


def settle_down(folder: Path, provider: Provider, budgets: Mapping[str, float]) -> None:
    """Write the settings of the company's relays, who run in this folder."""
    url = f"http://127.0.0.1:{provider.port}"
    lines = [
        '[auth]\nsigning_key = "0123456789abcdef0123456789abcdef"',
        f'[upstream.openai]\nbase_url = "{url}/v1"\nauth = "none"',
        f'[upstream.claude]\ndialect = "anthropic"\nbase_url = "{url}/v1"\nauth = "none"',
        '[[route]]\nname = "smart"\ntargets = ["openai/first", "claude/second"]',
        f'[[price]]\ntarget = "{PRICE.target}"\ninput = {PRICE.input}\noutput = {PRICE.output}',
    ]
    for over, usd in budgets.items():
        lines.append(f"[limits{'' if over == 'relay' else f'.{over}'}]\nusd_per_day = {usd}")
    for member in MEMBERS:
        digest = hashlib.sha256(member.secret.encode()).hexdigest()
        fields = f'name = "{member.key}"\nsha256 = "{digest}"\ntenant = "{member.tenant}"'
        lines.append(f'[[key]]\n{fields}\nuser = "{member.user}"')
    digest = hashlib.sha256(ADMIN.secret.encode()).hexdigest()
    lines.append(f'[[key]]\nname = "{ADMIN.key}"\nsha256 = "{digest}"\nroles = ["admin"]')
    (folder / "seseragi.toml").write_text("\n\n".join(lines))


@asynccontextmanager
async def relays(
    count: int,
    folder: Path,
    logs: Sequence[str],
    *,
    provider: Provider,
    budgets: Mapping[str, float],
    **settings: Any,
) -> AsyncIterator[list[Replica]]:
    """Run so many relays, each with its URL of the log, the first for all where there is one.

    `budgets` are USD a day, by whose each is: the relay's, or each tenant's, key's or user's.
    """
    settle_down(folder, provider, budgets)
    replicas = [Replica(folder, logs[n % len(logs)], **QUICK | settings) for n in range(count)]
    try:
        for replica in replicas:
            await replica.start(within_s=40)
        yield replicas
    finally:
        for replica in replicas:
            await replica.kill()
    for replica in replicas:
        assert [] == [line for line in replica.said if "Traceback" in line]
