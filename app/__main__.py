"""The `seseragi` command."""

import argparse
import contextlib
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any, Final, NoReturn

from . import __version__
from .commands import COMMANDS, GROUP
from .identity.keys_file import KeysUnusable
from .plugins import find_entries
from .settings import SettingsError
from .settings.convert import fail

INTERRUPTED = 130
"""The exit code after Ctrl-C, except while the relay serves, where it is a clean stop."""

STDIN = 0

SETTINGS: Final = ("host", "port", "log", "records", "workers")
"""Options that override a setting."""


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line; it imports the module of a subcommand if that runs."""

    def __init__(self, *, load: Callable[[], Any] | None = None, **fields: Any) -> None:
        super().__init__(**fields)
        self._load = load

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if self._load is not None:
            with _report_errors(), _importing():
                module = self._load()
            module.add_arguments(self)
            self.set_defaults(run=module.run)
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        fail(f"{message}; see {self.prog} --help")


def main(arguments: list[str] | None = None) -> None:
    """Run the relay until it is stopped, or the subcommand of the first argument."""
    try:
        _run(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None


def _run(arguments: list[str]) -> None:
    # After an option of the relay no command can follow: an unknown option is then named as such.
    first = arguments[0] if arguments else ""
    is_command = first in ("-h", "--help") or not first.startswith("-")
    parser = _build_parser(with_commands=is_command, others=bool(first) and first not in COMMANDS)
    options = parser.parse_args(arguments)
    if is_command and options.command is not None:
        status = 0
        with _report_errors():
            status = options.run(options, os.environ)
        if status:
            raise SystemExit(status)
        return
    with _importing():
        from .commands.serve import start_relay
        from .settings import load_settings
    overrides = {name: value for name in SETTINGS if (value := getattr(options, name)) is not None}
    load = partial(load_settings, os.environ, config=options.config, overrides=overrides)
    start_relay(load, until=STDIN if options.stop_with_stdin else None)


@contextlib.contextmanager
def _importing() -> Iterator[None]:
    """Import modules: Ctrl-C ends the process without a traceback, and no collection runs.

    Collections find nothing then, and take 0.1 s of 0.9 s of the start.
    """
    interruptible = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    if interruptible:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        if interruptible:
            signal.signal(signal.SIGINT, signal.default_int_handler)


@contextlib.contextmanager
def _report_errors() -> Iterator[None]:
    """Report errors in one line, and end silently at a closed pipe."""
    try:
        yield
    except (SettingsError, KeysUnusable) as error:
        fail(str(error))
    except ModuleNotFoundError as error:
        if error.name != "sqlalchemy":
            raise
        fail("records: SQLAlchemy is not installed; in the checkout: pip install '.[records]'")
    except BrokenPipeError:  # `| head`
        sys.stdout = None


def _build_parser(*, with_commands: bool, others: bool = False) -> _Parser:
    """Build the parser; with `others`, the commands of installed packages are known too."""
    parser = _Parser(
        prog="seseragi",
        usage="%(prog)s [OPTION ...]\n       %(prog)s COMMAND [OPTION ...]",
        description="Relay LLM token streams to browsers. Without a key or a settings file it "
        "serves built-in demo models; a variable such as OPENAI_API_KEY adds a provider.",
        epilog="seseragi COMMAND --help describes a command. Every setting is also an environment "
        "variable, such as SESERAGI_PORT; docs/configuration.md lists them.",
    )
    parser.add_argument("--host", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", help="port to listen on, 0 for any free one (default: 8000)")
    parser.add_argument(
        "--log",
        metavar="URL",
        help="log of streams: memory; sqlite:///PATH survives a restart; redis://HOST:PORT/DB is "
        "shared by replicas (default: memory)",
    )
    parser.add_argument(
        "--records",
        metavar="URL",
        help="database with a row for each stream: sqlite:///PATH or "
        "postgresql://USER@HOST/DATABASE (default: none)",
    )
    parser.add_argument(
        "--workers",
        metavar="N",
        help="processes that share the port and the log; not with --log memory (default: 1)",
    )
    parser.add_argument(
        "--config", metavar="FILE", help="settings file (default: seseragi.toml if it exists)"
    )
    parser.add_argument(
        "--stop-with-stdin",
        action="store_true",
        help="stop when standard input ends, such as with the parent process",
    )
    parser.add_argument("--version", action="version", version=f"seseragi {__version__}")
    if with_commands:
        commands = parser.add_subparsers(
            dest="command", prog=parser.prog, metavar="COMMAND", title="commands"
        )
        for name, (module, summary) in COMMANDS.items():
            load = partial(import_module, f".commands.{module}", __package__)
            commands.add_parser(name, help=summary, load=load)
        for name, entry in find_entries(GROUP, COMMANDS).items() if others else ():
            commands.add_parser(name, help=f"of {entry.value}", load=entry.load)
    return parser


if __name__ == "__main__":
    main()
