"""The `seseragi` command."""
# ruff: noqa: E402

import gc
import signal
import threading

gc.disable()  # What is imported is no garbage: to look for it takes 0.1 s of a start's 0.9.
_interruptible = (
    threading.current_thread() is threading.main_thread()
    and signal.getsignal(signal.SIGINT) is signal.default_int_handler
)
if _interruptible:  # Ctrl-C while modules are imported ends the process without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import argparse
import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Iterator
from functools import partial
from typing import NoReturn

import msgspec
import structlog

from . import __version__, key_command, prices_command
from .addresses import write_url
from .check import command as check_command
from .composition import build_price_book, build_upstreams, open_cassettes
from .identity.keys_file import KeysUnusable
from .reload import Configuration, warn_of_limits
from .server import allow_files, bind
from .serving import MAX_CONNECTIONS, fail, loop_factory, run_workers, serve
from .settings import Settings, SettingsError, load_settings
from .settings.first_minute import Start, settle_identity
from .settings.signing import settle_signing_key
from .settings.timeouts import list_ineffective
from .telemetry.logs import configure_logs
from .upstreams.routes import Upstreams

if _interruptible:
    signal.signal(signal.SIGINT, signal.default_int_handler)
gc.enable()

INTERRUPTED = 130
"""The exit code after Ctrl-C, except where the relay serves: that it stops then is no failure."""

STDIN = 0

FILES_A_STREAM = 2
"""The connections of its client and of its upstream."""
OTHER_FILES = 100


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        fail(f"{message}; see {self.prog} --help")


def main(arguments: list[str] | None = None) -> None:
    """Run the relay until it is stopped, or what the first argument names instead."""
    try:
        _run(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None


def _run(arguments: list[str]) -> None:
    if arguments[:1] == ["key"]:
        return _change_keys(arguments[1:])
    if arguments[:1] == ["records"]:
        return _show_records(arguments[1:])
    if arguments[:1] == ["prices"]:
        return _show_prices(arguments[1:])
    if arguments[:1] == ["check"]:
        return _check_targets(arguments[1:])
    if arguments[:1] == ["doctor"]:
        return _examine(arguments[1:])
    if arguments[:1] == ["why"]:
        return _tell_why(arguments[1:])
    options = _parse(arguments)
    overrides = {
        name: value
        for name in ("host", "port", "log", "records", "workers")
        if (value := getattr(options, name)) is not None
    }
    load = partial(load_settings, os.environ, config=options.config, overrides=overrides)
    try:
        given = load()
        start = settle_identity(given)
        settings = start.settings
        upstreams = build_upstreams(settings, open_cassettes(settings))
    except SettingsError as error:
        fail(str(error))
    listener = _listen(settings.host, settings.port, "--port")
    operator_port = settings.operator_port
    operator = (
        None if operator_port is None else _listen(settings.host, operator_port, "operator_port")
    )
    until = STDIN if options.stop_with_stdin else None
    lines = configure_logs(
        format=settings.log_format, level=settings.log_level, levels=settings.log_levels
    )
    try:
        settings = settle_signing_key(settings)
    except SettingsError as error:
        fail(str(error))
    settings = _fit_files(settings)
    warn_of_limits(settings, upstreams, build_price_book(settings))
    if ineffective := list_ineffective(settings):
        structlog.get_logger("seseragi").warning(
            "these times have no effect, since the other one is over first", times=ineffective[:20]
        )
    configuration = Configuration(load, given, start, settings)
    say_listening = partial(_say_listening, upstreams, listener, operator, start)
    with listener, operator or contextlib.nullcontext():
        serving = (configuration, listener, operator, lines)
        if settings.workers == 1:
            serve(*serving, on_listening=say_listening, until=until)
        else:
            said = partial(say_listening, workers=settings.workers)
            code = run_workers(*serving, upstreams=upstreams, on_listening=said, until=until)
            raise SystemExit(code)


def _change_keys(arguments: list[str]) -> None:
    parser = _Parser(
        prog="seseragi key",
        description="Make, list and revoke the keys by which clients may ask the relay.",
    )
    key_command.add_actions(parser)
    try:
        key_command.run(parser.parse_args(arguments), os.environ)
    except (SettingsError, KeysUnusable) as error:
        fail(str(error))


def _show_records(arguments: list[str]) -> None:
    try:
        from .records import command
    except ImportError:
        fail("records: SQLAlchemy is not installed; in the checkout: pip install '.[records]'")
    with _reporting():
        command.run(arguments, os.environ, parser_of=_Parser)


@contextlib.contextmanager
def _reporting() -> Iterator[None]:
    """Around a command that prints a report: end it in one line, or quietly at a closed pipe."""
    try:
        yield
    except SettingsError as error:
        fail(str(error))
    except BrokenPipeError:  # `| head` has what it wants
        sys.stdout = None


def _show_prices(arguments: list[str]) -> None:
    parser = _Parser(
        prog="seseragi prices",
        description="Show what targets cost, in USD a million tokens, and who says so: a "
        "[[price]] of the settings, or the package genai-prices.",
    )
    prices_command.add_arguments(parser)
    options = parser.parse_args(arguments)
    try:
        settings = load_settings(os.environ, config=options.config)
    except SettingsError as error:
        fail(str(error))
    prices_command.run(options, settings, build_price_book(settings))


def _check_targets(arguments: list[str]) -> None:
    parser = _Parser(
        prog="seseragi check",
        description="Ask each target for a short answer and a tool call, and say what works, what "
        "it cost, and what would make the rest work. It calls providers, which costs money.",
        epilog="exit status: 0 all work, 1 something does not, 2 it could not begin",
    )
    check_command.add_arguments(parser)
    options = parser.parse_args(arguments)
    status = 1
    with _reporting():
        settings = load_settings(os.environ, config=options.config)
        configure_logs(format=settings.log_format, level="error")  # the report says the rest
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            status = runner.run(check_command.run(options, settings, build_price_book(settings)))
    raise SystemExit(status)


def _examine(arguments: list[str]) -> None:
    from .doctor import command  # the relay has no need of it

    parser = _Parser(
        prog="seseragi doctor",
        description="Measure a relay through its public URL: what holds tokens back, cuts them "
        "off or changes them, and which line of which proxy's configuration mends it. Exit "
        "status: 0 well, 1 something is wrong, 2 it could not be tried.",
    )
    command.add_arguments(parser)
    try:
        status = command.run(parser.parse_args(arguments), os.environ)
    except command.CannotTry as error:
        fail(str(error))
    raise SystemExit(status)


def _tell_why(arguments: list[str]) -> None:
    from . import why_command  # the relay has no need of it

    parser = _Parser(
        prog="seseragi why",
        description="Tell what happened to one answer and why it stopped: from its relay, from "
        "the records, and from the relay's log.",
        epilog="exit status: 0 found, 1 not found, 2 it could not be looked for",
    )
    why_command.add_arguments(parser)
    options = parser.parse_args(arguments)
    status = 0
    with _reporting():
        status = why_command.run(options, os.environ)
    raise SystemExit(status)


def _say_listening(
    upstreams: Upstreams,
    listener: socket.socket,
    operator: socket.socket | None,
    start: Start,
    **more: object,
) -> None:
    """Say where the relay listens: a few lines for a person, else a line of the log."""
    default = upstreams.default_model
    names = [upstream.name for upstream in upstreams.all]
    operator_url = "" if operator is None else _url(operator)
    if operator is not None:
        more["operator_url"] = operator_url
    if not start.for_people:
        structlog.get_logger("seseragi").info(
            "listening",
            url=_url(listener),
            upstreams=names,
            default_model=default,
            auth=start.access,
            version=__version__,
            **more,
        )
    models = f"{', '.join([*upstreams.routes, *names])}; default: {default or 'none'}"
    start.announce(listener.getsockname()[1], models, operator_url)


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = _Parser(
        prog="seseragi",
        description="Relay LLM token streams to browsers. With no key and no file it serves a "
        "built-in demo model; a key such as OPENAI_API_KEY in the environment adds a provider.",
        epilog="seseragi check --help: whether providers work; seseragi doctor --help: what "
        "proxies do to streams; seseragi key --help: the keys of clients; seseragi prices --help: "
        "what models cost; seseragi records --help: what streams have cost; seseragi why --help: "
        "why an answer stopped. Every setting is also an environment variable SESERAGI_..., such "
        "as SESERAGI_PORT; docs/configuration.md lists them.",
    )
    parser.add_argument("--host", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", help="port to listen on, 0 for any free one (default: 8000)")
    parser.add_argument(
        "--log",
        metavar="URL",
        help="where streams are kept: memory; sqlite:///PATH to survive a restart; "
        "redis://HOST:PORT/DB to be shared by many replicas (default: memory)",
    )
    parser.add_argument(
        "--records",
        metavar="URL",
        help="where one row a stream is kept: sqlite:///PATH or postgresql://USER@HOST/DATABASE "
        "(default: nowhere)",
    )
    parser.add_argument(
        "--workers",
        metavar="N",
        help="processes that share the port and the log, which is not memory (default: 1)",
    )
    parser.add_argument(
        "--config", metavar="FILE", help="settings file (default: seseragi.toml if it exists)"
    )
    parser.add_argument(
        "--stop-with-stdin",
        action="store_true",
        help="stop when standard input ends, as it does with the program that starts this one",
    )
    parser.add_argument("--version", action="version", version=f"seseragi {__version__}")
    return parser.parse_args(arguments)


def _listen(host: str, port: int, setting: str) -> socket.socket:
    try:
        return bind(host, port)
    except (socket.gaierror, UnicodeError):
        fail(f"{host!r} is not an address of this machine; choose another with --host")
    except PermissionError:
        fail(f"port {port} needs more rights; choose one above 1023 with {setting}")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        fail(
            f"cannot listen on {host} port {port}: {reason}; "
            f"choose another with {setting} or --host"
        )


def _fit_files(settings: Settings) -> Settings:
    """Take as many connections as files can be open beside those of upstreams."""
    allowed = allow_files()
    if allowed is None:
        return settings
    others = settings.max_streams + OTHER_FILES
    needed = FILES_A_STREAM * settings.max_streams + OTHER_FILES
    if settings.max_connections is not None:
        needed = max(needed, settings.max_connections + others)
    if allowed < needed:
        structlog.get_logger("seseragi").warning(
            "fewer files may be open than max_streams and max_connections need; "
            "raise the limit (nofile)",
            allowed=allowed,
            needed=needed,
        )
    most = settings.max_connections or min(MAX_CONNECTIONS, max(allowed - others, allowed // 2))
    return msgspec.structs.replace(settings, max_connections=most)


def _url(listener: socket.socket) -> str:
    return write_url(*listener.getsockname()[:2])


if __name__ == "__main__":
    main()
