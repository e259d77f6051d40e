"""Estimates of output that a provider generates and bills, and does not show: hidden reasoning.

Whoever leaves while a model thinks has been billed for what it thought until then, and nobody
has counted that. What is known is how long nothing came (`Quiet`), and how fast the same target
was in the pauses of answers that it counted to their end. A target that hides nothing counts
what it shows, so that its pauses, of a queue or a long prompt, soon cost nothing.
"""

from ..deadlines import Quiet
from ..events import TokenCounts

DEFAULT_RATE = 100.0
"""Tokens a second of a target of which no pause was measured yet: hosted models mostly write
fewer, so that nobody leaves for less than it costs."""

MAX_TARGETS = 1024
"""How many targets are remembered: clients may name any model."""

WINDOW_S = 600.0
"""Seconds of pauses of a target that count as much as all before them."""


class HiddenRates:
    """The tokens that each target generates in a second in which it shows nothing."""

    def __init__(self) -> None:
        self._measured: dict[str, tuple[float, float]] = {}
        """Hidden tokens and seconds of pauses, the target that was measured last at the end."""

    def measure(self, target: str, counts: TokenCounts, *, shown: int, quiet: Quiet) -> None:
        """Learn from a whole answer that the provider has counted; `shown` is an estimate.

        A mistake of that estimate is no hidden output: no pause has more tokens than its part of
        the time of the answer.
        """
        made = counts.output_tokens or 0
        hidden = max(0.0, made - shown)
        if counts.reasoning_tokens is not None:
            hidden = min(hidden, counts.reasoning_tokens)
        hidden = min(hidden, made * quiet.seconds / quiet.elapsed_s)
        tokens, seconds = self._measured.pop(target, (0.0, 0.0))
        keep = WINDOW_S / max(WINDOW_S, seconds)
        self._measured[target] = tokens * keep + hidden, seconds * keep + quiet.seconds
        if len(self._measured) > MAX_TARGETS:
            del self._measured[next(iter(self._measured))]

    def estimate(self, target: str, quiet: Quiet) -> int:
        """Return how many tokens a target may have generated unseen."""
        tokens, seconds = self._measured.get(target, (DEFAULT_RATE, 1.0))
        return int(quiet.seconds * tokens / seconds)
