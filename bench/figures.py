"""What only a relay that keeps its streams can show: replay, a second reader, a dead producer."""

from bench.load import Load, Target
from bench.measures import RATE, Figures, Plan, Row, say
from bench.relays import own, started

EVENTS = 100_000
READ_STREAMS = 100
SILENCE_S = 2
"""`idle_timeout_s` while a silent upstream is awaited; 60 as it comes."""


def measure(load: Load, core: int, plan: Plan) -> Row:
    """Measure our relay in rounds."""
    row = Row(own("seseragi, native", path="/v1/chat", idle_timeout_s=str(SILENCE_S)))
    for number in range(plan.rounds):
        for name, part in PARTS.items():
            say(f"round {number + 1} of {plan.rounds}, {row.relay.name}: {name}")
            with started(row.relay, load.upstream_port, core) as target:
                row.add(part(load, target, plan, row))
    return row


def _replay(load: Load, target: Target, plan: Plan, row: Row) -> Figures:
    result = row.check("replay", load("replay", target, tokens=EVENTS))
    return {"replay_ms": result.whole_ms.p50, "replay_us": result.us_per_token}


def _readers(load: Load, target: Target, plan: Plan, row: Row) -> Figures:
    """What the second reader of each stream adds to the cost of a token."""
    options = {"streams": READ_STREAMS, "rate": RATE, "seconds": plan.seconds}
    first, second = (
        row.check(f"{more + 1} readers", load("paced", target, **options, readers=more))
        for more in (0, 1)
    )
    alone = first.cpu_s / first.written * 1e6
    return {"reader_us": alone, "second_reader_us": second.cpu_s / second.written * 1e6 - alone}


def _dead(load: Load, target: Target, plan: Plan, row: Row) -> Figures:
    """How long readers wait for the end of a stream whose upstream is gone, or only silent."""
    figures = {}
    for act in ("die", "reset", "quiet"):
        result = row.check(act, load("dead", target, act=act, rate=100))
        if result.told < result.requests:
            row.complaints.append(f"{act}: {result.told} of {result.requests} were told")
        figures[f"{act}_p50_ms"] = result.noticed_ms.p50
        figures[f"{act}_max_ms"] = result.noticed_ms.max
    return figures


PARTS = {"replay": _replay, "readers": _readers, "dead upstreams": _dead}
