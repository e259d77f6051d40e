"""Arrival times: whether tokens that were written one by one came so, and else how not. No I/O."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

TOGETHER_S = 0.004
"""What comes within it came at once."""
PAUSE_S = 0.03
"""What is further apart than that was not one write of a buffer."""
BURST = 5
"""So many tokens at once are more than a network or a busy machine brings together."""
USUAL = 3
"""So many may come together by chance, and not in the mean: of a relay's writes a fifteenth do."""
ENOUGH = 10
"""Tokens, to say anything at all."""
AT_ONCE = 0.3
"""Of the time in which it was written: what comes within less was held to the end."""
MOSTLY = 0.6
LATE = 1.3
"""Of the time in which it was written: what takes longer has come too slowly, and not held."""


@dataclass(frozen=True)
class Pace:
    """How tokens arrived."""

    tokens: int
    spread_s: float
    """From the first to the last."""
    written_s: float
    """In how long they were written."""
    groups: int
    largest: int
    """Tokens in the largest group that came at once."""
    period_s: float
    """Between groups, typically."""
    held: Literal["", "at once", "in bursts"]


def measure(times: Sequence[float], *, written_s: float) -> Pace:
    """Judge the arrival times of tokens that were written evenly over so many seconds."""
    groups = group(times, TOGETHER_S)
    sizes = [len(found) for found in groups]
    gaps = [later[0] - earlier[0] for earlier, later in pairwise(groups)]
    spread = times[-1] - times[0] if times else 0.0
    in_bursts = sum(size for size in sizes if size >= BURST)
    held: Literal["", "at once", "in bursts"] = ""
    if len(times) >= ENOUGH:
        if spread < AT_ONCE * written_s:
            held = "at once"
        elif spread < LATE * written_s + 1 and (
            in_bursts > MOSTLY * len(times) or len(times) > USUAL * len(groups)
        ):
            held = "in bursts"
    return Pace(
        tokens=len(times),
        spread_s=spread,
        written_s=written_s,
        groups=len(groups),
        largest=max(sizes, default=0),
        period_s=statistics.median(gaps) if gaps else 0.0,
        held=held,
    )


def group(times: Sequence[float], apart_s: float) -> list[list[float]]:
    """Put times together that follow each other closely."""
    groups: list[list[float]] = []
    for at in times:
        if groups and at - groups[-1][-1] <= apart_s:
            groups[-1].append(at)
        else:
            groups.append([at])
    return groups


@dataclass(frozen=True)
class Blocks:
    """What came of a stream that was held back, in groups with pauses between them."""

    bytes: int
    """Of a group, typically; 0 where there was no whole group."""
    period_s: float
    even: bool
    """Whether all have nearly the same size."""


def find_blocks(pieces: Sequence[tuple[float, bytes]]) -> Blocks:
    """Find the size of the buffer that tokens have been held in."""
    groups: list[tuple[float, int]] = []
    last = None
    for at, data in pieces:
        if last is not None and at - last <= PAUSE_S:
            groups[-1] = (groups[-1][0], groups[-1][1] + len(data))
        else:
            groups.append((at, len(data)))
        last = at
    inner = groups[1:-1] or groups[1:]
    if not inner:
        return Blocks(0, 0.0, even=False)
    sizes = sorted(size for _, size in inner)
    typical = int(statistics.median(sizes))
    near = sum(abs(size - typical) < 0.15 * typical for size in sizes)
    gaps = [later[0] - earlier[0] for earlier, later in pairwise(groups)]
    return Blocks(typical, statistics.median(gaps), even=near > 0.7 * len(sizes))
