"""Estimates of hidden reasoning: output that a provider generates and bills, but does not send.

A client that leaves while a model thinks is billed for uncounted output. Known are the duration
without events (`Silence`), and the target's rate in the pauses of answers that it counted
completely:

- An answer whose reasoning was mostly hidden shows the target's rate. If the provider does not
  count reasoning separately, the whole answer is used.
- Other answers do not show it. Only while a target has never hidden output do they indicate
  that it never does, so that a slow target's estimate approaches zero.
- Both are added to `PRIOR_S` seconds at `DEFAULT_RATE`, capped at `MAX_RATE`: no single answer,
  made fast on purpose or read from a cache, changes a rate much.
"""

from typing import NamedTuple

from ..events import TokenCounts
from ..policies.deadlines import Silence

DEFAULT_RATE = 100.0
"""Tokens per second of a target without measurements: hosted models are mostly slower, so that
leaving never costs less than it should.
"""

PRIOR_S = 60.0
"""Seconds of measured pauses with the same weight as `DEFAULT_RATE`."""

MAX_RATE = 400.0
"""The maximum tokens per second of one answer: faster ones are cached."""

PLAIN_S = 10.0
"""The maximum seconds counted for an answer without hidden output."""

HIDDEN_PART = 2 / 3
"""Of the reasoning: more is not an error of the estimate of the visible part, which was at
least 0.42 of a whole answer (docs/usage.md).
"""

MAX_TARGETS = 1024
"""The maximum number of targets: clients may use any model name."""

WINDOW_S = 600.0
"""Seconds of a target's pauses with the same weight as all earlier ones."""


class _Measured(NamedTuple):
    tokens: float = DEFAULT_RATE * PRIOR_S
    """Hidden in that many seconds of pauses."""
    seconds: float = PRIOR_S
    hides: bool = False
    """Whether the target has ever hidden output."""


class HiddenRates:
    """The rate of each target while it sends nothing, in tokens per second."""

    def __init__(self) -> None:
        self._measured: dict[str, _Measured] = {}
        """In order of the last measurement."""

    def measure(self, target: str, counts: TokenCounts, *, shown: int, silence: Silence) -> None:
        """Update a rate with a complete answer that the provider counted; `shown` is an estimate.

        A pause has at most its share of the tokens of the answer.
        """
        output = counts.output_tokens or 0
        reasoning = output if counts.reasoning_tokens is None else counts.reasoning_tokens
        hidden = min(output - shown, reasoning)
        known = self._measured.pop(target, _Measured())
        if hidden > HIDDEN_PART * reasoning:
            if not known.hides:
                known = _Measured(hides=True)
            limit = min(output / silence.elapsed_s, MAX_RATE) * silence.seconds
            known = _add(known, min(hidden, limit), silence.seconds)
        elif not known.hides:
            known = _add(known, 0, min(silence.seconds, PLAIN_S))
        self._measured[target] = known
        if len(self._measured) > MAX_TARGETS:
            del self._measured[next(iter(self._measured))]

    def estimate(self, target: str, silence: Silence) -> int:
        """Return the estimated hidden tokens of a target."""
        known = self._measured.get(target, _Measured())
        return int(silence.seconds * known.tokens / known.seconds)


def _add(known: _Measured, tokens: float, seconds: float) -> _Measured:
    keep = WINDOW_S / max(WINDOW_S, known.seconds)
    return _Measured(known.tokens * keep + tokens, known.seconds * keep + seconds, known.hides)
