"""How the cost of our relay grows: with length, streams, readers, size, and one byte at a time.

Each series gives a cost at some sizes. The whole cost (of a stream, of an event, of all readers)
should grow as the first power of the size: the exponent is fitted to the upper points, where
what is paid once no longer hides it.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from bench.load import Load, Result, Target, Unavailable
from bench.measures import Row, say
from bench.relays import own, started

TOKENS_A_S = 4000
FITTED = 3
LINEAR = 1.15
"""Exponents up to this are taken for one: a cost per unit that grows by 40 % in a decade."""


@dataclass(frozen=True)
class Series:
    name: str
    title: str
    size: str
    sizes: tuple[int, ...]
    quick: tuple[int, ...]
    run: Callable[[Load, Target, int], Result]
    whole: Callable[[float, int], float]
    """The cost whose growth is fitted, from microseconds a token and the size."""


def _length(load: Load, target: Target, size: int) -> Result:
    requests = max(4, min(2000, 200_000 // size))
    options = {"streams": 4, "tokens": size, "requests": requests, "warmup_requests": 4}
    return load("work", target, **options, spread=0)


def _streams(load: Load, target: Target, size: int) -> Result:
    # Opening a stream costs as much as ten tokens or more: spread, or it spills into the window.
    spread = max(1, size / 250)
    return load("paced", target, streams=size, rate=TOKENS_A_S / size, seconds=4, spread=spread)


def _readers(load: Load, target: Target, size: int) -> Result:
    return load("paced", target, streams=200 // size, readers=size - 1, rate=20, seconds=4)


def _size(load: Load, target: Target, size: int) -> Result:
    requests = max(4, min(200, 4_000_000 // size))
    options = {"streams": 2, "tokens": 20, "requests": requests, "warmup_requests": 2}
    return load("work", target, **options, size=size, spread=0)


def _bytes(load: Load, target: Target, size: int) -> Result:
    requests = max(2, min(20, 10_000 // size))
    options = {"streams": 1, "tokens": 3, "requests": requests, "warmup_requests": 1}
    return load("work", target, **options, size=size, slice=1, gap_us=20)


def _each(us_per_token: float, size: int) -> float:
    return us_per_token * size


def _alone(us_per_token: float, size: int) -> float:
    return us_per_token


SERIES = (
    Series("length", "one stream after another, as fast as it is read", "events of a stream",
           (10, 100, 1000, 10_000, 100_000), (10, 100, 1000, 10_000), _length, _each),
    Series("streams", "4,000 tokens/s over all streams", "streams open at once",
           (1, 10, 100, 500, 1000, 2000), (1, 10, 100, 500), _streams, _each),
    Series("readers", "4,000 tokens/s over all readers", "readers of each stream",
           (1, 2, 5, 20, 50, 200), (1, 5, 20, 200), _readers, _each),
    Series("size", "two streams, as fast as they are read", "bytes of an event's text",
           (10, 100, 1000, 10_000, 100_000, 1_000_000), (10, 1000, 10_000, 100_000), _size, _alone),
    Series("bytes", "one stream, its bytes written one by one", "such bytes, one at a time",
           (10, 100, 1000, 10_000, 50_000), (10, 100, 1000), _bytes, _alone),
)  # fmt: skip


def run(load: Load, core: int, *, quick: bool, folder: Path | None) -> Row:
    """Measure all series, print and draw them; it is a complaint if one is not linear."""
    if folder is not None and find_spec("matplotlib") is None:
        raise Unavailable("no matplotlib to draw with: pip install -e '.[bench]'")
    row = Row(own("seseragi, growth", path="/v1/chat"))
    for series in SERIES:
        points = _measure(series, load, core, series.quick if quick else series.sizes)
        exponent = fit([(size, series.whole(cost, size)) for size, cost in points])
        row.add({f"{series.name}_{size}_us": cost for size, cost in points})
        row.add({f"{series.name}_exponent": exponent})
        if exponent > LINEAR:
            row.complaints.append(f"{series.name}: grows by the power {exponent:.2f}")
        print(f"{series.name}: microseconds a token by {series.size} ({series.title})")
        print("  " + ", ".join(f"{size:,}: {cost:.1f}" for size, cost in points))
        print(f"  the whole grows by the power {exponent:.2f}", flush=True)
        if folder is not None:
            _draw(series, points, folder / f"{series.name}.svg")
    return row


def summarize(found: Mapping[str, float]) -> str:
    """Return the rows of the documents' table."""
    lines = []
    for series in SERIES:
        costs = {size: found.get(f"{series.name}_{size}_us") for size in series.sizes}
        sizes = [size for size, cost in costs.items() if cost is not None]
        ends = f"{sizes[0]:,} to {sizes[-1]:,} | {costs[sizes[0]]:.1f} to {costs[sizes[-1]]:.1f}"
        lines.append(f"| {series.size} | {ends} | {found[f'{series.name}_exponent']:.2f} |")
    return "\n".join(lines)


def _measure(
    series: Series, load: Load, core: int, sizes: Sequence[int]
) -> list[tuple[int, float]]:
    points = []
    with started(own(path="/v1/chat"), load.upstream_port, core) as target:
        for size in sizes:
            say(f"{series.name}: {size:,} {series.size}")
            result = series.run(load, target, size)
            if result.complaint:
                raise Unavailable(f"{series.name} of {size:,}: {result.complaint}")
            points.append((size, result.us_per_token))
    return points


def fit(points: Sequence[tuple[float, float]]) -> float:
    """Fit the exponent of a power to the last points, by least squares of the logarithms."""
    last = points[-FITTED:]
    sizes, costs = [math.log(x) for x, _ in last], [math.log(max(y, 1e-9)) for _, y in last]
    return statistics.linear_regression(sizes, costs).slope


def _draw(series: Series, points: Sequence[tuple[int, float]], file: Path) -> None:
    import matplotlib
    from matplotlib.figure import Figure

    # Text as text, and the same bytes for the same figures.
    matplotlib.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "bench"}
    figure = Figure(figsize=(6, 3.2), layout="constrained")
    axes = figure.subplots()
    axes.loglog(*zip(*points, strict=True), marker="o")
    axes.set(xlabel=series.size, ylabel="µs of CPU a token", title=series.title)
    costs = [cost for _, cost in points]
    axes.set_ylim(min(*costs) / 2, max(max(costs) * 2, min(costs) * 20))
    axes.grid(which="major", alpha=0.4)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, metadata={"Date": None})
