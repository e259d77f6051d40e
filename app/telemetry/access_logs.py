"""Hides tokens of URLs in the access logs of other ASGI servers.

Our own server writes no access log. Others log whole URLs, and a share link has a token in its
query that grants access to the stream.
"""

import logging
import re
from typing import Any, Final

LOGGERS: Final = (
    "uvicorn.access",
    "hypercorn.access",
    "granian.access",
    "gunicorn.access",
    "uvicorn.error",  # logs request heads at `debug`
)

HIDDEN: Final = "..."

_TOKEN = re.compile(r"(?i)((?:\b|%3F|%26)token(?:=|%3D))[^&\s\"'\\]+")


def hide_tokens(text: str) -> str:
    """Replace the values of `token` parameters in a text."""
    return _TOKEN.sub(rf"\1{HIDDEN}", text)


class _HideTokens(logging.Filter):
    """Hides tokens in records; drops none."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.msg, str):
            record.msg = hide_tokens(record.msg)
        if isinstance(record.args, dict):  # subclasses in hypercorn and gunicorn
            for name, value in record.args.items():
                record.args[name] = _hide(value)
        elif isinstance(record.args, tuple):
            record.args = tuple(map(_hide, record.args))
        return True


def _hide(value: Any) -> Any:
    return hide_tokens(value) if isinstance(value, str) else value


_filter: Final = _HideTokens()


def hide_tokens_in_access_logs() -> None:
    """Add the filter to the loggers of known servers. Idempotent."""
    for name in LOGGERS:
        logging.getLogger(name).addFilter(_filter)
