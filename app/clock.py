"""The clocks of one process, passed in so that a test can set them."""

import time
from collections.abc import Callable
from typing import NamedTuple


class Clock(NamedTuple):
    """The time of day and the time that passes, both in seconds.

    Timers go by the event loop's clock, which is the loop's own.
    """

    wall: Callable[[], float] = time.time
    """Unix time."""
    monotonic: Callable[[], float] = time.monotonic


SYSTEM = Clock()
