"""The pace of writes: events that come fast are written together, others at once."""

EACH_S = 0.001
"""Writes may come so often, on average: one costs 0.2 ms of CPU, alone or with others."""

BURST_S = 0.05
"""For so long they may come faster: as the tokens of streams that happen to be in step."""

GATHER_S = 0.01
"""How long events gather at most: what a reader waits for them."""


class Pace:
    """When the next write is due, by the clock of the event loop."""

    def __init__(self) -> None:
        self.due = 0.0

    def note(self, now: float, count: int) -> None:
        """Count a write, which begins now with so many batches of events."""
        due = max(self.due, now - BURST_S) + EACH_S * count
        self.due = min(due, now + GATHER_S)
