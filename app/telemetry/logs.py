"""Logs on stderr: lines for people on a terminal, JSON lines elsewhere."""

import logging
import sys
from typing import Any, Literal

import msgspec
import structlog


def configure_logs(
    *, format: Literal["auto", "console", "json"] = "auto", level: str = "info"
) -> None:
    """Send structlog's and the libraries' records to stderr in one form."""
    console = sys.stderr.isatty() if format == "auto" else format == "console"
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
        if console
        else structlog.processors.JSONRenderer(_to_json)
    )
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    rendering = [renderer] if console else [structlog.processors.format_exc_info, renderer]
    # Our own lines go straight to stderr: through the standard library's handlers each
    # took 80 us, a tenth of a short request.
    structlog.configure(
        processors=[*shared, *rendering, _to_bytes],
        logger_factory=structlog.BytesLoggerFactory(sys.stderr.buffer),
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=True,
    )
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


def _to_json(fields: dict[str, Any], **_: object) -> str:
    return msgspec.json.encode(fields, enc_hook=repr).decode()


def _to_bytes(_logger: object, _name: str, line: Any) -> bytes:
    return str(line).encode()
