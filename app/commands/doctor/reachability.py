"""Is it there, is it a relay, may we ask: addresses, TLS, redirects, names, credentials."""

import asyncio
import datetime
import email.utils
import socket
import ssl
import time
from collections.abc import Sequence
from urllib.parse import urljoin

from . import path
from .session import GivenUp, Session, within
from .wire import Client, Reply, Url, reason_of

SOON_DAYS = 14
CLOCK_S = 30.0
"""Clocks may differ by so much; tokens and keys that end are judged by them."""


async def reach(exam: Session) -> None:
    """Find the relay.

    Raises:
        GivenUp: there is none.
    """
    exam.say("connecting")
    await _try_addresses(exam)
    reply = await exam.client.ask("GET", "/healthz", anonymous=True)
    reply = await _follow_redirects(exam, reply)
    if not reply.status:
        if reply.ending == "tls":
            exam.wrong("tls", f"TLS fails: {reply.error}")
            raise GivenUp
        if exam.found("redirect"):
            raise GivenUp
        raise GivenUp(f"{exam.client.url} does not answer: {reply.describe()}", tried=False)
    exam.measure(
        "reached",
        f"{reply.asked} answers in {within(reply.seconds)}, HTTP/{reply.version}",
        seconds=round(reply.seconds, 4),
        http=reply.version,
    )
    if reply.version == "1.0":
        exam.wrong(
            "http10",
            "answers come in HTTP/1.0, which ends a body by closing the connection: a stream that "
            "was cut looks whole",
        )
    exam.hops = path.join(path.from_replies([reply]), await path.ask_nonsense(exam.client))
    if exam.client.url.scheme == "https":
        await _look_at_tls(exam)
    await _ask_who_may(exam, reply)


async def _try_addresses(exam: Session) -> None:
    """Connect to each address of the name: clients that meet a dead one wait for it."""
    url = exam.client.url
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            url.host, url.port, type=socket.SOCK_STREAM
        )
    except (OSError, UnicodeError):
        raise GivenUp(f"{url.host!r} is not a name that can be found", tried=False) from None
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    failed: dict[str, str] = {}
    for address in addresses:
        try:
            async with asyncio.timeout(exam.client.timeout_s):
                _, writer = await asyncio.open_connection(address, url.port)
            writer.close()
        except (OSError, TimeoutError) as error:
            failed[address] = "no answer" if isinstance(error, TimeoutError) else reason_of(error)
    exam.measure("addresses", ", ".join(addresses), addresses=addresses, failed=failed)
    if len(failed) == len(addresses):
        reason = next(iter(failed.values()))
        raise GivenUp(f"no connection to {url.host} port {url.port}: {reason}", tried=False)
    if failed and url.host != "localhost":
        told = ", ".join(f"{address} ({reason})" for address, reason in failed.items())
        exam.wrong("address", f"{url.host} has addresses that do not answer: {told}", failed=failed)


async def _follow_redirects(exam: Session, reply: Reply) -> Reply:
    for _ in range(4):
        if not reply.redirects:
            return reply
        place = urljoin(f"{exam.client.url}/healthz", reply.header("location"))
        exam.hops = path.from_replies([reply])
        exam.wrong(
            "redirect",
            f"{exam.client.url} answers {reply.status} and leads to {place[:200]}: "
            "a POST that follows it becomes a GET, or is not sent again at all",
            status=reply.status,
        )
        if not place.endswith("/healthz"):
            raise GivenUp
        try:
            url = Url.parse(place.removesuffix("/healthz"))
        except ValueError:
            raise GivenUp from None
        old = exam.client
        if old.credential and url.origin != old.url.origin:
            raise GivenUp(
                f"the key is not sent to {url.origin}, another origin than the one that it was "
                f"given for; if that is yours, examine {url}"
            )
        exam.client = Client(
            url, credential=old.credential, trust=old.trust, timeout_s=old.timeout_s
        )
        reply = await exam.client.ask("GET", "/healthz", anonymous=True)
    raise GivenUp


async def _look_at_tls(exam: Session) -> None:
    exam.say("looking at TLS")
    url = exam.client.url
    offered = ssl.create_default_context()
    offered.check_hostname = False
    offered.verify_mode = ssl.CERT_NONE  # the requests check it; this asks what is spoken
    offered.set_alpn_protocols(["h2", "http/1.1"])
    try:
        async with asyncio.timeout(exam.client.timeout_s):
            _, spoken = await asyncio.open_connection(
                url.host, url.port, ssl=offered, server_hostname=url.host
            )
            _, trusted = await exam.client.connect()
    except (OSError, TimeoutError):
        return
    protocol = spoken.get_extra_info("ssl_object").selected_alpn_protocol() or "http/1.1"
    tls = trusted.get_extra_info("ssl_object")
    certificate = tls.getpeercert() or {}
    spoken.transport.abort()
    trusted.transport.abort()
    days = None
    if "notAfter" in certificate:
        days = (ssl.cert_time_to_seconds(certificate["notAfter"]) - time.time()) / 86_400
    left = f", certificate valid for {days:.0f} days" if days is not None else ""
    exam.measure(
        "tls", f"{tls.version()}, offers {protocol}{left}", version=tls.version(), alpn=protocol
    )
    if days is not None and days < SOON_DAYS:
        exam.wrong("certificate", f"the certificate ends in {days:.1f} days", days=round(days, 1))
    if protocol != "h2":
        exam.note(
            "http2",
            "HTTP/2 is not offered: over HTTP/1.1 a browser opens six connections to a host, for "
            "all its tabs together, and the seventh stream waits",
        )


async def _ask_who_may(exam: Session, health: Reply) -> None:
    """Ask for the models: whether this is a relay, under which name, and who may ask."""
    exam.say("asking for the models")
    client = exam.client
    reply = await client.ask("GET", "/v1/models")
    if reply.status == 401 and client.credential:
        reply = await _try_other_header(exam, reply)
    healthy = health.status == 200 and health.json().get("status") == "ok"
    if reply.status == 403 and "allowed_hosts" in str(_message(reply)):
        exam.wrong(
            "host",
            f"the relay refuses the name under which it is asked: {_message(reply)}",
        )
        raise GivenUp
    if reply.status == 401 and not reply.own:
        asked = reply.header("www-authenticate")
        exam.wrong(
            "credential",
            "something before the relay asks for a login of its own: 401"
            f"{f' with www-authenticate: {asked[:80]}' if asked else ''}, which is not the "
            "relay's answer; clients of the relay know nothing of it",
        )
        raise GivenUp
    if reply.status == 401:
        why = "refuses the credential" if client.credential else "wants a credential: give --key"
        raise GivenUp(f"{client.url} {why} (401)", tried=False)
    rows = reply.json().get("data")
    if reply.status == 200 and isinstance(rows, list):
        names = [row.get("id") for row in rows if isinstance(row, dict)]
        exam.models = frozenset(name for name in names if isinstance(name, str))
        if not healthy:
            _note_page(exam, health)
    elif reply.limited:
        exam.wrong("rate_limit", f"{reply.asked} is refused each time before the relay: 429")
        raise GivenUp
    elif judge_redirect(exam, reply):
        raise GivenUp
    elif healthy:
        exam.lacks(
            "page",
            reply,
            f"GET /healthz is the relay's, but GET /v1/models is not: {reply.describe()}",
        )
        raise GivenUp
    else:
        exam.wrong(
            "not_seseragi",
            f"this is no seseragi: GET /healthz gives {health.describe()}, "
            f"GET /v1/models {reply.describe()}",
        )
        raise GivenUp


def judge_redirect(exam: Session, reply: Reply) -> bool:
    """Return whether a request of the relay's API is led elsewhere, and say so."""
    if not reply.redirects:
        return False
    change = (
        "" if reply.status in (307, 308) or not reply.asked.startswith("POST")
        else ": clients that follow it ask by GET, and their question is lost"
    )  # fmt: skip
    exam.wrong(
        "redirect",
        f"{reply.asked} answers {reply.status} and leads to {reply.header('location')[:200]!r}"
        f"{change}",
        status=reply.status,
    )
    return True


def _note_page(exam: Session, health: Reply) -> None:
    exam.wrong(
        "page", f"GET /healthz does not reach the relay: {health.describe()}, where the models do"
    )


async def _try_other_header(exam: Session, refused: Reply) -> Reply:
    """Show the credential where Anthropic's clients do, which fewer proxies touch."""
    client = exam.client
    bearer = client.credential
    client.credential = (("x-api-key", bearer[0][1].removeprefix("Bearer ")),)
    reply = await client.ask("GET", "/v1/models")
    if reply.status == 401:
        client.credential = bearer
        return refused
    exam.wrong(
        "credential",
        "the header Authorization does not reach the relay, which takes the same key as x-api-key",
    )
    return reply


def _message(reply: Reply) -> str:
    body = reply.json()
    error = body.get("error")
    told = error.get("message") if isinstance(error, dict) else body.get("detail")
    return str(told or reply.describe())


def count_failures(exam: Session) -> None:
    """Look for a proxy that fails now and then, as before several relays one of which is gone."""
    replies = exam.client.replies
    limited = [reply for reply in replies if reply.limited]
    if limited and not exam.found("concurrency"):
        before = sum(limited[0].began - 1 <= reply.began <= limited[0].began for reply in replies)
        exam.wrong(
            "rate_limit",
            f"{len(limited)} of {len(replies)} requests were refused before the relay with "
            f"{limited[0].describe()}, the first of them as one of {before} within a second: "
            "several tabs, or people behind one address, ask as often",
            refused=len(limited),
            of=len(replies),
        )
    failed = [
        reply
        for reply in replies
        if reply.bad_gateway
        or (not reply.status and reply.ended and reply.ending in ("cut", "refused"))
    ]
    if not failed or exam.found(
        *("idle_cut", "total_cut", "json_cut", "concurrency", "rate_limit", "body_size"),
        *("filter", "page", "errors", "truncated", "request_header", "methods", "redirect"),
    ):
        return
    exam.late(
        "flaky",
        f"{len(failed)} of {len(replies)} requests failed on their way: {failed[0].asked} got "
        f"{failed[0].describe()}",
        during=[reply.span for reply in failed],
        failed=len(failed),
        of=len(replies),
    )


def compare_clocks(exam: Session, replies: Sequence[Reply], created: object, at: float) -> None:
    """Compare this machine's clock with the relay's, and with that of who answers.

    `created` is the relay's time when a stream began, and `at` the time of it here, by the
    monotonic clock.
    """
    offset = time.time() - time.monotonic()
    told = []
    if isinstance(created, int):
        told.append(("the relay", created + 0.5 - (at + offset)))
    dated = next((reply for reply in reversed(replies) if reply.header("date")), None)
    if dated is not None and dated.headed is not None:
        try:
            date = email.utils.parsedate_to_datetime(dated.header("date"))
        except ValueError:
            date = None
        if date is not None:
            date = date.replace(tzinfo=date.tzinfo or datetime.UTC)
            told.append(("the header date", date.timestamp() + 0.5 - (dated.headed + offset)))
    if not told:
        return
    says = ", ".join(f"{who} {seconds:+.1f} s" for who, seconds in told)
    exam.measure("clock", f"against this machine's: {says}", **{w: round(s, 1) for w, s in told})
    far = [(who, seconds) for who, seconds in told if abs(seconds) > CLOCK_S]
    if far:
        says = ", ".join(
            f"{who} is {abs(seconds):.0f} s {'ahead of' if seconds > 0 else 'behind'} "
            "this machine's clock"
            for who, seconds in far
        )
        exam.wrong("clock", f"{says}: one of them is wrong")
