"""Reachability: connection, TLS, redirects, host names, credentials; and failures over all."""

import ssl
from urllib.parse import urljoin

from . import path
from .session import GivenUp, Session
from .wire import Reply


async def reach(session: Session) -> None:
    """Find the relay.

    Raises:
        GivenUp: the URL does not lead to a relay.
    """
    session.progress("connecting")
    client = session.client
    try:
        session.hops = await path.provoke_error_page(client)
    except OSError as error:
        # Without an errno the peer closed in the handshake: it does not speak TLS, or not 1.2.
        closed = isinstance(error, ConnectionError) and not error.errno
        if closed or isinstance(error, ssl.SSLError):
            session.wrong("tls", f"TLS fails: {_reason_of(error)}")
            raise GivenUp from None
        where = f"{client.host} port {client.port}"
        raise GivenUp(f"no connection to {where}: {_reason_of(error)}") from None
    reply = await client.ask("GET", "/healthz", anonymous=True)
    if not reply.status:
        raise GivenUp(f"{client.url} does not answer: {reply.describe()}")
    session.measures["reached"] = f"{reply.asked} answers in HTTP/{reply.version}"
    session.hops = path.join(path.from_reply(reply), session.hops)
    if judge_redirect(session, reply):
        raise GivenUp
    if reply.version == "1.0":
        session.wrong(
            "http10",
            "answers come in HTTP/1.0, where a body ends with its connection: a stream that was "
            "cut looks complete",
        )
    await _list_models(session, reply)


async def _list_models(session: Session, health: Reply) -> None:
    client = session.client
    reply = await client.ask("GET", "/v1/models")
    healthy = health.status == 200 and health.json().get("status") == "ok"
    message = _message(reply)
    if reply.status == 403 and "allowed_hosts" in message:
        session.wrong("host", f"the relay does not allow the host name that arrives: {message}")
        raise GivenUp
    if reply.status == 401 and not reply.own:
        session.wrong(
            "credential",
            "a proxy has a login of its own: 401, which is not the relay's answer; clients of the "
            "relay cannot pass it",
        )
        raise GivenUp
    if reply.status == 401:
        raise GivenUp(
            f"{client.url} refuses the credential, or a proxy removes Authorization (401)"
            if client.key
            else f"{client.url} requires a credential: give --key (401)"
        )
    rows = reply.json().get("data")
    if reply.status == 200 and isinstance(rows, list):
        names = [row.get("id") for row in rows if isinstance(row, dict)]
        session.models = frozenset(name for name in names if isinstance(name, str))
        if not healthy:
            session.wrong("page", f"GET /healthz does not reach the relay: {health.describe()}")
        return
    if reply.limited:
        session.wrong(
            "rate_limit", f"{reply.asked}: refused each time before the relay: {reply.describe()}"
        )
    elif healthy and not judge_redirect(session, reply):
        session.wrong("page", f"GET /v1/models does not reach the relay: {reply.describe()}")
    elif not session.found("redirect"):
        session.wrong(
            "not_seseragi",
            f"this is not a seseragi relay: GET /healthz gets {health.describe()}, "
            f"GET /v1/models {reply.describe()}",
        )
    raise GivenUp


def judge_redirect(session: Session, reply: Reply) -> bool:
    """Return whether an answer is a redirect, and add it as a fault."""
    if not reply.redirects:
        return False
    change = (
        "" if reply.status in (307, 308) or not reply.asked.startswith("POST")
        else ": clients that follow it send a GET, and their request body is lost"
    )  # fmt: skip
    place = urljoin(
        f"{session.client.url}{reply.asked.partition(' ')[2]}", reply.header("location")
    )
    session.wrong(
        "redirect",
        f"{reply.asked} answers {reply.status} and leads to {place[:200]}{change}; examine the URL "
        "that it leads to",
    )
    return True


def _reason_of(error: OSError) -> str:
    """Return why a connection failed."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message.lower()
    reason = error.reason if isinstance(error, ssl.SSLError) else error.strerror
    return (reason or str(error) or "no answer in time").replace("_", " ").lower()


def _message(reply: Reply) -> str:
    body = reply.json()
    error = body.get("error")
    message = error.get("message") if isinstance(error, dict) else body.get("detail")
    return str(message or reply.describe())


def count_failures(session: Session) -> None:
    """Look for limits on the rate of requests, and for requests that fail now and then."""
    replies = session.client.replies
    limited = [reply for reply in replies if reply.limited]
    if limited and not session.found("errors", "page"):
        before = sum(limited[0].began - 1 <= reply.began <= limited[0].began for reply in replies)
        session.wrong(
            "rate_limit",
            f"a proxy refused {len(limited)} of {len(replies)} requests with "
            f"{limited[0].describe()}, the first after {before} within a second: several tabs, or "
            "people behind one address, send as many",
        )
    failed = [
        reply
        for reply in replies
        if (reply.bad_gateway and not reply.limited)
        or (not reply.status and reply.ended and reply.ending == "cut")
    ]
    if failed and not session.found(
        *("idle_cut", "total_cut", "json_cut", "rate_limit", "body_size"),
        *("page", "errors", "truncated", "methods", "redirect"),
    ):
        session.wrong(
            "flaky",
            f"{len(failed)} of {len(replies)} requests failed before the relay: {failed[0].asked} "
            f"got {failed[0].describe()}",
        )
