"""Hooks of simulated relays."""

import asyncio
from collections.abc import Callable, Sequence

from app.hooks.contract import Check, Text


def _ignore(stage: str) -> None: ...


note: Callable[[str], None] = _ignore
"""Is told the stage of each check as it begins: faults are timed by them."""


async def pass_(check: Check) -> None:
    note(check.stage)
    await asyncio.sleep(0)


async def rewrite_(check: Check) -> dict[str, list[str]]:
    """Replace each 0 by an o, in answers."""
    note(check.stage)
    await asyncio.sleep(_duration_s(check.texts) / 10)
    replaced = [text.text.replace("0", "o") for text in check.texts]
    return {"texts": replaced if check.stage == "answer" else [one.text for one in check.texts]}


async def slow_(check: Check) -> None:
    note(check.stage)
    await asyncio.sleep(_duration_s(check.texts))


async def fail_(check: Check) -> None:
    """Fail at a part of the texts: those with a 7."""
    note(check.stage)
    await asyncio.sleep(0.01)
    if check.stage == "answer" and any("7" in text.text for text in check.texts):
        raise RuntimeError("a hook that fails")


def _duration_s(texts: Sequence[Text]) -> float:
    """Return how long a check lasts: below the timeout of a hook, and up to that of an answer."""
    return (0.02, 1.4, 0.3, 0.3)[sum(len(text.text) for text in texts) // 4 % 4]
