"""The `seseragi` command."""
# ruff: noqa: E402

import gc
import signal
import threading

gc.disable()  # Collections during imports find nothing, and take 0.1 s of 0.9 s of the start.
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
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final, NoReturn

from . import __version__
from .commands import keys, prices
from .commands.check import command as check_command
from .commands.serve import start_relay
from .composition import build_price_book
from .identity.keys_file import KeysUnusable
from .server.serving import fail, loop_factory
from .settings import SettingsError, load_settings
from .telemetry.logs import configure_logs

if _interruptible:
    signal.signal(signal.SIGINT, signal.default_int_handler)
gc.enable()

INTERRUPTED = 130
"""The exit code after Ctrl-C, except while the relay serves, where it is a clean stop."""

STDIN = 0


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        fail(f"{message}; see {self.prog} --help")


def main(arguments: list[str] | None = None) -> None:
    """Run the relay until it is stopped, or the subcommand of the first argument."""
    try:
        _run(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None


def _run(arguments: list[str]) -> None:
    if arguments and (command := COMMANDS.get(arguments[0])) is not None:
        return command(arguments[1:])
    options = _parse(arguments)
    overrides = {
        name: value
        for name in ("host", "port", "log", "records", "workers")
        if (value := getattr(options, name)) is not None
    }
    load = partial(load_settings, os.environ, config=options.config, overrides=overrides)
    start_relay(load, until=STDIN if options.stop_with_stdin else None)


def _change_keys(arguments: list[str]) -> None:
    parser = _Parser(
        prog="seseragi key",
        description="Make, list and revoke the keys by which clients may ask the relay.",
    )
    keys.add_actions(parser)
    try:
        keys.run(parser.parse_args(arguments), os.environ)
    except (SettingsError, KeysUnusable) as error:
        fail(str(error))


def _show_records(arguments: list[str]) -> None:
    try:
        from .commands import records
    except ImportError:
        fail("records: SQLAlchemy is not installed; in the checkout: pip install '.[records]'")
    with _report_errors():
        records.run(arguments, os.environ, parser_of=_Parser)


@contextlib.contextmanager
def _report_errors() -> Iterator[None]:
    """Report settings errors in one line, and end silently at a closed pipe."""
    try:
        yield
    except SettingsError as error:
        fail(str(error))
    except BrokenPipeError:  # `| head`
        sys.stdout = None


def _show_prices(arguments: list[str]) -> None:
    parser = _Parser(
        prog="seseragi prices",
        description="Show what targets cost, in USD a million tokens, and who says so: a "
        "[[price]] of the settings, or the package genai-prices.",
    )
    prices.add_arguments(parser)
    options = parser.parse_args(arguments)
    try:
        settings = load_settings(os.environ, config=options.config)
    except SettingsError as error:
        fail(str(error))
    prices.run(options, settings, build_price_book(settings))


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
    with _report_errors():
        settings = load_settings(os.environ, config=options.config)
        configure_logs(format=settings.log_format, level="error")  # the report has the rest
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            status = runner.run(check_command.run(options, settings, build_price_book(settings)))
    raise SystemExit(status)


def _run_doctor(arguments: list[str]) -> None:
    from .commands.doctor import command  # the relay has no need of it

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


def _explain_stream(arguments: list[str]) -> None:
    from .commands import why  # the relay has no need of it

    parser = _Parser(
        prog="seseragi why",
        description="Tell what happened to one answer and why it stopped: from its relay, from "
        "the records, and from the relay's log.",
        epilog="exit status: 0 found, 1 not found, 2 it could not be looked for",
    )
    why.add_arguments(parser)
    options = parser.parse_args(arguments)
    status = 0
    with _report_errors():
        status = why.run(options, os.environ)
    raise SystemExit(status)


COMMANDS: Final[Mapping[str, Callable[[list[str]], None]]] = {
    "key": _change_keys,
    "records": _show_records,
    "prices": _show_prices,
    "check": _check_targets,
    "doctor": _run_doctor,
    "why": _explain_stream,
}
"""The subcommands, by name."""


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


if __name__ == "__main__":
    main()
