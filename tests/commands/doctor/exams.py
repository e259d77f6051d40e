"""Examinations of the relay through a proxy, many at a time."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.commands.doctor.command import advise, examine
from app.commands.doctor.session import Session
from app.commands.doctor.wire import Client, parse_url
from tests.proxies.programs import Proxy
from tests.serving import Relay, serve_relay

HEARTBEAT_S = 0.8

PACE = 0.025
"""Seconds between two tokens of the demo, as people see it: the doctor knows that pace."""
IDLE_S = 3.2
TOGETHER = 40
"""Examinations at a time: most of each is waiting."""
TRIES = 2
"""A real fault is there each time; what else is found may be the machine's."""


@dataclass
class Seen:
    """What an examination said."""

    session: Session
    failure: str

    @property
    def wrong(self) -> set[str]:
        return {finding.code for finding in self.session.findings if finding.wrong}

    @property
    def likely(self) -> set[str]:
        """Whom it names for what is wrong."""
        return {
            hop.program
            for finding in self.session.findings
            if finding.wrong
            for hop, _ in advise(finding.code, self.session.hops)
            if hop is not None
        }

    @property
    def words(self) -> str:
        return "\n".join(finding.message for finding in self.session.findings)


Setup = Callable[[Path, int], contextlib.AbstractAsyncContextManager[Proxy | str]]


@dataclass(frozen=True)
class Case:
    """A way to the relay, and what is to be said of it."""

    setup: Setup
    wrong: set[str] = field(default_factory=set)
    says: str = ""
    """A part of the words."""
    relay: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the relay."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of the examination."""


async def examine_case(case: Case, folder: Path, **options: Any) -> Seen:
    async with relay_of(case) as relay, case.setup(folder, relay.port) as way:
        url, authority = (way, None) if isinstance(way, str) else (way.https or way.http, None)
        if not isinstance(way, str) and way.https:
            authority = way.authority
        return await examine_url(url, authority=authority, **{**options, **case.options})


def relay_of(case: Case) -> contextlib.AbstractAsyncContextManager[Relay]:
    return serve_relay(
        observers=(), **{"demo_pace": PACE, "heartbeat_s": HEARTBEAT_S, **case.relay}
    )


async def examine_url(
    url: str,
    *,
    authority: Path | None = None,
    idle_s: float = IDLE_S,
    key: str = "",
    timeout_s: float = 10,
) -> Seen:
    trust = ssl.create_default_context(cafile=authority)
    client = Client(parse_url(url), key=key, trust=trust, timeout_s=timeout_s)
    session = Session(client, idle_s=idle_s)
    return Seen(session, await examine(session))


async def examine_all(cases: Mapping[str, Case], folder: Path, **options: Any) -> dict[str, Seen]:
    """Examine all, some at a time."""
    places = asyncio.Semaphore(TOGETHER)

    async def one(number: int, case: Case) -> Seen:
        async with places:
            for attempt in range(TRIES):
                own = folder / f"{number}-{attempt}"
                own.mkdir()
                seen = await examine_case(case, own, **options)
                if seen.wrong == case.wrong:
                    break
        return seen

    seen = await asyncio.gather(*(one(*case) for case in enumerate(cases.values())))
    return dict(zip(cases, seen, strict=True))


def judge(cases: Mapping[str, Case], seen: Mapping[str, Seen]) -> None:
    """Compare what was said with what was to be said; all cases at once."""
    others = {
        name: (case.wrong, result.wrong, result.words, result.failure)
        for name, case in cases.items()
        if (result := seen[name]).wrong != case.wrong
    }
    assert not others, others
    for name, case in cases.items():
        result = seen[name]
        assert case.says in result.words, (name, result.words)


@contextlib.asynccontextmanager
async def nothing(folder: Path, relay: int) -> AsyncIterator[str]:
    """No proxy at all."""
    yield f"http://127.0.0.1:{relay}"
