"""Logs on stderr: lines for people on a terminal, JSON lines elsewhere.

What clients and providers say is in them, so nothing reaches a terminal that it would obey,
and a traceback has the lines of code alone: no values of variables, and a bounded length.
"""

import json
import logging
import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal

import msgspec
import structlog

Fields = structlog.typing.EventDict


class LineCounter:
    """Passes the level of each line to a counter, once there is one."""

    def __init__(self) -> None:
        self._count: Callable[[str], None] = lambda level: None

    def count_by(self, count: Callable[[str], None]) -> None:
        """Call this with the level of each line from now on, instead of another."""
        self._count = count

    def __call__(self, _logger: object, _name: str, fields: Fields) -> Fields:
        self._count(fields["level"])
        return fields


LOGGERS: Final = (
    "seseragi",
    *(
        "seseragi.access",
        "seseragi.accounting",
        "seseragi.admin",
        "seseragi.api",
        "seseragi.asking",
        "seseragi.credentials",
    ),
    *("seseragi.eventlog", "seseragi.hub", "seseragi.identity", "seseragi.issuers"),
    "seseragi.keys",
    *("seseragi.booking", "seseragi.cassettes", "seseragi.check", "seseragi.records"),
    "seseragi.relay",
    *("seseragi.server", "seseragi.settings", "seseragi.telemetry", "seseragi.workers"),
)
"""The relay's own loggers, whose levels can be set. A new one has to be written here."""

MAX_EXCEPTION = 16_384
"""The longest traceback, in characters; of a longer one the middle is left out."""


def configure_logs(
    *,
    format: Literal["auto", "console", "json"] = "auto",
    level: str = "info",
    levels: Mapping[str, str] = MappingProxyType({}),
    libraries: bool = True,
) -> LineCounter:
    """Send our own records, and with `libraries` all others, to stderr in one form.

    `levels` are those of loggers, and of those below them, that have another one than `level`.
    Whoever wants to know how many lines there are sets `tell` of what is returned.
    """
    counter = LineCounter()
    console = sys.stderr.isatty() if format == "auto" else format == "console"
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(),
            # By default another one where `rich` is installed, which shows what variables hold.
            exception_formatter=structlog.dev.plain_traceback,
        )
        if console
        else structlog.processors.JSONRenderer(_to_json)
    )
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,  # the request that a line is about
        structlog.stdlib.add_log_level,
        counter,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    rendering: list[structlog.typing.Processor] = [structlog.processors.format_exc_info, _bound]
    rendering += [_escape, renderer] if console else [renderer]
    # Our own lines go straight to stderr: through the standard library's handlers each
    # took 80 us, a tenth of a short request.
    structlog.configure(
        processors=[*shared, *rendering, _to_bytes],
        logger_factory=structlog.BytesLoggerFactory(sys.stderr.buffer),
        wrapper_class=_filter_by(level, levels),
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
    for noisy in ("httpx", "httpx2", "httpcore2", "aiohttp", "asyncio"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    logging.getLogger("uvicorn.error").setLevel(
        logging.DEBUG if level == "debug" else logging.WARNING
    )
    for name, own in levels.items():
        logging.getLogger(name).setLevel(own.upper())
    return counter


def _filter_by(level: str, levels: Mapping[str, str]) -> Any:
    """Return what makes our loggers, each with the level of its own name or of one above it."""
    kinds: dict[str, Any] = {
        one: structlog.make_filtering_bound_logger(one) for one in {level, *levels.values()}
    }

    def make(logger: Any, *args: Any, **kwargs: Any) -> Any:
        name = logger.name or ""
        while name and name not in levels:
            name = name.rpartition(".")[0]
        return kinds[levels.get(name, level)](logger, *args, **kwargs)

    return make if levels else kinds[level]


class _Shown:
    """A text that is shown as it is; renderers show others by their `repr`."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def _bound(_logger: object, _name: str, fields: Fields) -> Fields:
    """Leave out the middle of a long traceback: the ends say where it began and what it is."""
    text = fields.get("exception")
    if isinstance(text, str) and len(text) > MAX_EXCEPTION:
        half = MAX_EXCEPTION // 2
        left_out = len(text) - 2 * half
        fields["exception"] = f"{text[:half]}\n... {left_out} characters ...\n{text[-half:]}"
    return fields


def _escape(_logger: object, _name: str, fields: Fields) -> Fields:
    """Escape what a terminal would obey, or would show as a line of its own."""
    for name, value in fields.items():
        if name in ("exception", "stack"):
            lines = str(value).split("\n")
            fields[name] = "\n".join(f"    {_printable(line)}" for line in lines)
        elif isinstance(value, str):
            if not value.isprintable():
                fields[name] = _Shown(_printable(value) if name == "event" else repr(value))
        elif not isinstance(value, bool | int | float | None):
            fields[name] = _Shown(_printable(repr(value)))
    return fields


def _printable(text: str) -> str:
    """Escape control characters, such as those that turn the direction of a text."""
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in text
    )


def _to_json(fields: dict[str, Any], **_: object) -> str:
    try:
        line = msgspec.json.encode(fields, enc_hook=repr).decode()
    except UnicodeEncodeError:  # half a character
        return json.dumps(fields, default=repr)
    if line.isprintable():
        return line
    # Within strings alone; JSON allows more than a terminal ought to be shown.
    return "".join(one if one.isprintable() else json.dumps(one)[1:-1] for one in line)


def _to_bytes(_logger: object, _name: str, line: Any) -> bytes:
    return str(line).encode()
