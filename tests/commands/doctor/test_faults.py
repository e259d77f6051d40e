"""Faults that no proxy has by one line of its configuration, and those that are no proxy's."""

import asyncio
import contextlib
import re
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest
import trustme

from app.commands.doctor.command import examine
from app.commands.doctor.session import Session
from app.commands.doctor.wire import Client, parse_url
from tests.commands.doctor.exams import (
    HEARTBEAT_S,
    PACE,
    Case,
    Seen,
    examine_all,
    examine_url,
    judge,
)
from tests.commands.doctor.tampering import Faults, page, replacing, tampering
from tests.proxies.programs import Proxy
from tests.serving import serve_relay
from tests.waiting import until

pytestmark = [pytest.mark.proving, pytest.mark.alone]


def drop_ids(data: bytes) -> bytes:
    return re.sub(rb"(?m)^id:.*\n", b"", data)


def holding(size: int) -> Callable[[bytes], bytes]:
    """Hold back until so many bytes are there."""
    kept = b""

    def body(data: bytes) -> bytes:
        nonlocal kept
        kept = data if b"stream.start" in data else kept + data
        if len(kept) < size and b"stream.end" not in data:
            return b""
        whole, kept = kept, b""
        return whole

    return body


def sometimes(head: bytes, number: int) -> bytes | None:
    return page(b"502 Bad Gateway") if number % 9 == 5 else None


def on(pattern: bytes, status: bytes) -> Callable[[bytes, int], bytes | None]:
    return lambda head, number: page(status) if re.match(pattern, head) else None


def set_header(name: bytes, value: bytes) -> Callable[[bytes], bytes]:
    return lambda head: re.sub(rb"(?i)\r\n%b: [^\r]*" % name, b"\r\n%b: %b" % (name, value), head)


def each(number: int, answer: bytes) -> Callable[[bytes, int], bytes | None]:
    """Answer so in place of the relay, now and then."""
    return lambda head, n: answer if n % number == number - 1 else None


def plain(status: bytes, *headers: bytes) -> bytes:
    return b"\r\n".join((b"HTTP/1.1 " + status, *headers, b"content-length: 0", b"", b""))


def chat(answer: bytes) -> Callable[[bytes, int], bytes | None]:
    return lambda head, number: answer if head.startswith(b"POST /v1/chat ") else None


@contextlib.asynccontextmanager
async def two_relays(folder: Path, relay: int) -> AsyncIterator[Proxy | str]:
    """Two that share no log, one request each in turn."""
    async with serve_relay(observers=(), demo_pace=PACE, heartbeat_s=HEARTBEAT_S) as other:
        turns = tampering(Faults(), port=lambda relay, n: other.port if n % 2 else relay)
        async with turns(folder, relay) as url:
            yield url


@contextlib.asynccontextmanager
async def below_a_prefix(folder: Path, relay: int) -> AsyncIterator[str]:
    strips = tampering(Faults(request=replacing(b" /llm/", b" /")))
    async with strips(folder, relay) as url:
        yield f"{url}/llm"


KEY = "sk_" + "a" * 40
LOGIN = plain(b"401 Unauthorized", b"www-authenticate: Basic realm=x")
SLASH = plain(b"302 Found", b"location: /v1/chat/")
MANY = page(b"429 Too Many Requests")
REDIRECT = b"HTTP/1.1 301 x\r\nlocation: https://127.0.0.1:1/healthz\r\ncontent-length: 0\r\n\r\n"
HINTS = b"HTTP/1.1 103 Early Hints\r\nlink: </a.css>; rel=preload\r\n\r\n"
LONGER = {"idle_s": 6}

CASES = {
    "hands on": Case(tampering(Faults())),
    "blocks": Case(tampering(Faults(body=holding(2048))), {"buffered"}, "held back"),
    "takes ids": Case(tampering(Faults(body=drop_ids)), {"fields"}, "id: is gone"),
    "transcodes": Case(
        tampering(Faults(body=replacing(b"\xf0\x9f", b"??"))), {"fields"}, "the text is not"
    ),
    "so many seconds": Case(tampering(Faults(ends_after_s=5)), {"total_cut"}, options=LONGER),
    "dies in silence": Case(
        tampering(Faults(dies_after_s=3)), {"idle_cut"}, "stays open", options=LONGER
    ),
    "fails at times": Case(tampering(Faults(refuse=sometimes)), {"flaky"}, "502"),
    "no DELETE": Case(tampering(Faults(refuse=on(b"DELETE", b"403 Forbidden"))), {"methods"}),
    "no cancel": Case(
        tampering(Faults(refuse=on(rb"POST \S*/cancel", b"403 Forbidden"))), {"stop"}
    ),
    "leads elsewhere": Case(tampering(Faults(refuse=lambda head, _: REDIRECT)), {"redirect"}),
    "not here": Case(tampering(Faults(refuse=on(b"", b"404 Not Found"))), {"not_seseragi"}),
    "other name": Case(tampering(Faults(request=set_header(b"host", b"relay.internal"))), {"host"}),
    "two relays": Case(two_relays, {"replicas"}),
    "prefix": Case(below_a_prefix, {"prefix"}),
    "login": Case(
        tampering(Faults(refuse=lambda head, _: LOGIN)),
        {"credential"},
        "login of its",
        options={"key": KEY},
    ),
    "POST leads elsewhere": Case(
        tampering(Faults(refuse=chat(SLASH))), {"redirect"}, "body is lost"
    ),
    "a page for POST": Case(tampering(Faults(refuse=chat(page(b"200 OK")))), {"errors", "page"}),
    "counts requests": Case(
        tampering(Faults(refuse=each(9, MANY))),
        {"rate_limit"},
        "429",
    ),
    "refuses all as too many": Case(
        tampering(Faults(refuse=lambda head, _: MANY)), {"rate_limit"}, "each time"
    ),
    "closes at times": Case(
        tampering(Faults(refuse=each(7, b""))), {"flaky"}, "disconnected without"
    ),
    "hints early": Case(tampering(Faults(answer=lambda head: HINTS + head))),
}


WITHOUT_SILENCE = (
    *("takes ids", "transcodes", "hints early"),
    *("fails at times", "closes at times", "no DELETE", "no cancel"),
    *("two relays", "prefix"),
    *("counts requests", "blocks"),
)
"""Cases that are known before anything is watched for long."""


async def test_each_fault_is_named_and_nothing_else(tmp_path):
    cases = {
        name: replace(case, options={"idle_s": 0, **case.options})
        if name in WITHOUT_SILENCE
        else case
        for name, case in CASES.items()
    }
    seen = await examine_all(cases, tmp_path)

    judge(CASES, seen)
    assert KEY not in seen["login"].words


async def test_certificate_of_another_name_is_told_and_nothing_is_sent(tmp_path):
    authority = trustme.CA()
    served = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("other.example").configure_cert(served)
    trust = ssl.create_default_context()
    authority.configure_trust(trust)
    heard = []

    async def hear(reader, writer):
        heard.append(await reader.read(100))
        writer.close()

    server = await asyncio.start_server(hear, "127.0.0.1", 0, ssl=served)
    async with server:
        port = server.sockets[0].getsockname()[1]
        client = Client(parse_url(f"https://localhost:{port}"), trust=trust, timeout_s=3)
        session = Session(client, idle_s=0)
        seen = Seen(session, await examine(session))

    await until(lambda: asyncio.all_tasks() == {asyncio.current_task()})  # the server's
    assert {"tls"} == seen.wrong
    assert "localhost" in seen.words
    assert [] == heard


async def test_nobody_there_is_no_finding():
    seen = await examine_url("http://127.0.0.1:1")

    assert "no connection to 127.0.0.1 port 1" in seen.failure
    assert set() == seen.wrong
