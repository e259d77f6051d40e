"""The operator's function that redacts recorded content."""

import asyncio
import importlib
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import structlog

Redact = Callable[[str], Awaitable[str | None]]
"""Maps content, as JSON, to the content to store; None stores nothing."""

log = structlog.get_logger("seseragi.records")


class HookUnusable(ValueError):
    """The function cannot be used; the text is the reason, in one line."""


async def keep_all(content: str) -> str | None:
    """Store content as it is."""
    return content


class Hook:
    """Calls a function from dict to dict or None, in a thread."""

    def __init__(self, name: str) -> None:
        """Import a function by `module:function`.

        Raises:
            HookUnusable: it cannot be imported or called.
        """
        module, _, function = name.partition(":")
        try:
            self._call: Any = getattr(importlib.import_module(module), function)
        except (ImportError, AttributeError, ValueError) as error:
            raise HookUnusable(f"{name!r} cannot be imported: {error}") from None
        if not callable(self._call):
            raise HookUnusable(f"{name!r} is not a function")
        self._name = name
        self._failed = False

    async def __call__(self, content: str) -> str | None:
        """Return the redacted content; None if the function fails, which is logged once."""
        return await asyncio.to_thread(self._redact, content)

    def _redact(self, content: str) -> str | None:
        try:
            left = self._call(msgspec.json.decode(content))
            if left is None:
                return None
            if not isinstance(left, dict):
                raise TypeError(f"it returned {type(left).__name__}; return a dict or None")
            return msgspec.json.encode(left).decode()
        except Exception as error:
            if not self._failed:
                self._failed = True
                # Its message, or a traceback, may quote the content.
                log.error(
                    "record_content_hook failed: the content is not stored",
                    hook=self._name,
                    error=type(error).__name__,
                )
            return None
