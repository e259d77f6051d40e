"""Clocks, passed in so that tests can set them."""

import time
from collections.abc import Callable
from typing import NamedTuple


class Clock(NamedTuple):
    """The wall clock and the monotonic clock, in seconds; timers use the event loop's own."""

    wall: Callable[[], float] = time.time
    """Unix time."""
    monotonic: Callable[[], float] = time.monotonic


SYSTEM = Clock()
