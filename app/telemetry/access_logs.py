"""Keeps tokens of URLs out of the access logs of the server that runs the app.

Our own server writes none. Others write whole URLs, and a link to a stream has a token in its
query, by which whoever reads the log could read the stream.
"""

import logging
import re
from typing import Any, Final

LOGGERS: Final = (
    *("uvicorn.access", "hypercorn.access", "granian.access", "gunicorn.access"),
    "uvicorn.error",  # which has heads of requests at `debug`
)

HIDDEN: Final = "..."

_TOKEN = re.compile(r"(?i)((?:\b|%3F|%26)token(?:=|%3D))[^&\s\"'\\]+")


def hide_tokens(text: str) -> str:
    """Return a text without the values of `token` in what may be the query of a URL."""
    return _TOKEN.sub(rf"\1{HIDDEN}", text)


class _HideTokens(logging.Filter):
    """Changes records, and drops none."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.msg, str):
            record.msg = hide_tokens(record.msg)
        if isinstance(record.args, dict):  # hypercorn's and gunicorn's are of kinds of their own
            for name, value in record.args.items():
                record.args[name] = _hide(value)
        elif isinstance(record.args, tuple):
            record.args = tuple(map(_hide, record.args))
        return True


def _hide(value: Any) -> Any:
    return hide_tokens(value) if isinstance(value, str) else value


_filter: Final = _HideTokens()


def hide_tokens_in_access_logs() -> None:
    """Have the servers that are known write no tokens; done twice, it changes nothing."""
    for name in LOGGERS:
        logging.getLogger(name).addFilter(_filter)
