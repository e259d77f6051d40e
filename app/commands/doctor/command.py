"""The command `seseragi doctor URL`: the order of its probes, and the report with advice."""

import argparse
import asyncio
import contextlib
import json
import ssl
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.resources import files
from typing import Any

import certifi

from ...settings import SettingsError
from ...settings.identity import CLIENT_KEY
from .path import Hop
from .reachability import count_failures, reach
from .reading import look_at_idle, look_at_reading, look_at_stops
from .requests import look_at_requests, send_large_body
from .session import Finding, GivenUp, Session
from .streaming import look_at_stream
from .wire import Client, parse_url

ADVICE: Mapping[str, Mapping[str, str]] = tomllib.loads(
    files(__package__).joinpath("advice.toml").read_text("utf-8")
)
"""By finding and program; `any` is for all others."""
PROXIES = "docs/proxies.md"
AT_ONCE = "docs/streaming-errors.md#it-all-comes-at-once"
RELAY = frozenset(("replicas", "prefix"))
"""Findings caused by the relay, and by no proxy."""


def advise(code: str, hops: Sequence[Hop]) -> list[tuple[Hop | None, str]]:
    """Return the advice for each program that has some; the general one if none has."""
    table = ADVICE[code]
    special = [(hop, table[hop.program]) for hop in hops if hop.program in table]
    return [*special] or [(None, table["any"])]


def _sorted(session: Session) -> list[tuple[Finding, list[tuple[Hop | None, str]]]]:
    """Return the findings with their advice, notes last."""
    findings = sorted(session.findings, key=lambda finding: not finding.wrong)
    return [(finding, advise(finding.code, session.hops)) for finding in findings]


def render_json(session: Session, failure: str = "") -> dict[str, Any]:
    """Return the report for programs."""
    wrong = any(finding.wrong for finding in session.findings)
    return {
        "url": str(session.client.url),
        "status": "wrong" if wrong else "not tried" if failure else "well",
        **({"reason": failure} if failure else {}),
        "hops": [
            {"program": hop.program, "name": hop.shown, "evidence": hop.evidence}
            for hop in session.hops
        ],
        "findings": [
            {**asdict(finding), "advice": [_to_json(*one) for one in advice]}
            for finding, advice in _sorted(session)
        ],
        "measures": session.measures,
    }


def _to_json(hop: Hop | None, message: str) -> dict[str, str | None]:
    return {"program": hop.program if hop else None, "message": message}


def render_text(session: Session, failure: str = "") -> str:
    """Return the report for people."""
    width = max(map(len, session.measures), default=0)
    lines = [f"seseragi doctor {session.client.url}", ""]
    lines += [f"  {name:<{width}}  {message}" for name, message in session.measures.items()]
    lines += ["", "In between:"]
    lines += [f"  {hop.shown} ({hop.evidence})" for hop in session.hops]
    if not session.hops:
        lines.append("  no program that names itself")
    for finding, advice in _sorted(session):
        mark = "WRONG" if finding.wrong else "note "
        lines += ["", f"{mark}  {finding.code}: {finding.message}"]
        for hop, message in advice:
            suspect = "" if hop is None or finding.code in RELAY else f"likely {hop.shown}: "
            lines.append(f"       {suspect}{message}")
    count = sum(finding.wrong for finding in session.findings)
    lines.append("")
    if failure:
        lines.append(f"Could not be examined: {failure}")
    elif count:
        late = any(finding.code in ("buffered", "compressed") for finding in session.findings)
        pages = f"{PROXIES} and {AT_ONCE}" if late else PROXIES
        lines.append(f"{count} {'thing is' if count == 1 else 'things are'} wrong; see {pages}.")
    else:
        lines.append("Nothing is wrong.")
    text = "\n".join(lines)  # with names and pages of others: no control characters
    return "".join(c if c.isprintable() or c == "\n" else f"\\x{ord(c):02x}" for c in text) + "\n"


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
