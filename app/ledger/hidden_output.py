"""Estimates of output that a provider generates and bills, and does not show: hidden reasoning.

Whoever leaves while a model thinks has been billed for what it thought until then, and nobody
has counted that. What is known is how long nothing came (`Quiet`), and how fast the same target
was in the pauses of answers that it counted to their end:

- An answer of which most of the thought was not shown tells how fast the target thinks. Where
  the provider does not count the thought, that is the whole answer.
- Any other one says nothing of that speed. Only while a target has never hidden anything is it
  evidence that it never does, so that one that is only slow comes to cost nothing.
- Both are added to `PRIOR_S` seconds at `DEFAULT_RATE`, and none counts as more than `MAX_RATE`:
  no single answer, made to be quick or read from a cache, moves a rate far.
"""

from typing import NamedTuple

from ..deadlines import Quiet
from ..events import TokenCounts

DEFAULT_RATE = 100.0
"""Tokens a second of a target of which nothing was measured yet: hosted models mostly write
fewer, so that nobody leaves for less than it costs."""

PRIOR_S = 60.0
"""Seconds of pauses that have to be measured to count as much as `DEFAULT_RATE` does."""

MAX_RATE = 400.0
"""Tokens a second that count of one answer: more come from a cache."""

PLAIN_S = 10.0
"""Seconds that count of an answer that has hidden nothing."""

HIDDEN_PART = 2 / 3
"""Of the thought: more is no mistake of the estimate of what was shown, which was never below
0.42 of a whole answer (docs/usage.md)."""

MAX_TARGETS = 1024
"""How many targets are remembered: clients may name any model."""

WINDOW_S = 600.0
"""Seconds of pauses of a target that count as much as all before them."""


class _Measured(NamedTuple):
    tokens: float = DEFAULT_RATE * PRIOR_S
    """Hidden in so many seconds of pauses."""
    seconds: float = PRIOR_S
    hides: bool = False
    """Whether the target has ever hidden output."""


class HiddenRates:
    """The tokens that each target generates in a second in which it shows nothing."""

    def __init__(self) -> None:
        self._measured: dict[str, _Measured] = {}
        """The target that was measured last at the end."""

    def measure(self, target: str, counts: TokenCounts, *, shown: int, quiet: Quiet) -> None:
        """Learn from a whole answer that the provider has counted; `shown` is an estimate.

        No pause has more tokens than its part of the time of the answer.
        """
        made = counts.output_tokens or 0
        thought = made if counts.reasoning_tokens is None else counts.reasoning_tokens
        hidden = min(made - shown, thought)
        known = self._measured.pop(target, _Measured())
        if hidden > HIDDEN_PART * thought:
            if not known.hides:
                known = _Measured(hides=True)
            most = min(made / quiet.elapsed_s, MAX_RATE) * quiet.seconds
            known = _add(known, min(hidden, most), quiet.seconds)
        elif not known.hides:
            known = _add(known, 0, min(quiet.seconds, PLAIN_S))
        self._measured[target] = known
        if len(self._measured) > MAX_TARGETS:
            del self._measured[next(iter(self._measured))]

    def estimate(self, target: str, quiet: Quiet) -> int:
        """Return how many tokens a target may have generated unseen."""
        known = self._measured.get(target, _Measured())
        return int(quiet.seconds * known.tokens / known.seconds)


def _add(known: _Measured, tokens: float, seconds: float) -> _Measured:
    keep = WINDOW_S / max(WINDOW_S, known.seconds)
    return _Measured(known.tokens * keep + tokens, known.seconds * keep + seconds, known.hides)
