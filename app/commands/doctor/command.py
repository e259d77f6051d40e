"""The command `seseragi doctor URL`, and the order of its probes."""

import argparse
import asyncio
import contextlib
import json
import ssl
import sys
from collections.abc import Mapping

import certifi

from ...settings import SettingsError
from ...settings.identity import CLIENT_KEY
from .reachability import count_failures, reach
from .reading import look_at_idle, look_at_reading, look_at_stops
from .report import render_json, render_text
from .requests import look_at_requests, send_large_body
from .session import GivenUp, Session
from .streaming import look_at_stream
from .wire import Client, parse_url

WELL, WRONG, NOT_TRIED = 0, 1, 2
INTERRUPTED = 130
MAX_S = 230
"""Ten seconds less than the pause of `demo-pause`."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the description and the arguments to a parser."""
    parser.description = (
        "Measure a relay through its public URL, and report what delays, cuts or changes its "
        "streams, with the line of the proxy's configuration to change."
    )
    parser.epilog = "exit status: 0 nothing is wrong, 1 something is, 2 it could not be examined"
    parser.add_argument("url", metavar="URL", help="public URL of the relay")
    parser.add_argument(
        "--key", help=f"API key of the relay (default: {CLIENT_KEY} of the environment)"
    )
    parser.add_argument(
        "--model",
        help="use this model instead of the demo's; its tokens may cost money, and silence "
        "and stops are not tested",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--timeout", metavar="SECONDS", type=float, default=10.0,
        help="time limit of one answer (default: 10)",
    )  # fmt: skip
    parser.add_argument(
        "--idle", metavar="SECONDS", type=float, default=35.0,
        help="how long to watch a silent stream: 0 to 230 (default: 35)",
    )  # fmt: skip
    parser.add_argument(
        "--ca", metavar="FILE", help="certificates to trust in addition to the system's"
    )


def run(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Examine a relay, print the report, and return the exit status.

    Raises:
        SettingsError: an argument cannot be used.
    """
    session = build_session(options, environ)
    if not options.json:
        session.progress = _print_progress
    try:
        failure = asyncio.run(examine(session))
    except KeyboardInterrupt:
        print("seseragi: interrupted", file=sys.stderr)
        return INTERRUPTED
    if options.json:
        print(json.dumps(render_json(session, failure), indent=2))
    else:
        print(render_text(session, failure), end="")
    if any(finding.wrong for finding in session.findings):
        return WRONG
    return NOT_TRIED if failure else WELL


def build_session(options: argparse.Namespace, environ: Mapping[str, str]) -> Session:
    """Build the examination from the arguments."""
    try:
        url = parse_url(options.url)
    except ValueError as error:
        raise SettingsError(str(error)) from None
    if not 0 < options.timeout <= 600:
        raise SettingsError(f"--timeout: {options.timeout:g} is not between 0 and 600 seconds")
    if not 0 <= options.idle <= MAX_S:
        raise SettingsError(f"--idle: {options.idle:g} is not between 0 and {MAX_S} seconds")
    key = options.key or environ.get(CLIENT_KEY, "")
    if not key.isascii() or not all(char.isprintable() and char != " " for char in key):
        raise SettingsError(f"--key or {CLIENT_KEY}: not printable ASCII; check the key")
    return Session(
        Client(
            url,
            key=key,
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
            raise SettingsError(f"--ca: {ca!r} cannot be read: {error}") from None
    return trust


async def examine(session: Session) -> str:
    """Run all probes; return why that was not possible, or ""."""
    try:
        await reach(session)
        await look_at_requests(session)
        await look_at_stream(session)
        await look_at_reading(session)
        await look_at_stops(session)
        await send_large_body(session)
        await look_at_idle(session)
        count_failures(session)
    except GivenUp as reason:
        return str(reason)
    return ""


def _print_progress(text: str) -> None:
    with contextlib.suppress(OSError):
        print(f"{text} ...", file=sys.stderr, flush=True)
