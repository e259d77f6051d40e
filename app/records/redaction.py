"""The operator's own function that content goes through before it is stored."""

import asyncio
import importlib
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import structlog

Redact = Callable[[str], Awaitable[str | None]]
"""Takes content as JSON, and gives what may be stored of it; None: nothing."""

log = structlog.get_logger("seseragi.records")


class HookUnusable(ValueError):
    """There is no such function; the text says why, in one line."""


async def keep_all(content: str) -> str | None:
    """Store content as it is."""
    return content


class Hook:
    """Calls a function with the content, a dict, in a thread; it gives a dict or None."""

    def __init__(self, name: str) -> None:
        """Import a function by `module:function`.

        Raises:
            HookUnusable: there is none of this name.
        """
        module, _, function = name.partition(":")
        try:
            self._call: Any = getattr(importlib.import_module(module), function)
        except (ImportError, AttributeError, ValueError) as error:
            raise HookUnusable(f"{name!r} cannot be imported: {error}") from None
        if not callable(self._call):
            raise HookUnusable(f"{name!r} is no function")
        self._name = name
        self._failed = False

    async def __call__(self, content: str) -> str | None:
        """Return what the function leaves; nothing where it fails, which is logged once."""
        return await asyncio.to_thread(self._redact, content)

    def _redact(self, content: str) -> str | None:
        try:
            left = self._call(msgspec.json.decode(content))
            if left is None:
                return None
            if not isinstance(left, dict):
                raise TypeError(f"it gave {type(left).__name__} and no dict or None")
            return msgspec.json.encode(left).decode()
        except Exception as error:
            if not self._failed:
                self._failed = True
                # Its message, or a traceback, may quote what it was given.
                log.error(
                    "record_content_hook failed; no content is stored that it fails for",
                    hook=self._name,
                    error=type(error).__name__,
                )
            return None
