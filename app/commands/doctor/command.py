"""`seseragi doctor URL`: the command, and the order of the probes."""

import argparse
import asyncio
import contextlib
import json
import ssl
import sys
from collections.abc import Mapping, Sequence

import certifi

from ...settings.scalars import CLIENT_KEY
from .findings import Finding
from .idle import look_at_silence
from .reachability import count_failures, reach
from .reading import look_at_many, look_at_readers, look_at_reading, look_at_refusals
from .report import render_json, render_text
from .requests import ask_as_page, find_body_cap, look_at_requests
from .session import GivenUp, Session
from .stopping import look_at_stops
from .streaming import look_at_stream
from .via import Via, locate
from .wire import Client, Url

WELL, WRONG, NOT_TRIED = 0, 1, 2
INTERRUPTED = 130
MAX_S = 230
"""The pause of `demo-pause` is ten seconds longer."""


class CannotTry(Exception):
    """An argument cannot be used."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the command can be told to its parser."""
    parser.add_argument("url", metavar="URL", help="of the relay, as its clients have it")
    parser.add_argument(
        "--via", metavar="URL", action="append", default=[],
        help="of the relay behind a proxy, to tell which one introduces what is wrong; may be "
        "given again, from the outermost inwards. It is examined too",
    )  # fmt: skip
    parser.add_argument(
        "--key", help=f"a key of the relay (default: {CLIENT_KEY} of the environment)"
    )
    parser.add_argument(
        "--model",
        help="ask this model instead of the demo's, whose pace is known; it costs what it costs, "
        "and silence, stops and many streams are left out",
    )
    parser.add_argument("--origin", help="a page that is to call it: https://chat.example.com")
    parser.add_argument("--json", action="store_true", help="the report as JSON, for CI")
    parser.add_argument(
        "--timeout", metavar="SECONDS", type=float, default=10.0,
        help="how long an answer may take (default: 10)",
    )  # fmt: skip
    parser.add_argument(
        "--idle", metavar="SECONDS", type=float, default=35.0,
        help="how long a silent stream is watched, 230 at most, 0 for not at all (default: 35)",
    )  # fmt: skip
    parser.add_argument("--ca", metavar="FILE", help="certificates to trust besides the usual ones")


def run(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Examine a relay, print the report, and return the exit status.

    Raises:
        CannotTry: an argument cannot be used.
    """
    exams = [build_exam(options, environ, url) for url in (options.url, *options.via)]
    say = _Progress(quiet=options.json)
    for exam in exams:
        where = f"{exam.client.url}: " if len(exams) > 1 else ""
        exam.say = lambda text, where=where: say(f"{where}{text}")  # type: ignore[misc]
    try:
        failures = asyncio.run(_examine_all(exams))
    except KeyboardInterrupt:
        say.clear()
        print("seseragi: interrupted", file=sys.stderr)
        return INTERRUPTED
    say.clear()
    exam, failure, url = exams[0], failures[0], str(exams[0].client.url)
    inner = [
        Via(one, str(one.client.url), why or ("it was not completed" if one.given_up else ""))
        for one, why in zip(exams[1:], failures[1:], strict=True)
    ]
    locate(exam, url, inner)
    if options.json:
        report = render_json(exam, url=url, failure=failure, inner=inner)
        print(json.dumps(report, indent=2))
    else:
        print(render_text(exam, url=url, failure=failure, inner=inner), end="")
    if any(finding.wrong for finding in exam.findings):
        return WRONG
    return NOT_TRIED if failure else WELL


async def _examine_all(exams: Sequence[Session]) -> list[str]:
    """Examine one after the other, so that none disturbs the times of another."""
    return [await examine(exam) for exam in exams]


def build_exam(options: argparse.Namespace, environ: Mapping[str, str], text: str) -> Session:
    """Read the arguments, for the URL of this text."""
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
        raise CannotTry(f"--key or {CLIENT_KEY}: has characters that no key has")
    if options.origin and not (options.origin.isascii() and options.origin.isprintable()):
        raise CannotTry(f"--origin: {options.origin!r} is no origin")
    return Session(
        Client(
            url,
            credential=(("authorization", f"Bearer {key}"),) if key else (),
            trust=_open_trust(options.ca),
            timeout_s=options.timeout,
        ),
        idle_s=options.idle,
        model=options.model,
        origin=options.origin,
    )


def _open_trust(ca: str | None) -> ssl.SSLContext:
    trust = ssl.create_default_context()
    if not trust.cert_store_stats()["x509_ca"]:  # a system without certificates of its own
        trust.load_verify_locations(certifi.where())
    if ca is not None:
        try:
            trust.load_verify_locations(ca)
        except (OSError, ssl.SSLError) as error:
            raise CannotTry(f"--ca: {ca!r} cannot be read: {error}") from None
    return trust


async def examine(exam: Session) -> str:
    """Try all; return why it could not be tried, if so."""
    watching = asyncio.create_task(exam.lag.watch())
    try:
        await reach(exam)
        await look_at_requests(exam)
        await look_at_stream(exam)
        for probe in (
            *(look_at_reading, look_at_readers, look_at_stops, find_body_cap, ask_as_page),
            *(look_at_many, look_at_silence),
        ):
            await probe(exam)
        await look_at_refusals(exam)
        count_failures(exam)
    except GivenUp as reason:
        exam.given_up = True
        if not str(reason) and not any(finding.wrong for finding in exam.findings):
            return "this machine is too busy: see the notes"
        return str(reason)
    finally:
        watching.cancel()
    exam.findings.sort(key=_seriousness)
    return ""


def _seriousness(finding: Finding) -> bool:
    return not finding.wrong


class _Progress:
    """One line on stderr that says what is done now; nothing where nobody looks at it."""

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
        """Take the line away."""
        if self._terminal and not self._quiet:
            print(f"\r{'':<{self._width}}\r", end="", file=sys.stderr, flush=True)
