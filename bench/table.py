"""The one table: a line a relay, medians over rounds, ratios to nginx where it ran."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.measures import Row
from bench.relays import version_of

Medians = Mapping[str, float]
BASE = "nginx"


@dataclass(frozen=True)
class Column:
    title: str
    names: tuple[str, ...]
    """Figures that stand in one cell, apart by slashes."""
    places: tuple[int, ...]
    ratio: bool = False


COLUMNS = (
    Column("most streams", ("most_streams",), (0,)),
    Column("us at that load", ("most_us",), (0,), ratio=True),
    Column("dense, us", ("dense_us",), (0,), ratio=True),
    Column("flood, us", ("flood_us",), (1,), ratio=True),
    Column(
        "added a token p50/p99/p99.9 ms", ("added_p50_ms", "added_p99_ms", "added_p999_ms"), (2,)
    ),
    Column("first token p50/p99 ms", ("first_p50_ms", "first_p99_ms"), (2,)),
    Column("after 300 streams", ("after_p50_ms", "after_p99_ms"), (2,)),
    Column("us a request", ("request_us",), (0,)),
    Column("KiB an idle stream", ("idle_kib",), (0,)),
)


def medians(row: Row) -> dict[str, float]:
    return {name: statistics.median(values) for name, values in row.rounds.items()}


def render(rows: Sequence[Row]) -> str:
    """Make a Markdown table of what was measured."""
    base = next((medians(row) for row in rows if row.relay.name == BASE), {})
    shown = [c for c in COLUMNS if any(c.names[0] in row.rounds for row in rows)]
    rows = [row for row in rows if row.rounds]
    lines = [["relay", *(column.title for column in shown)]]
    lines += [[row.relay.name, *(_cell(c, medians(row), base) for c in shown)] for row in rows]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join("| " + " | ".join(map(str.ljust, cells, widths)) + " |" for cells in lines)


def _cell(column: Column, found: Medians, base: Medians) -> str:
    if any(name not in found for name in column.names):
        return ""
    text = " / ".join(f"{found[name]:.{column.places[0]}f}" for name in column.names)
    name = column.names[0]
    if column.ratio and base.get(name):
        text += f" ({found[name] / base[name]:.1f}x)"
    return text


def render_figures(row: Row, silence_s: float) -> str:
    """Say in lines what only our relay was measured for."""
    found = medians(row)
    if "replay_ms" not in found:
        return ""
    ratio = found["second_reader_us"] / found["reader_us"]
    return "\n".join(
        (
            f"replay of 100,000 events, one reader: {found['replay_ms']:.0f} ms",
            f"second reader of a stream: {found['second_reader_us']:.0f} us a token"
            f" beside {found['reader_us']:.0f} with one ({ratio:.2f})",
            "upstream gone in mid-stream, until the reader has its end, p50 / max:"
            f" {found['die_p50_ms']:.1f} / {found['die_max_ms']:.1f} ms (closed),"
            f" {found['reset_p50_ms']:.1f} / {found['reset_max_ms']:.1f} ms (reset)",
            f"upstream silent with its connection open, idle_timeout_s = {silence_s:g}:"
            f" {found['quiet_p50_ms']:.0f} / {found['quiet_max_ms']:.0f} ms",
        )
    )


def noise(rows: Sequence[Row]) -> str:
    """Return how far the rounds of a figure lie apart, for the costs."""
    spreads = [
        (max(values) - min(values)) / statistics.median(values) * 100
        for row in rows
        for name, values in row.rounds.items()
        if name in ("most_streams", "most_us", "dense_us", "flood_us", "request_us")
        and len(values) > 1
        and statistics.median(values)
    ]
    if not spreads:
        return "one round: nothing is known of the noise"
    return (
        "noise, (max - min) / median over rounds of the costs:"
        f" median {statistics.median(spreads):.0f} %, largest {max(spreads):.0f} %"
    )


def as_json(row: Row) -> dict[str, object]:
    figures = {
        name: {
            "median": statistics.median(values),
            "min": min(values),
            "max": max(values),
            "rounds": values,
        }
        for name, values in row.rounds.items()
    }
    return {
        "relay": row.relay.name,
        "version": version_of(row.relay),
        "figures": figures,
        "complaints": row.complaints,
        "generator_late_ms": row.late,
    }
