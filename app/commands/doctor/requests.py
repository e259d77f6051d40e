"""Requests and plain answers: headers, methods, bodies, errors, caches."""

from . import path
from .reachability import judge_redirect
from .session import FAILING, Session
from .wire import Reply

LOOKS = 6
"""GETs of one stream, to meet every relay behind a load balancer."""
MARGIN = 4096
BODY_S = 30.0


async def look_at_requests(session: Session) -> None:
    """Test how requests and plain answers arrive."""
    session.progress("looking at how requests arrive")
    await _read_echo(session)
    for url_path in ("/v1/models", "/healthz", "/v1/streams/st_0000000000000000000000"):
        replies = [await session.client.ask("GET", url_path) for _ in range(2)]
        judge_twins(session, replies, f"GET {url_path}")
    await _provoke_errors(session)
    await _send_origin(session)


async def _read_echo(session: Session) -> None:
    reply = await session.client.ask("GET", "/v1/echo")
    if reply.status != 200 or "http_version" not in reply.json():
        return
    session.echo = echo = reply.json()
    headers = [
        (str(pair[0]), str(pair[1]))
        for pair in echo.get("headers") or []
        if isinstance(pair, list) and len(pair) == 2
    ]
    arrived = dict(headers)
    session.measures["arrives"] = (
        f"in HTTP/{echo['http_version']}, as {arrived.get('host', 'no host')}, "
        f"from {echo.get('client')}; seseragi {echo.get('version')}"
    )
    if echo["http_version"] == "1.0":
        session.wrong(
            "http10_upstream",
            "requests reach the relay in HTTP/1.0, where an answer ends with its connection: a "
            "stream that was cut between proxy and relay looks complete",
        )
    if session.hops and not {"x-forwarded-for", "forwarded"} & arrived.keys():
        session.note(
            "client_address",
            "no X-Forwarded-For reaches the relay: it counts all clients as "
            f"{echo.get('client')}, and they share the limits of one",
        )


def judge_twins(session: Session, replies: list[Reply], name: str) -> None:
    """Compare two answers to the same request; each of the relay has its own x-request-id."""
    first, second = replies
    request_id = first.header("x-request-id")
    if request_id and request_id == second.header("x-request-id"):
        session.wrong("cached", f"{name} twice gets one answer, with the same x-request-id")


async def _provoke_errors(session: Session) -> None:
    """Check that errors of the relay arrive as they are: clients act on their JSON."""
    client = session.client
    tries: list[tuple[Reply, int, str]] = [
        (await client.ask("GET", "/v1/streams/st_none/events"), 404, "not_found"),
        (await client.ask("POST", "/v1/chat", body={"no": 1}), 400, "invalid_request"),
        (await client.ask("DELETE", "/v1/streams/st_none"), 404, "not_found"),
    ]
    if session.has(FAILING):
        body = {"model": FAILING, "messages": [{"role": "user", "content": "-"}]}
        tries.append((await client.ask("POST", "/v1/chat", body=body), 503, "upstream_overloaded"))
    session.refusal = tries[1][0].describe()
    for reply, status, code in tries:
        if reply.code or (reply.status == 204 and not reply.pieces):
            continue
        if (reply.limited and reply.status != status) or judge_redirect(session, reply):
            continue
        if reply.bad_gateway and reply.status != status:  # counted as `flaky`
            continue
        if reply.asked.startswith("DELETE") and reply.status in (403, 405, 501, 0):
            session.wrong("methods", f"DELETE does not reach the relay: {reply.describe()}")
        else:
            session.wrong(
                "errors",
                f"the relay's error {status} {code} becomes {reply.describe()}: clients cannot "
                "see the reason, nor whether to try again",
            )


async def _send_origin(session: Session) -> None:
    """POST as the relay's own page does: its origin has to be the host name that arrives."""
    origin = session.client.origin
    reply = await session.client.ask("POST", "/v1/chat", body={"no": 1}, headers={"origin": origin})
    if reply.status == 403:
        arrived = dict(pair for pair in session.echo.get("headers") or [] if len(pair) == 2)
        host = f" (Host arrives as {arrived['host']!r})" if "host" in arrived else ""
        session.wrong(
            "origin",
            f"the relay's own page at {origin} gets 403: its origin is not the "
            f"host name that arrives{host}",
        )


async def find_everywhere(session: Session, stream: str) -> bool:
    """Return whether every relay behind the URL has a stream."""
    if session.found("replicas"):
        return False
    replies = [await session.client.ask("GET", f"/v1/streams/{stream}") for _ in range(LOOKS)]
    missing = sum(reply.status == 404 for reply in replies)
    if missing and any(reply.code == "not_found" for reply in replies):
        session.wrong(
            "replicas",
            f"{missing} of {LOOKS} requests do not find a stream that was just started: several "
            "relays are behind the URL, and they do not share a log",
        )
        return False
    failed = [reply for reply in replies if reply.status != 200 and not reply.limited]
    if failed and not judge_redirect(session, failed[0]):
        message = f"GET /v1/streams/... does not reach the relay: {failed[0].describe()}"
        session.wrong("page", message)
    return not failed


async def send_large_body(session: Session) -> None:
    """Send a body as large as the relay takes, with a field that it refuses."""
    session.progress("sending a large request")
    limit = session.echo.get("max_request_bytes")
    length = (limit if isinstance(limit, int) else 4 * 2**20) - MARGIN
    body = b'{"no_such_field":"' + b"x" * length + b'"}'
    within_s = max(session.client.timeout_s, BODY_S)
    reply = await session.client.ask("POST", "/v1/chat", body=body, within_s=within_s)
    passes = reply.code or reply.limited or reply.describe() == session.refusal
    size = f"{length / 2**20:.1f} MiB"
    session.measures["request body"] = f"{size} {'passes' if passes else 'does not pass'}"
    if not passes:
        session.hops = path.join(session.hops, path.from_reply(reply))
        session.wrong(
            "body_size",
            f"a request of {size}, which the relay takes, is refused before it: {reply.describe()}",
        )
