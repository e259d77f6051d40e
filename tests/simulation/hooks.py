"""Hooks of simulated relays."""

import asyncio

from app.hooks.contract import Check


async def pass_(check: Check) -> None:
    await asyncio.sleep(0)


async def rewrite_(check: Check) -> dict[str, list[str]]:
    """Replace each 0 by an o, in answers."""
    await asyncio.sleep(0)
    replaced = [text.text.replace("0", "o") for text in check.texts]
    return {"texts": replaced if check.stage == "answer" else [one.text for one in check.texts]}


async def slow_(check: Check) -> None:
    await asyncio.sleep(0.3)


async def fail_(check: Check) -> None:
    """Fail at a part of the texts: those with a 7."""
    await asyncio.sleep(0.01)
    if check.stage == "answer" and any("7" in text.text for text in check.texts):
        raise RuntimeError("a hook that fails")
