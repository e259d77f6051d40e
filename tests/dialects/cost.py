"""What work costs, by its size: the calls that it makes, which are the same every time, or its time."""

import functools
import gc
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from app.errors import RelayError

LARGE = 4
"""How many times as large the larger of two sizes is."""
MAX_CALLS_RATIO = 6
"""Of the calls of two sizes: 4 is linear and 16 quadratic."""
MAX_RATIO = 8
"""Of the times of two sizes."""
MIN_S = 0.001
"""Shorter times are noise."""

Make = Callable[[int], Callable[[], object]]
"""Returns work of about a size."""


def run(act: Callable[[], object]) -> None:
    """Do the work; a refusal is short."""
    message = ""
    try:
        act()
    except RelayError as error:
        message = error.message
    assert len(message) < 2000


def count_calls(act: Callable[[], object]) -> int:
    """Count the calls of work, those of functions written in C among them."""
    count = 0

    def profile(frame: object, event: str, arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(profile)
    try:
        act()
    finally:
        sys.setprofile(None)
    return count


def check_calls(make: Make, size: int, *, per_item: float | None = None, name: object = "") -> None:
    """Assert that four times the size takes about four times the calls, and no more an item."""
    small, large = (count_calls(functools.partial(run, make(n))) for n in (size, size * LARGE))
    assert large < MAX_CALLS_RATIO * small + 200, f"{name}: {small} and then {large} calls"
    assert per_item is None or small < per_item * size + 2000, f"{name}: {small} calls"


def check_time(make: Make, size: int, *, name: object = "") -> None:
    """Assert that four times the size takes less than eight times as long."""
    with _without_garbage():
        small, large = make(size), make(size * LARGE)
        ratios = []
        for rounds in (1, 4, 16):  # what other processes cost is not there every time
            short, long = _compare(small, large, rounds=rounds)
            if long < MIN_S:
                return
            ratios.append(long / short)
            if ratios[-1] < MAX_RATIO:
                return
    raise AssertionError(f"{name}: {long:.4f} s, {min(ratios):.1f} times as much")


def _compare(*acts: Callable[[], object], rounds: int) -> list[float]:
    """Return the least seconds of each, in turns, so that a busy machine slows all of them."""
    best = [float("inf")] * len(acts)
    for _ in range(rounds):
        for number, act in enumerate(acts):
            began = time.process_time()
            run(act)
            best[number] = min(best[number], time.process_time() - began)
    return best


@contextmanager
def _without_garbage() -> Iterator[None]:
    """Keep the collector away: how often it runs depends on what other tests left."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
