"""Arrival times of tokens that were written evenly: held back or not. No I/O."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

TOGETHER_S = 0.004
"""Tokens less than this apart came at once."""
BURST = 5
"""A network or a busy machine joins fewer tokens."""
USUAL = 3
"""Tokens that may come together by chance, but not on average: a fifteenth of a relay's do."""
ENOUGH = 10
"""Tokens, for any verdict."""
AT_ONCE = 0.3
"""Of the time in which it was written: a stream that came within less was held to its end."""
MOSTLY = 0.6
LATE = 1.3
"""Of the time in which it was written: a stream that took longer is slow, and not held back."""


@dataclass(frozen=True)
class Timing:
    """Arrival of tokens."""

    tokens: int
    spread_s: float
    """From the first to the last."""
    written_s: float
    groups: int
    """Of tokens that came at once."""
    largest: int
    """Tokens of the largest group."""
    period_s: float
    """Median time between groups."""
    held: Literal["", "at once", "in bursts"]


def measure(times: Sequence[float], *, written_s: float) -> Timing:
    """Judge the arrival times of tokens that were written evenly within `written_s`."""
    groups: list[list[float]] = []
    for at in times:
        if groups and at - groups[-1][-1] <= TOGETHER_S:
            groups[-1].append(at)
        else:
            groups.append([at])
    sizes = [len(group) for group in groups]
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
    return Timing(
        tokens=len(times),
        spread_s=spread,
        written_s=written_s,
        groups=len(groups),
        largest=max(sizes, default=0),
        period_s=statistics.median(gaps) if gaps else 0.0,
        held=held,
    )
