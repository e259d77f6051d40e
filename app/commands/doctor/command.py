"""The command `seseragi doctor URL`, and the order of its probes."""

import argparse
import asyncio
import contextlib
import json
import ssl
import sys
from collections.abc import Mapping, Sequence

import certifi

from ...settings.load import CLIENT_KEY
from .idle import look_at_idle
from .reachability import count_failures, reach
from .reading import look_at_get, look_at_many, look_at_reading, look_at_stops
from .report import render_json, render_text
from .requests import look_at_requests, send_large_body
from .session import GivenUp, Session
from .streaming import look_at_stream
from .via import Via, locate
from .wire import Client, Url

WELL, WRONG, NOT_TRIED = 0, 1, 2
INTERRUPTED = 130
MAX_S = 230
"""Ten seconds less than the pause of `demo-pause`."""


class CannotTry(Exception):
    """An argument cannot be used."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to its parser."""
    parser.add_argument("url", metavar="URL", help="of the relay, as its clients use it")
    parser.add_argument(
        "--via", metavar="URL", action="append", default=[],
        help="of the relay behind a proxy, to find the proxy that causes a finding; may be given "
        "several times, from the outermost inwards. It is examined too",
    )  # fmt: skip
    parser.add_argument(
        "--key", help=f"a key of the relay (default: {CLIENT_KEY} of the environment)"
    )
    parser.add_argument(
        "--model",
        help="use this model instead of the demo's, whose timing is known; its tokens are paid "
        "for, and silence, stops and many streams are left out",
    )
    parser.add_argument("--json", action="store_true", help="the report as JSON, for CI")
    parser.add_argument(
        "--timeout", metavar="SECONDS", type=float, default=10.0,
        help="for one answer (default: 10)",
    )  # fmt: skip
    parser.add_argument(
        "--idle", metavar="SECONDS", type=float, default=35.0,
        help="to watch a silent stream: at most 230, 0 for not at all (default: 35)",
    )  # fmt: skip
    parser.add_argument("--ca", metavar="FILE", help="certificates to trust besides the system's")


def run(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Examine a relay, print the report, and return the exit status.

    Raises:
        CannotTry: an argument cannot be used.
    """
    sessions = [build_session(options, environ, url) for url in (options.url, *options.via)]
    progress = _Progress(quiet=options.json)
    for session in sessions:
        where = f"{session.client.url}: " if len(sessions) > 1 else ""
        session.progress = lambda text, where=where: progress(f"{where}{text}")  # type: ignore[misc]
    try:
        failures = asyncio.run(_examine_all(sessions))
    except KeyboardInterrupt:
        progress.clear()
        print("seseragi: interrupted", file=sys.stderr)
        return INTERRUPTED
    progress.clear()
    session, failure, url = sessions[0], failures[0], str(sessions[0].client.url)
    inner = [
        Via(one, str(one.client.url), why or ("not completed" if one.given_up else ""))
        for one, why in zip(sessions[1:], failures[1:], strict=True)
    ]
    locate(session, url, inner)
    if options.json:
        report = render_json(session, url=url, failure=failure, inner=inner)
        print(json.dumps(report, indent=2))
    else:
        print(render_text(session, url=url, failure=failure, inner=inner), end="")
    if any(finding.wrong for finding in session.findings):
        return WRONG
    return NOT_TRIED if failure else WELL


async def _examine_all(sessions: Sequence[Session]) -> list[str]:
    """Run one after the other, so that none changes the times of another."""
    return [await examine(session) for session in sessions]


def build_session(options: argparse.Namespace, environ: Mapping[str, str], text: str) -> Session:
    """Build the examination of one URL from the arguments."""
    try:
        url = Url.parse(text)
    except ValueError as error:
        raise CannotTry(str(error)) from None
    if not 0 < options.timeout <= 600:
        raise CannotTry(f"--timeout: {options.timeout:g} is not between 0 and 600 seconds")
    if not 0 <= options.idle <= MAX_S:
        raise CannotTry(f"--idle: {options.idle:g} is not between 0 and {MAX_S} seconds")
    key = options.key or environ.get(CLIENT_KEY, "")
    if not key.isascii() or not all(char.isprintable() and char != " " for char in key):
        raise CannotTry(f"--key or {CLIENT_KEY}: not printable ASCII; check the key")
    return Session(
        Client(
            url,
            credential=(("authorization", f"Bearer {key}"),) if key else (),
            trust=_open_trust(options.ca),
            timeout_s=options.timeout,
        ),
        idle_s=options.idle,
        model=options.model,
    )


def _open_trust(ca: str | None) -> ssl.SSLContext:
    trust = ssl.create_default_context()
    if not trust.cert_store_stats()["x509_ca"]:  # the system has no certificates
        trust.load_verify_locations(certifi.where())
    if ca is not None:
        try:
            trust.load_verify_locations(ca)
        except (OSError, ssl.SSLError) as error:
            raise CannotTry(f"--ca: {ca!r} cannot be read: {error}") from None
    return trust


async def examine(session: Session) -> str:
    """Run all probes; return why that was not possible, or ""."""
    watching = asyncio.create_task(session.lag.watch())
    try:
        await reach(session)
        await look_at_requests(session)
        await look_at_stream(session)
        await look_at_reading(session)
        await look_at_get(session)
        await look_at_stops(session)
        await send_large_body(session)
        await look_at_many(session)
        await look_at_idle(session)
        count_failures(session)
    except GivenUp as reason:
        session.given_up = True
        if not str(reason) and not any(finding.wrong for finding in session.findings):
            return "this machine is too busy: see the notes"
        return str(reason)
    finally:
        watching.cancel()
    return ""


class _Progress:
    """One line on stderr with the current probe."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._terminal = sys.stderr.isatty()
        self._width = 0

    def __call__(self, text: str) -> None:
        if self._quiet:
            return
        with contextlib.suppress(OSError):
            if self._terminal:
                print(f"\r{text:<{self._width}}", end="", file=sys.stderr, flush=True)
                self._width = len(text)
            elif not text.startswith("watching"):
                print(f"{text} ...", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Remove the line."""
        if self._terminal and not self._quiet:
            print(f"\r{'':<{self._width}}\r", end="", file=sys.stderr, flush=True)
