"""The faults of a run: what happens at which time, drawn before it begins."""

import asyncio
import random
from dataclasses import dataclass
from typing import Any, Final

KINDS: Final = {
    "stop stream": 6,
    "cancel": 6,
    "reset": 4,
    "silence": 1,
    "unreachable": 2,
    "step": 3,
    "reload": 2,
    "pause": 2,
    "stop": 1,
    "kill": 3,
    "full": 2,
    "failover": 2,
}
"""The kinds of faults, with their weights."""


MOMENTS: Final = {
    "billed": (3, 4),
    "check": (3, 8),
    "append": (2, 20),
    "writes": (4, 10),
    "call": (1, 4),
    "created": (1, 4),
    "ended": (1, 3),
}
"""Records that faults wait for, with their weights, and up to which of them: there, or shortly
afterwards, something else happens, mostly to the same stream."""

LOGS: Final = {"full": ("sqlite", "shared"), "failover": ("redis",)}
"""The logs that some faults concern."""


@dataclass(frozen=True)
class Fault:
    """One fault."""

    at: float
    """Seconds after the begin, or after the moment."""
    what: str
    count: int
    """Once the history has so many records of this kind; 0: at a time."""
    kind: str
    lasts_s: float
    chance: float
    """Chooses what it strikes."""


def draw(dice: random.Random, *, log: str) -> list[Fault]:
    """Return the faults of a run with such a log."""
    count = dice.choice((0, 1, 1, 2, 3))
    weights = {kind: most for kind, most in KINDS.items() if log in LOGS.get(kind, (log,))}
    kinds = dice.choices([*weights], [*weights.values()], k=count)
    return [
        Fault(
            *_draw_time(dice),
            kind=kind,
            lasts_s=dice.choice((0.1, 1, 5, 20)),
            chance=dice.random(),
        )
        for kind in kinds
    ]


def _draw_time(dice: random.Random) -> tuple[float, str, int]:
    kind = dice.random()
    if kind < 0.25:
        return dice.choice((0.02, 0.1, 0.6, 1.5, 4)) * dice.uniform(0.5, 1.5), "", 0
    if kind < 0.45:
        return 0, "", dice.randint(11, 80)
    what = dice.choices([*MOMENTS], [weight for weight, _ in MOMENTS.values()])[0]
    return dice.choice((0, 0, 0.001, 0.02, 0.2)), what, dice.randint(1, MOMENTS[what][1])


def pick(values: Any, chance: float) -> Any:
    """Return one of some values; None without any."""
    found = list(values)
    return found[int(chance * len(found))] if found else None


async def strike(world: Any, fault: Fault) -> None:
    """Let one fault happen in a world."""
    moment: dict[str, Any] = {}
    if fault.count:
        reached = await world.history.reaches(fault.what, fault.count)
        if reached is None:
            return
        moment = reached
    if fault.at:
        await asyncio.sleep(fault.at)
    loop, note = world.loop, world.history.add
    match fault.kind:
        case "stop stream":
            clients = [one for one in world.clients if one.stream]
            same = [one for one in clients if _is_of(moment, one.stream, one.plan.marker)]
            client = pick(same or clients, fault.chance)
            if client is not None:
                await client.stop("cancel" if fault.lasts_s < 20 else "delete")
        case "cancel":
            tasks = _cancellable(world)
            same = [one for one in tasks if _is_run_of(moment, one)]
            task = pick(same or tasks, fault.chance)
            if task is not None:
                note("cancelled", task=_name(task))
                task.cancel()
        case "reset":
            transport = pick(loop.network.all(), fault.chance)
            if transport is not None:
                note("broken", peer=transport.peer_address)
                transport.reset()
                transport.other.break_off()
        case "silence":
            transport = pick(loop.network.all(), fault.chance)
            if transport is not None:
                note("silent", peer=transport.peer_address)
                transport.silent = transport.other.silent = True
        case "unreachable":
            address = pick(world.hosts, fault.chance)
            note("unreachable", address=address)
            loop.network.unreachable.add(address)
            await asyncio.sleep(fault.lasts_s)
            loop.network.unreachable.discard(address)
        case "step":
            step_s = pick((-86_400, -3600, -5, -5, 5, 3600, 90_000), fault.chance)
            note("stepped", seconds=step_s)
            world.drift_s += step_s
        case "full":
            note("full")
            world.disk.full = True
            await asyncio.sleep(fault.lasts_s)
            process = pick((one for one in world.processes if one.serves), fault.chance * 3 % 1)
            killed = process is not None and fault.chance < 0.3
            if killed:
                process.kill()
            world.disk.full = False
            note("has room")
            if killed:
                await world.revive(process)
        case "failover":
            data = world.redis.copy()
            await asyncio.sleep(min(fault.lasts_s, 1) / 4)
            note("lost")
            world.redis.fail_over(data)
        case "reload" | "pause" | "stop" | "kill":
            process = pick((one for one in world.processes if one.serves), fault.chance)
            if process is not None:
                await _strike_process(world, process, fault)


async def _strike_process(world: Any, process: Any, fault: Fault) -> None:
    match fault.kind:
        case "reload":
            await process.reload()
        case "pause":
            world.history.add("paused", process=process.name)
            world.loop.pause(process.name)
            await asyncio.sleep(fault.lasts_s)
            world.loop.go_on(process.name)
        case "stop":
            world.history.add("ends", process=process.name)
            await process.stop()
            await asyncio.sleep(fault.lasts_s)
            await world.revive(process)
        case "kill":
            process.kill()
            await asyncio.sleep(fault.lasts_s)
            await world.revive(process)


def _is_of(moment: dict[str, Any], stream: str, marker: str) -> bool:
    """Return whether a record is one of this stream, or of its request."""
    return stream == moment.get("stream") or marker == moment.get("marker")


def _is_run_of(moment: dict[str, Any], task: "asyncio.Task[Any]") -> bool:
    """Return whether a task runs the stream of a record."""
    return task.get_name() == f"run {moment.get('stream')}"


def _cancellable(world: Any) -> list["asyncio.Task[Any]"]:
    """Return the tasks that a server or a shutdown may cancel: runs and requests.

    But no run before its first step, of which nothing would run, not even what it releases.
    """
    unbegun = {
        running.task
        for process in world.processes
        if process.serves
        for running in process.relay.hub._runs._runs.values()
        if running.run._task is None
    }
    return [
        task
        for task, process in world.loop.tasks.items()
        if process and task not in unbegun
        if task.get_name().startswith("run ") or "run_asgi" in repr(task.get_coro())
    ]


def _name(task: "asyncio.Task[Any]") -> str:
    name = task.get_name()
    return name if name.startswith("run ") else "request"
