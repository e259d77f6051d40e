"""The one table: a column a relay, a line a figure; medians over rounds, ratios to one relay."""

import statistics
from collections.abc import Callable, Mapping, Sequence

from bench.measures import TLS, Row
from bench.relays import version_of

Medians = Mapping[str, float]
Quote = Callable[[Mapping[str, Medians]], str]
"""Finds a number of the documents in medians by the names of relays and figures."""
BASE = "nginx"
LINES = {
    "most_streams": ("most streams", 0),
    "most_us": ("CPU a token at that load, us", 0),
    "request_us": ("CPU a short request, us", 0),
    "first_p50_ms": ("first token p50, ms", 2),
    "first_p99_ms": ("first token p99, ms", 2),
    "after_p50_ms": ("first token after 300 streams p50, ms", 2),
    "after_p99_ms": ("first token after 300 streams p99, ms", 2),
    "flood_us": ("flood, us/token", 1),
    "dense_us": ("dense, us/token", 1),
    "added_p50_ms": ("dense, added p50, ms", 2),
    "added_p99_ms": ("dense, added p99, ms", 2),
    "added_p999_ms": ("dense, added p99.9, ms", 2),
    "light_p50_ms": ("10 streams, added p50, ms", 2),
    "light_p99_ms": ("10 streams, added p99, ms", 2),
    "idle_kib": ("memory an idle stream, KiB", 0),
    "rest_mib": ("memory at rest, MiB", 0),
    "start_cpu_s": ("CPU until it listens, s", 2),
    "import_modules": ("modules imported", 0),
    "import_cpu_s": ("CPU to import them, s", 2),
}
"""Title of each figure, and its decimals."""

COSTS = ("most_streams", "most_us", "dense_us", "flood_us", "request_us")


def medians(row: Row) -> dict[str, float]:
    return {name: statistics.median(values) for name, values in row.rounds.items()}


def render(rows: Sequence[Row], base: str = BASE) -> str:
    """Return a Markdown table of what was measured, with ratios to the relay named `base`."""
    rows = [row for row in rows if row.rounds]
    compared = next((row for row in rows if row.relay.name == base), None)
    lines = [["", *(row.relay.name for row in rows)]]
    for prefix, title_prefix in (("", ""), (TLS, "TLS: ")):
        for figure, (title, places) in LINES.items():
            name = f"{prefix}{figure}"
            if any(name in row.rounds for row in rows):
                cells = [_cell(row, name, places, compared) for row in rows]
                lines.append([title_prefix + title, *cells])
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join("| " + " | ".join(map(str.ljust, cells, widths)) + " |" for cells in lines)


def _cell(row: Row, name: str, places: int, base: Row | None) -> str:
    values = row.rounds.get(name)
    if not values:
        return ""
    text = f"{statistics.median(values):.{places}f}"
    ratio = None if base is None else _ratio(values, base.rounds.get(name, []))
    return text if ratio is None else f"{text} ({ratio:.2f}x)"


def _ratio(values: Sequence[float], base: Sequence[float]) -> float | None:
    """Return the median ratio of two relays' rounds, side by side if none is missing."""
    if not base or not all(base):
        return None
    if len(values) == len(base):
        return statistics.median(a / b for a, b in zip(values, base, strict=True))
    return statistics.median(values) / statistics.median(base)


COST = (
    ("CPU a token, dense, µs", "dense_us", 1),
    ("CPU a token, flood, µs", "flood_us", 1),
    ("CPU a short request, µs", "request_us", 0),
)
MEMORY = (
    ("memory of an idle stream, KiB", "idle_kib", 0),
    ("memory at rest, MiB", "rest_mib", 0),
)
DELAYS = (("delay of a token, 10 streams, p50, ms", "light_p50_ms", 2),)
"""The lines of the documents' tables: title, figure, decimals."""

COLUMNS = (BASE, "seseragi", "seseragi, bare", "seseragi, governed")
LOGS = ("seseragi", "seseragi, sqlite", "seseragi, redis")


def own(figure: str) -> Quote:
    """Return what quotes a figure of ours."""
    return lambda found: f"{found['seseragi'][figure]:.0f}"


def share(figure: str) -> Quote:
    """Return what quotes nginx's part of a figure of ours, in percent."""
    return lambda found: f"{100 * found[BASE][figure] / found['seseragi'][figure]:.0f}"


def summarize(found: Mapping[str, Medians]) -> str:
    """Return the rows of the documents' table: relays beside nginx, by names and figures."""
    lines = []
    for prefix, over in (("", ""), (TLS, ", over TLS")):
        for title, figure, places in (*COST, *MEMORY):
            values = [found[name].get(prefix + figure) for name in COLUMNS]
            if values[1] is not None:
                cells = [_beside(value, values[0], places) for value in values]
                lines.append(f"| {title}{over} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _beside(value: float | None, base: float | None, places: int) -> str:
    if value is None:
        return ""
    ratio = "" if not base or value == base else f" ({value / base:.1f})"
    return f"{value:,.{places}f}{ratio}"


def summarize_logs(found: Mapping[str, Medians]) -> str:
    """Return the rows of the documents' table of logs: CPU as a multiple of memory's, delays."""
    lines = []
    for title, figure, places in (*COST, *DELAYS):
        memory, *others = (found[name][figure] for name in LOGS)
        cells = [f"{memory:,.{places}f}", *(f"{value:,.{places}f}" for value in others)]
        if figure.endswith("_us"):
            cells[1:] = [f"× {value / memory:.2f}" for value in others]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def summarize_pythons(found: Mapping[str, Medians]) -> str:
    """Return the rows of the documents' table of interpreters: the first, and ratios to it."""
    lines = []
    for title, figure, places in (*COST, *MEMORY):
        first, *others = (figures[figure] for name, figures in found.items() if name != BASE)
        cells = [f"{first:,.{places}f}", *(f"× {value / first:.2f}" for value in others)]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines)


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


def noise(rows: Sequence[Row], base: str = BASE) -> str:
    """Return how far the rounds of the costs lie apart, and those of their ratios."""
    compared = next((row.rounds for row in rows if row.relay.name == base), {})
    costs, ratios = [], []
    for row in rows:
        for name, values in row.rounds.items():
            if name.removeprefix(TLS) not in COSTS or len(values) < 2:
                continue
            costs.append(_spread(values))
            others = compared.get(name, [])
            if row.relay.name != base and len(others) == len(values) and all(others):
                ratios.append(_spread([a / b for a, b in zip(values, others, strict=True)]))
    if not costs:
        return "one round: nothing is known of the noise"
    text = "noise, (max - min) / median over rounds: costs " + _summary(costs)
    return text + (f"; their ratios to {base} {_summary(ratios)}" if ratios else "")


def _spread(values: Sequence[float]) -> float:
    return (max(values) - min(values)) / (statistics.median(values) or 1) * 100


def _summary(spreads: Sequence[float]) -> str:
    return f"{statistics.median(spreads):.0f} % in the median, {max(spreads):.0f} % at most"


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
