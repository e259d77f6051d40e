"""What a hook adds to an answer: the characters that wait, and the time of a token.

.venv/bin/python -m bench hooks
"""

import asyncio
import time
from collections.abc import Sequence

from app.events import Event, StreamEnd, TextDelta, TextEnd, TextStart
from app.hooks.contract import Hook
from app.hooks.redact import redact
from app.hooks.window import Window

TOKENS = 20_000
HOLDS = (50, 200, 1000)
WORDS = ("The", " cat", " sat", " on", " the", " mat", ".", " It", " was", " warm", ".")


async def measure(hold: int) -> tuple[float, int, float]:
    """Return the microseconds of a token, the most held characters, and their mean."""
    window = Window([Hook(name="redact", call=redact, hold=hold)], route="r", stream="s")
    events: Sequence[Event] = [TextDelta(0, WORDS[n % len(WORDS)]) for n in range(TOKENS)]
    sent = shown = most = total = 0
    begun = time.perf_counter()
    await window.feed([TextStart(0)])
    for event in events:
        found = await window.feed([event])
        sent += len(event.text) if isinstance(event, TextDelta) else 0
        shown += sum(len(one.text) for one in found if isinstance(one, TextDelta))
        most, total = max(most, sent - shown), total + sent - shown
    await window.feed([TextEnd(0), StreamEnd("completed", "stop")])
    return (time.perf_counter() - begun) / TOKENS * 1e6, most, total / TOKENS


def run() -> int:
    """Print the table."""
    print("| hold | us a token | held characters, mean | at most |")
    print("|---|---|---|---|")
    for hold in HOLDS:
        us, most, mean = asyncio.run(measure(hold))
        print(f"| {hold} | {us:.1f} | {mean:.0f} | {most} |")
    return 0
