"""What becomes of a request on its way, and of a plain answer: headers, methods, bodies, errors."""

import asyncio
import secrets
from typing import Any

from . import path
from .reachability import judge_redirect
from .session import DEMO, FAILING, Session, size
from .wire import Reply

CODE = (
    "SELECT * FROM users WHERE id='1' OR '1'='1' -- ; <script>alert(1)</script> "
    "../../etc/passwd $(cat /etc/passwd) ${jndi:ldap://x} {{7*7}} UNION SELECT password"
)
"""What people paste into a chat, and firewalls take for an attack."""

LOOKS = 6
"""How often a stream is asked for, to meet every relay behind a load balancer."""
LONG_HEADER = 6000
"""Less than any common proxy refuses by default."""
MARGIN = 4096
STEPS = 6
SURE = 3
FIRST_TRY = 64 * 1024
BODY_S = 30.0


async def look_at_requests(exam: Session) -> None:
    """Find out what a request and a short answer go through."""
    exam.say("looking at how requests arrive")
    await _ask_for_arrival(exam)
    await _ask_twice(exam)
    await _provoke_errors(exam)
    await _send_code(exam)
    await _send_origin(exam)
    await _send_headers(exam)


async def _ask_for_arrival(exam: Session) -> None:
    reply = await exam.client.ask(
        "GET", "/v1/arrival", headers=[("last-event-id", "st_1.1"), ("accept-encoding", "gzip")]
    )
    if reply.status != 200 or "http_version" not in reply.json():
        return  # an older relay
    exam.arrival = reply.json()
    headers = [
        (str(pair[0]), str(pair[1]))
        for pair in exam.arrival.get("headers") or []
        if isinstance(pair, list) and len(pair) == 2
    ]
    exam.hops = path.join(exam.hops, path.from_request(headers))
    exam.unseen = max(0, path.count_forwarders(headers) - len(exam.hops))
    came = dict(headers)
    exam.measure(
        "arrives",
        f"in HTTP/{exam.arrival['http_version']}, as {came.get('host', 'no host')}, "
        f"from {exam.arrival.get('client')}; seseragi {exam.arrival.get('version')}",
        **exam.arrival,
    )
    if exam.arrival["http_version"] == "1.0":
        exam.wrong(
            "http10_upstream",
            "requests reach the relay in HTTP/1.0: its answer ends when the connection does, so a "
            "stream that was cut between proxy and relay looks whole",
        )
    if exam.hops and not {"x-forwarded-for", "forwarded"} & came.keys():
        exam.note(
            "client_address",
            "the relay is not told the client's address (no X-Forwarded-For arrives): it counts "
            f"all clients as {exam.arrival.get('client')}, which share the limits of one",
        )


async def _ask_twice(exam: Session) -> None:
    """Ask for the same again: each answer of the relay has an id of its own."""
    for url_path in ("/v1/models", "/healthz", "/v1/streams/st_0000000000000000000000"):
        replies = [await exam.client.ask("GET", url_path) for _ in range(2)]
        await judge_twins(exam, replies, f"GET {url_path}")


async def judge_twins(exam: Session, replies: list[Reply], what: str) -> None:
    """Two answers to the same request must be two answers."""
    first, second = replies
    request_id = first.header("x-request-id")
    hit = next((h for h in ("x-cache", "cf-cache-status", "x-cache-status", "x-proxy-cache")
                if "hit" in second.header(h).lower()), None)  # fmt: skip
    if request_id and request_id == second.header("x-request-id"):
        exam.wrong("cached", f"{what} twice gives the same answer, with the same x-request-id")
    elif hit is not None:
        exam.wrong("cached", f"{what} comes from a cache: {hit}: {second.header(hit)}")
    elif not request_id and second.header("age") not in ("", "0"):
        exam.wrong("cached", f"{what} comes from a cache: age: {second.header('age')}")


async def _provoke_errors(exam: Session) -> None:
    """The relay's errors are JSON, and clients act on them."""
    tries: list[tuple[Reply, int, str]] = [
        (await exam.client.ask("GET", "/v1/streams/st_none/events"), 404, "not_found"),
        (await exam.client.ask("POST", "/v1/chat", body={"no": 1}), 400, "invalid_request"),
        (await exam.client.ask("DELETE", "/v1/streams/st_none"), 404, "not_found"),
    ]
    if exam.has(FAILING) and exam.model is None:
        body = {"model": FAILING, "messages": [{"role": "user", "content": "-"}]}
        reply = await count_starts(exam, body)
        tries.append((reply, 503, "upstream_overloaded"))
    exam.refusal = tries[1][0].describe()
    for reply, status, code in tries:
        if reply.code or (reply.status == 204 and not reply.size):
            continue
        if reply.limited or judge_redirect(exam, reply):
            continue
        if reply.bad_gateway and reply.status != status:  # it did not get there: `flaky`
            continue
        if reply.asked.startswith("DELETE") and reply.status in (403, 405, 501, 0):
            exam.wrong(
                "methods", f"DELETE does not reach the relay: {reply.describe()}; by it a client "
                "has the relay forget what was said",
            )  # fmt: skip
        else:
            exam.wrong(
                "errors",
                f"the relay's error {status} {code} becomes {reply.describe()}: clients cannot "
                "tell what went wrong, nor whether to try again",
                asked=reply.asked,
            )


async def count_starts(exam: Session, body: object) -> Reply:
    """Ask for what fails, and see by the relay's own count how often it was asked.

    Others ask too meanwhile, so it is a proxy only if it is so each time, and never without.
    """
    counts: list[int] = []
    for _ in range(SURE):
        counted, sent, reply, took = await _count_one(exam, body)
        if counted <= sent:
            return reply
        counts.append(counted)
    for _ in range(SURE):
        before = await _requests_of_today(exam)
        await asyncio.sleep(took)
        if before != await _requests_of_today(exam):
            return reply
    exam.wrong(
        "repeated",
        f"a POST that fails with {reply.status} reaches the relay {min(counts)} times: "
        "each time a model is asked, and may be paid for",
        times=min(counts),
    )
    return reply


async def _count_one(exam: Session, body: object) -> tuple[int, int, Reply, float]:
    """Return how many requests the relay counted, and how many were sent."""
    before = await _requests_of_today(exam)
    sent = len(exam.client.replies)
    reply = await exam.client.ask("POST", "/v1/chat", body=body)
    sent = len(exam.client.replies) - sent
    after = await _requests_of_today(exam)
    counted = after - before if before is not None and after is not None else 0
    return counted, sent, reply, reply.ended - reply.began


async def _requests_of_today(exam: Session) -> int | None:
    reply = await exam.client.ask("GET", "/v1/usage")
    today = reply.json().get("today")
    count = today.get("requests") if isinstance(today, dict) else None
    return count if isinstance(count, int) else None


async def _send_code(exam: Session) -> None:
    """Send what a firewall may take for an attack, in a request that the relay refuses."""
    message = {"role": "user", "content": CODE}
    body = {"model": exam.model or DEMO, "messages": [message], "no_such_field": CODE}
    reply = await exam.client.ask("POST", "/v1/chat", body=body)
    foreign = not reply.code and not reply.limited and not reply.bad_gateway
    if foreign and not exam.found("errors", "redirect"):
        exam.plain = True
        exam.wrong(
            "filter",
            f"a prompt with code in it (SQL, a script, a path) is refused: {reply.describe()}",
        )


async def _send_origin(exam: Session) -> None:
    """A page that the relay serves itself may ask it: host and origin agree, if they arrive."""
    origin = ("origin", exam.client.url.origin)
    reply = await exam.client.ask("POST", "/v1/chat", body={"no": 1}, headers=[origin])
    if reply.status == 403:
        came = {str(p[0]): str(p[1]) for p in exam.arrival.get("headers") or [] if len(p) == 2}
        host = f" (Host arrives as {came['host']!r})" if "host" in came else ""
        exam.wrong(
            "origin",
            f"the relay's own page at {exam.client.url.origin} may not ask it{host}: 403, since "
            "its origin is not the name that the relay is asked by",
        )
    _judge_allowed(exam, reply)


def _judge_allowed(exam: Session, reply: Reply) -> None:
    allowed = reply.all("access-control-allow-origin")
    if len(allowed) > 1 or (allowed and "," in allowed[0]):
        exam.wrong(
            "cors",
            f"access-control-allow-origin is there more than once ({', '.join(allowed)}): "
            "browsers refuse that",
        )


async def _send_headers(exam: Session) -> None:
    """Send headers that change what the relay does, and see whether they did."""
    client = exam.client
    key = secrets.token_hex(12)
    ask: dict[str, Any] = {"body": exam.chat(max_tokens=1)}
    headers = [("prefer", "respond-async"), ("idempotency-key", key)]
    replies = [
        await client.ask(
            "POST", "/v1/chat", **ask, headers=headers, until=lambda reply: reply.status == 200
        )
        for _ in range(2)
    ]
    await _send_large_header(exam)
    lost = []
    if replies[0].status == 200 and not replies[0].is_page:
        lost.append("Prefer")
    ids = [str(reply.header("stream-id") or reply.json().get("id") or "") for reply in replies]
    if all(ids) and ids[0] != ids[1] and await find_everywhere(exam, ids[0]):
        lost.append("Idempotency-Key")
    if lost:
        exam.wrong(
            "request_header",
            f"{' and '.join(lost)} of a request {'do' if len(lost) > 1 else 'does'} not reach the "
            "relay",
            headers=lost,
        )
    _look_at_prefix(exam, replies[0])


async def find_everywhere(exam: Session, stream: str) -> bool:
    """Ask for a stream several times: every relay behind the URL has to know it."""
    if exam.found("replicas"):
        return False
    path = f"/v1/streams/{stream}"
    replies = [await exam.client.ask("GET", path) for _ in range(LOOKS)]
    lost = sum(reply.status == 404 for reply in replies)
    if lost and any(reply.code == "not_found" for reply in replies):
        exam.wrong(
            "replicas",
            f"a stream that was just started is not there for {lost} of {LOOKS} requests: there "
            "are several relays behind the URL, and they do not share a log",
            lost=lost,
            of=LOOKS,
        )
        return False
    failed = [reply for reply in replies if reply.status != 200 and not reply.limited]
    if failed and not judge_redirect(exam, failed[0]):
        told = failed[0].describe()
        exam.lacks("page", failed[0], f"GET /v1/streams/... does not reach the relay: {told}")
    return not failed


async def _send_large_header(exam: Session) -> None:
    """Send a header as long as a credential of an identity provider may be."""
    reply = await exam.client.ask("GET", "/v1/models", headers=[("x-long", "x" * LONG_HEADER)])
    if reply.status != 200 and not (reply.own or reply.limited or reply.bad_gateway):
        exam.wrong(
            "request_header",
            f"a request with a header of {size(LONG_HEADER)} is refused before the relay: "
            f"{reply.describe()}; credentials of identity providers are that long",
        )


def _look_at_prefix(exam: Session, reply: Reply) -> None:
    """URLs that the relay gives have to lead to it through the proxy."""
    prefix = exam.client.url.prefix
    events = reply.json().get("events_url")
    place = events if isinstance(events, str) else reply.header("content-location")
    if prefix and place and not place.startswith(f"{prefix}/"):
        exam.wrong(
            "prefix",
            f"the relay gives URLs such as {place.partition('?')[0]!r}, which do not begin with "
            f"{prefix!r}: it does not know the prefix that the proxy takes away",
        )


async def find_body_cap(exam: Session) -> None:
    """Send bodies as large as the relay takes; find where they are refused, if they are."""
    exam.say("sending a large request")
    limit = exam.arrival.get("max_request_bytes")
    top = (limit if isinstance(limit, int) else 4 * 2**20) - MARGIN
    refusal = await _send_body(exam, top)
    if refusal is None:
        exam.measure("request body", f"{size(top)} pass", bytes=top)
        return
    low, high = 0, top
    middle = min(FIRST_TRY, top // 2)
    for _ in range(STEPS + 3):
        again = await _send_body(exam, middle)
        if again is None:
            low = middle
        else:
            high, refusal = middle, again
        if high - low <= max(2048, high // 16):
            break
        middle = low * 4 if low and low * 4 < high and high == top else (low + high) // 2
    exam.measure("request body", f"{size(low)} pass, {size(high)} do not", bytes=low)
    exam.hops = path.join(exam.hops, path.from_replies([refusal]))
    says = (
        f"requests over {size(low)} or so are refused before the relay: {refusal.describe()}; it "
        f"takes {size(top + MARGIN)}"
    )
    if refusal.bad_gateway:
        exam.late("body_size", says, during=[refusal.span], passes=low, refused=high)
    else:
        exam.wrong("body_size", says, passes=low, refused=high)


async def _send_body(exam: Session, length: int) -> Reply | None:
    """Send so many bytes that the relay reads and refuses; return what refused them before it."""
    start, end = b'{"no_such_field":"', b'"}'
    body = start + b"x" * (length - len(start) - len(end)) + end
    within_s = max(exam.client.timeout_s, BODY_S)
    reply = await exam.client.ask("POST", "/v1/chat", body=body, within_s=within_s)
    if reply.limited:
        return None
    if reply.status == 429:  # our share of starts a minute
        await asyncio.sleep(1)
        reply = await exam.client.ask("POST", "/v1/chat", body=body, within_s=within_s)
    if reply.code == "invalid_request" or reply.describe() == exam.refusal:
        return None
    told = str(reply.json().get("detail", ""))
    return None if reply.code == "request_too_large" and "max_request_bytes" in told else reply


async def ask_as_page(exam: Session) -> None:
    """Ask as a page of another origin does: first whether it may, then for the answer."""
    origin = exam.origin
    if origin is None:
        return
    exam.say(f"asking as a page of {origin}")
    wanted = ("content-type", "authorization", "last-event-id", "idempotency-key")
    asked = await exam.client.ask(
        "OPTIONS",
        "/v1/chat",
        anonymous=True,
        headers=[
            ("origin", origin),
            ("access-control-request-method", "POST"),
            ("access-control-request-headers", ", ".join(wanted)),
        ],
    )
    reply = await exam.client.ask("POST", "/v1/chat", body={"no": 1}, headers=[("origin", origin)])
    says = _what_cors_lacks(asked, reply, origin, wanted)
    exam.measure("cors", f"preflight {asked.describe()}, POST {reply.describe()}")
    if says:
        exam.wrong("cors", f"a page of {origin} cannot ask: {says}")
    _judge_allowed(exam, reply)


def _what_cors_lacks(asked: Reply, reply: Reply, origin: str, wanted: tuple[str, ...]) -> str:
    if reply.code == "forbidden":
        return "the relay refuses it (403)"
    if not 200 <= asked.status < 300:
        return f"the preflight (OPTIONS) gets {asked.describe()}"
    if asked.header("access-control-allow-origin") not in ("*", origin):
        return "the answer to the preflight lacks access-control-allow-origin"
    methods = asked.header("access-control-allow-methods").upper()
    if "POST" not in methods and "*" not in methods:
        return f"the preflight allows {methods or 'no methods'}"
    allowed = asked.header("access-control-allow-headers").lower()
    lacking = [name for name in wanted if name not in allowed and allowed.strip() != "*"]
    if lacking:
        return f"the preflight does not allow the headers {', '.join(lacking)}"
    if reply.header("access-control-allow-origin") not in ("*", origin):
        return "the answer lacks access-control-allow-origin, which the preflight's has"
    if "stream-id" not in reply.header("access-control-expose-headers").lower():
        return "access-control-expose-headers, by which pages read stream-id, is lost"
    return ""
