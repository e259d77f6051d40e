"""A stream is stopped at each await of its way, and ends once, well-formed, with its cost.

By its user, by a reader that leaves, by the relay's shutdown and by a deadline; with hooks (a
function, an endpoint, one that catches cancellations), retries, rescue and hedging; over each log.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, NamedTuple

import pytest
from structlog.testing import capture_logs

from app.eventlog.stream_ended import StreamEnded
from app.events import Event, StreamEnd, StreamStart, TextDelta, TextEnd, TextStart, ToolCallDelta
from app.generation.run import Run, shut_down
from app.generation.stages.plugged import STAGES, AnswerStage
from app.hooks.contract import Check, Verdict
from app.identity.principal import Principal
from app.ledger.config import LedgerConfig, LimitsConfig, PriceConfig, UsageLimits
from app.policies.balance import MIN_SAMPLES
from app.telemetry.observer import Observer
from app.testing.upstream import (
    DONE,
    FINISH,
    USAGE,
    Call,
    Hold,
    Reset,
    Step,
    Upstream,
    event,
    head,
    reply,
    send,
    serve_upstream,
    text,
    wait,
)
from tests.identities import bearer, known
from tests.serving import HELLO, Relay, serve_relay
from tests.suspensions import Suspensions, suspensions
from tests.waiting import until

ME = Principal("t", "me", "app")
WORDS = [f"word{n} " for n in range(12)]
TEXT = "".join(WORDS)
ARGUMENTS = '{"city": "Kyoto"}'
FULL = (*map(text, WORDS[:6]), "".join(map(text, WORDS[6:])) + FINISH + USAGE + DONE)
CALLS = event(
    {"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "f", "arguments": ARGUMENTS}}]}
)

TABLES = """
[upstream.a]
base_url = "{a}"
[upstream.b]
base_url = "{b}"
quirks.prefill = "prefix"
[[route]]
name = "fast"
targets = ["a/m-a", "b/m-b"]
{route}
{hook}
"""
FUNCTION = f'[[hook]]\ncall = "{__name__}:CHECK"\nhold = 10\n'
ENDPOINT = '[[hook]]\nname = "h"\nurl = "{h}"\nhold = 10\n'


async def check_function(check: Check) -> Verdict | None:
    await asyncio.sleep(0)
    return None


async def check_and_catch(check: Check) -> Verdict | None:
    """Pass everything, also if the call is cancelled."""
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(0.01)
    return None


async def check_notices_slowly(check: Check) -> None:
    if check.texts[0].kind == "notice":
        await asyncio.sleep(0.2)


function, stubborn, slow = check_function, check_and_catch, check_notices_slowly


def flowing(pieces: Sequence[str], *end: Step) -> list[Step]:
    return [head(), *(step for one in pieces for step in (send(one), wait(0.001))), *end]


class Way(NamedTuple):
    """What an answer passes through."""

    a: Sequence[Step]
    b: Sequence[Step] | Callable[[Call], Sequence[Step]] = ()
    hook: str = ""
    route: str = ""
    wants: str = TEXT


class Slow(AnswerStage):
    """Waits with each batch, and changes a word."""

    async def take(self, events: Sequence[Event]) -> bool:
        await asyncio.sleep(0)
        return await super().take(events)


class Knows(AnswerStage):
    """Answers without a call."""

    async def recall(self) -> Sequence[Event]:
        await asyncio.sleep(0)
        return [TextStart(0), TextDelta(0, TEXT), TextEnd(0), StreamEnd("completed", "stop")]


@pytest.fixture(autouse=True)
def stages(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, stage in (("slow", Slow), ("knows", Knows)):
        monkeypatch.setitem(STAGES, name, stage)


DIES = flowing(FULL[:4], Reset())


def go_on(call: Call) -> Sequence[Step]:
    """Continue the answer in the request's last message."""
    before = call.json["messages"][-1]
    rest = TEXT[len(before["content"]) :] if before["role"] == "assistant" else TEXT
    return flowing([text(rest) + FINISH + USAGE + DONE])


HEDGE = "hedge_percentile = 90\nhedge_share = 1"
RESCUE = "rescue = true"
LATE = [head(), wait(0.05), *flowing(FULL)[1:]]
BUSY = reply("503 Busy", '{"error":{"message":"no"}}')

WAYS = {
    "retried": Way(BUSY, flowing(FULL)),
    "checked by a function": Way(flowing(FULL), hook=FUNCTION.replace("CHECK", "function")),
    "checked by an endpoint": Way(flowing(FULL), hook=ENDPOINT),
    "checked stubbornly": Way(flowing(FULL), hook=FUNCTION.replace("CHECK", "stubborn")),
    "checked call": Way(
        flowing([text("a " * 30), CALLS, event(finish_reason="tool_calls") + USAGE + DONE]),
        hook=ENDPOINT,
        wants="a " * 30 + ARGUMENTS,
    ),
    "rescued": Way(DIES, go_on, route=RESCUE),
    "rescued and checked": Way(DIES, go_on, ENDPOINT, RESCUE),
    "hedged": Way(LATE, flowing(FULL), route=HEDGE),
    "through a stage": Way(flowing(FULL), route='stages = ["slow"]'),
    "through a stage and checked": Way(flowing(FULL), hook=ENDPOINT, route='stages = ["slow"]'),
    "answered without a call": Way(flowing(FULL), route='stages = ["knows"]'),
    "hedged, and one fails": Way([head(), wait(0.03), Reset()], LATE, route=HEDGE),
    "hedged and checked": Way(LATE, flowing(FULL), ENDPOINT, HEDGE),
}


def expire(run: Run) -> None:
    """Let the deadline of the current attempt be over."""
    call = run._attempts.call
    if call.deadlines is not None and (watch := getattr(call.reading, "watch", None)) is not None:
        call.deadlines._total, watch._stood_still = 0, True  # no wait for bytes that have arrived
        watch._check_again()


def cancel_task(run: Any) -> None:
    """Cancel the task of a run that has begun, as an event loop that closes does."""
    if isinstance(run, Run) and run._life.state != "reserved" and run._task is not None:
        run._task.cancel()


ACTS: dict[str, Callable[[Run], None]] = {
    "cancelled": lambda run: run.stop("cancelled", by="user"),
    "left": lambda run: run.stop("cancelled", by="reader_gone"),
    "shut down": lambda run: run.stop("interrupted", shut_down(), by="shutdown"),
    "late": expire,
    "task cancelled": cancel_task,
}


class Ends(Observer):
    """Collects the reported ends."""

    def __init__(self) -> None:
        self.all: list[StreamEnded] = []

    def ended(self, ended: StreamEnded) -> None:
        self.all.append(ended)


class Served:
    """A relay, its targets, and what its observers are told."""

    def __init__(self, relay: Relay, ends: Ends, *targets: Upstream) -> None:
        self.relay = relay
        self.ended = ends.all
        self._targets = targets

    def answered(self) -> int:
        """The calls that a target has received and not refused."""
        return sum(len(one.calls) for one in self._targets if one.script != BUSY)

    def forget(self) -> None:
        self.ended.clear()
        for target in self._targets:
            target.calls.clear()


@contextlib.asynccontextmanager
async def serve_way(way: Way, tmp_path: Any, log: str) -> AsyncIterator[Served]:
    ledger = LedgerConfig(
        limits=LimitsConfig(user=UsageLimits(streams=9, tokens_per_minute=10**9)),
        prices=(
            PriceConfig(target="a/*", input=1000, output=1000),
            PriceConfig(target="b/*", input=1000, output=1000),
        ),
    )
    ends = Ends()
    async with serve_upstream() as a, serve_upstream() as b, serve_upstream() as h:
        h.script = reply("200 OK", "{}")
        path = tmp_path / "seseragi.toml"
        hook = way.hook.replace("{h}", h.base_url)
        path.write_text(TABLES.format(a=a.base_url, b=b.base_url, hook=hook, route=way.route))
        async with serve_relay(
            config=path,
            default_model="fast",
            log=log,
            linger_s=600,
            breaker_window_s=0.01,
            authenticator=known(me=ME),
            ledger=ledger,
            observers=[ends],
        ) as relay:
            served = Served(relay, ends, a, b)
            if way.route == HEDGE:
                a.script = b.script = [head(), send("".join(FULL))]
                for _ in range(MIN_SAMPLES):
                    await start(relay)
                await until(lambda: not len(relay.hub._runs))
            a.script = way.a
            if callable(way.b):
                b.choose = way.b
            else:
                b.script = way.b
            served.forget()
            yield served


async def start(relay: Relay) -> str:
    headers = {**bearer("me"), "prefer": "respond-async"}
    reply = await relay.client.post("/v1/chat", json=HELLO, headers=headers)
    assert reply.status_code == 202, reply.text
    return str(reply.headers["stream-id"])


def check_form(events: Sequence[Event]) -> StreamEnd:
    """Check that each block begins and ends once, and return the end, the only one."""
    assert isinstance(events[0], StreamStart)
    *before, end = events
    assert isinstance(end, StreamEnd)
    assert not any(isinstance(one, StreamEnd) for one in before)
    running: set[int] = set()
    for one in before:
        block = getattr(one, "block", None)
        name = type(one).__name__
        if name.endswith("Start") and block is not None:
            assert block not in running
            running.add(block)
        elif name.endswith("End") and block is not None:
            running.remove(block)
        elif name.endswith("Delta"):
            assert block in running
    assert not running
    return end


async def check_stream(served: Served, stream: str, way: Way, act: str) -> str:
    """Check a stream that has been stopped, and return its status."""
    relay = served.relay
    await until(lambda: not len(relay.hub._runs) and served.ended, limit_s=5)
    events = await relay.log.read(stream, 0, timeout_s=0)
    end = check_form(events)
    shown = "".join(
        one.text if isinstance(one, TextDelta) else one.arguments
        for one in events
        if isinstance(one, TextDelta | ToolCallDelta)
    )
    assert way.wants.startswith(shown)
    if end.status == "completed":
        assert way.wants == shown
    elif act == "late":
        assert end.status == "failed"
    else:
        assert end.status == (
            "interrupted" if act in ("shut down", "task cancelled") else "cancelled"
        )
    [ended] = served.ended
    assert (stream, end.status) == (ended.info.id, ended.end.status)
    charged = sum(bool(charge.nano_usd) for charge in ended.charges)
    assert served.answered() <= charged <= ended.attempts == len(ended.charges)
    names = [account.name for account in relay.hub._parts.reservations.accounts_of(ME)]
    assert names
    states = await relay.accounts.read_accounts(names)
    assert all(state.running == 0 for state in states)
    served.forget()
    return end.status


async def stop_everywhere(
    served: Served, way: Way, act: str, watched: Suspensions, places: set[str]
) -> set[str]:
    """Stop a stream at its first await, another one at its second, and so on to the last."""
    statuses = set()
    for at in range(1, 200):
        watched.prepare(at, ACTS[act])
        stream = await start(served.relay)
        statuses.add(await check_stream(served, stream, way, act))
        if watched.count < at:
            return statuses
        places.update(watched.place)
    raise AssertionError("there is no last await")


FILED = ("cancelled", "shut down", "late", "task cancelled")  # for a log, who left has cancelled


def cases() -> Iterator[Any]:
    """Every way with every act, with memory and once with another log, which does it by turns."""
    for number, name in enumerate(WAYS):
        yield from ((name, "memory", act) for act in ("cancelled", "late"))
        others = [("memory", "left"), ("memory", "shut down")]
        for turn, act in enumerate(FILED):
            others.append((("sqlite", "redis")[(number + turn) % 2], act))
        yield from (pytest.param(name, *other, marks=pytest.mark.proving) for other in others)


@pytest.mark.parametrize(("name", "log", "act"), list(cases()), indirect=["log"])
async def test_stream_that_is_stopped_at_any_await_ends_once(name, act, log, tmp_path):
    way = WAYS[name]
    places: set[str] = set()
    with suspensions("Run.run", "Attempts.make") as watched:
        async with serve_way(way, tmp_path, log) as served:
            statuses = await stop_everywhere(served, way, act, watched, places)

    assert "completed" in statuses  # stopped too late
    assert len(statuses) > 1 or act == "late"  # then another target may answer
    if way.hook and way.route != HEDGE:  # whose awaits differ from stream to stream
        assert {"Window.feed", "Hook.check"} <= places


async def test_hook_that_catches_its_cancellation_does_not_go_on(tmp_path):
    way = WAYS["checked stubbornly"]._replace(a=flowing(FULL[:-1], Hold()))
    async with serve_way(way, tmp_path, "memory") as served:
        stream = await start(served.relay)
        [running] = served.relay.hub._runs._runs.values()
        await until(lambda: running.run.progress().events > 2)
        running.run.stop("cancelled", by="user")

        assert "cancelled" == await check_stream(served, stream, way, "cancelled")


@pytest.mark.parametrize("fails", [False, True])
async def test_notice_of_a_race_that_a_hook_holds_until_its_end_is_dropped(fails, tmp_path):
    way = WAYS["hedged, and one fails" if fails else "hedged"]
    slow_hook = FUNCTION.replace("CHECK", "slow")
    async with serve_way(way._replace(hook=slow_hook), tmp_path, "memory") as served:
        with capture_logs() as lines:
            stream = await start(served.relay)
            assert "completed" == await check_stream(served, stream, way, "left")

    assert not [line for line in lines if line["log_level"] == "error"]
