"""Logs on stderr: lines for people on a terminal, JSON lines elsewhere.

Lines contain text from clients and providers: control characters are escaped. Tracebacks are
bounded and contain no values of variables.

Our own server writes no access log. Those of other ASGI servers have whole URLs, and a share link
has a token in its query that grants access to the stream: these tokens are hidden.
"""

import json
import logging
import re
import sys
from collections.abc import Callable
from typing import Any, Final, Literal

import msgspec
import structlog

Fields = structlog.typing.EventDict


class LineCounter:
    """Passes the level of each line to a counter, once one is set."""

    def __init__(self) -> None:
        self._count: Callable[[str], None] = lambda level: None

    def count_by(self, count: Callable[[str], None]) -> None:
        """Set the counter."""
        self._count = count

    def __call__(self, _logger: object, _name: str, fields: Fields) -> Fields:
        self._count(fields["level"])
        return fields


MAX_EXCEPTION = 16_384
"""Characters of a traceback; the middle of a longer one is cut."""


def configure_logs(
    *,
    format: Literal["auto", "console", "json"] = "auto",
    level: str = "info",
    libraries: bool = True,
) -> LineCounter:
    """Write our own lines, and with `libraries` all others, to stderr in one format.

    Return the counter of lines.
    """
    counter = LineCounter()
    console = sys.stderr.isatty() if format == "auto" else format == "console"
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(),
            # The default uses `rich`, if installed, which prints the values of variables.
            exception_formatter=structlog.dev.plain_traceback,
        )
        if console
        else structlog.processors.JSONRenderer(_to_json)
    )
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,  # the request's id and trace
        structlog.stdlib.add_log_level,
        counter,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    rendering: list[structlog.typing.Processor] = [
        structlog.processors.format_exc_info,
        _truncate_traceback,
    ]
    rendering += [_escape, renderer] if console else [renderer]
    # Our own lines go straight to stderr: through the standard library's handlers each
    # took 80 us, a tenth of a short request.
    structlog.configure(
        processors=[*shared, *rendering, _to_bytes],
        logger_factory=structlog.BytesLoggerFactory(sys.stderr.buffer),
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=True,
    )
    if not libraries:
        return counter
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    # One line a request of their own; ours says more, and no URL of an upstream.
    for noisy in ("httpx", "httpx2", "httpcore2", "asyncio"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    logging.getLogger("uvicorn.error").setLevel(
        logging.DEBUG if level == "debug" else logging.WARNING
    )
    return counter


class _Verbatim:
    """A text rendered unchanged; renderers use the `repr` of others."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def _truncate_traceback(_logger: object, _name: str, fields: Fields) -> Fields:
    """Cut the middle of a long traceback."""
    text = fields.get("exception")
    if isinstance(text, str) and len(text) > MAX_EXCEPTION:
        half = MAX_EXCEPTION // 2
        left_out = len(text) - 2 * half
        fields["exception"] = f"{text[:half]}\n... {left_out} characters ...\n{text[-half:]}"
    return fields


def _escape(_logger: object, _name: str, fields: Fields) -> Fields:
    """Escape control characters and line breaks for a terminal."""
    for name, value in fields.items():
        if name in ("exception", "stack"):
            lines = str(value).split("\n")
            fields[name] = "\n".join(f"    {_printable(line)}" for line in lines)
        elif isinstance(value, str):
            if not value.isprintable():
                fields[name] = _Verbatim(_printable(value) if name == "event" else repr(value))
        elif not isinstance(value, bool | int | float | None):
            fields[name] = _Verbatim(_printable(repr(value)))
    return fields


def _printable(text: str) -> str:
    """Escape unprintable characters, bidirectional controls included."""
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in text
    )


def _to_json(fields: dict[str, Any], **_: object) -> str:
    try:
        line = msgspec.json.encode(fields, enc_hook=repr).decode()
    except UnicodeEncodeError:  # a lone surrogate
        return json.dumps(fields, default=repr)
    if line.isprintable():
        return line
    # They occur only within strings. JSON allows unescaped U+007F to U+009F, for example.
    return "".join(one if one.isprintable() else json.dumps(one)[1:-1] for one in line)


def _to_bytes(_logger: object, _name: str, line: Any) -> bytes:
    return str(line).encode()


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
