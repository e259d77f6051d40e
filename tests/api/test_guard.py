"""Which hosts and which pages the relay answers, over real sockets."""

import asyncio
import contextlib
import json
import tracemalloc

import pytest

from app.api.guard import MAX_HOST, REMEMBERED, Guard, HostNames, parse_host
from app.api.request import REQUEST_HEADERS
from app.errors import RequestError
from app.testing.upstream import Hold, head, send, text
from tests.serving import HELLO, Relay, serve_relay, serve_script

EVIL = "http://evil.test"
BODY = json.dumps(HELLO).encode()
PATHS = {
    "/v1/chat": "application/problem+json",
    "/v1/chat/completions": "application/json",
    "/v1/messages": "application/json",
    "/v1/ui/chat": "text/plain",
    "/": "application/problem+json",
}


async def ask(
    relay: Relay, *headers: str, line: str = "GET /v1/models HTTP/1.1", body: bytes = b""
) -> tuple[int, str, bytes]:
    """Send these bytes, and give the status, the head and the body of what comes back."""
    reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
    with contextlib.closing(writer):
        lines = [line, "Connection: close", *headers]
        if body:
            lines.append(f"Content-Length: {len(body)}")
        writer.write("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
        answer = await asyncio.wait_for(reader.read(), 30)
    told, _, rest = answer.partition(b"\r\n\r\n")
    return int(told.split(b" ", 2)[1]), told.decode("latin-1").lower(), rest


LOCAL = [
    *("localhost", "localhost:8000", "LOCALHOST:1", "localhost.", "localhost:", "a.b.localhost"),
    *("127.0.0.1:8000", "127.255.0.9", "[::1]:8000", "[::1]", "[::ffff:127.0.0.1]", "127.0.0.1."),
]
FOREIGN = [
    *("evil.test", "evil.test:8000", "localhost.evil.test", "127.0.0.1.evil.test", "notlocalhost"),
    *("192.168.1.5", "10.0.0.1:8000", "[fe80::1]", "0.0.0.0:8000", "128.0.0.1", "127.1", "[::]"),
    *("xn--nxasmq6b.test", "2130706433", "localhost-"),
]
MALFORMED = [
    *("", ":8000", "user@localhost", "user:password@localhost", "localhost:80x", "localhost:-1"),
    *("localhost, evil.test", "localhost/", "localhost#", "localhost?", "local host", "[::1", "::1"),
    *("[::1]x", "[]", "[1.2.3.4]", "%6cocalhost", "bücher.test", "..", "localhost:123456", "*"),
    "a" * 300
]  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
async def test_a_rebound_name_is_refused_in_the_dialect_of_the_path(path):
    async with serve_relay() as relay:
        told = [
            await ask(relay, "Host: evil.test:8000", line=f"{method} {path} HTTP/1.1")
            for method in ("GET", "POST", "OPTIONS")
        ]

    for status, answer_head, body in told:
        assert 403 == status
        assert f"content-type: {PATHS[path]}" in answer_head
        assert "x-request-id: " in answer_head
        assert b"'evil.test:8000'" in body
        assert b"allowed_hosts" in body


async def test_only_names_of_this_machine_are_answered_on_a_loopback_address():
    async with serve_relay() as relay:
        local = [(await ask(relay, f"Host: {host}"))[0] for host in LOCAL]
        foreign = [(await ask(relay, f"Host: {host}"))[0] for host in FOREIGN]
        malformed = [(await ask(relay, f"Host: {host}"))[0] for host in MALFORMED]

    assert dict.fromkeys(LOCAL, 200) == dict(zip(LOCAL, local, strict=True))
    assert dict.fromkeys(FOREIGN, 403) == dict(zip(FOREIGN, foreign, strict=True))
    assert dict.fromkeys(MALFORMED, 400) == dict(zip(MALFORMED, malformed, strict=True))


@pytest.mark.parametrize(
    ("line", "headers", "status"),
    [
        # No browser is that old, and HAProxy's health checks are.
        ("GET /v1/models HTTP/1.0", (), 200),
        ("GET /v1/models HTTP/1.0", ("Host: evil.test",), 403),
        ("GET /v1/models HTTP/1.1", (), 400),
        ("GET /v1/models HTTP/1.1", ("Host: localhost", "Host: localhost"), 400),
        ("GET /v1/models HTTP/1.1", ("Host: localhost", "Host: evil.test"), 400),
        ("GET /v1/models HTTP/1.1", ("Host: evil.test", "X-Forwarded-Host: localhost"), 403),
        # The place in an absolute target lets nobody in; no browser sends one to a server.
        ("GET http://localhost/v1/models HTTP/1.1", ("Host: evil.test",), 403),
        ("GET http://localhost/v1/models HTTP/1.1", ("Host: localhost",), 200),
        ("GET http://localhost/v1/models HTTP/1.1", (), 400),
    ],
)
async def test_host_is_there_once(line, headers, status):
    async with serve_relay() as relay:
        assert status == (await ask(relay, *headers, line=line))[0]


@pytest.mark.parametrize(
    ("bound", "allowed", "answers"),
    [
        (
            *("0.0.0.0", ""),  # noqa: S104  (only said, not bound)
            {
                **{"192.168.1.5:8000": 200, "[fe80::1]": 200, "localhost:8000": 200},
                **{"evil.test": 403, "relay-1:8000": 403}
            }
        ),
        ("::", "", {"10.0.0.7": 200, "[::1]": 200, "evil.test": 403}),
        (
            *("0.0.0.0", "relay-1, Chat.Example.com"),  # noqa: S104  (as above)
            {"relay-1:8000": 200, "chat.EXAMPLE.com": 200, "a.chat.example.com": 403}
        ),
        (*("127.0.0.1", "*.example.com"), {"a.b.example.com:443": 200, "example.com": 403, "badexample.com": 403}),
        (*("127.0.0.1", "bücher.example, 10.0.0.1, ::2"), {**{"xn--bcher-kva.example": 200, "10.0.0.1:80": 200, "[0:0::2]": 200}, **{"10.0.0.2": 403, "[::3]": 403}}),
        ("127.0.0.1", "*", {"evil.test": 200, "10.0.0.1": 200, "user@evil.test": 400}),
        (*("192.168.1.5", ""), {"192.168.1.5:8000": 200, "localhost:8000": 200, "192.168.1.6": 403}),
        ("relay.lan", "", {"relay.lan:8000": 200, "192.168.1.6": 200, "evil.lan": 403})
    ]
)  # fmt: skip
async def test_elsewhere_it_is_the_address_and_what_is_allowed(bound, allowed, answers):
    async with serve_relay(host=bound, allowed_hosts=allowed) as relay:
        for line in ("GET /v1/models HTTP/1.1", "GET /readyz?verbose HTTP/1.1"):
            told = [(await ask(relay, f"Host: {host}", line=line))[0] for host in answers]

            assert answers == dict(zip(answers, told, strict=True))


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_health_checks_may_use_any_host(path):
    async with serve_relay() as relay:
        for host in ("10.2.3.4:8000", "relay-1:8000"):
            assert 200 == (await ask(relay, f"Host: {host}", line=f"GET {path} HTTP/1.1"))[0]
        assert 200 == (await ask(relay, line=f"GET {path} HTTP/1.0"))[0]


SIMPLE = [
    ("POST", "/v1/streams/{stream}/cancel"),
    ("POST", "/v1/ui/chat/c/stop"),
    ("POST", "/v1/responses/resp_x/cancel"),
    ("POST", "/v1/chat"),
    ("DELETE", "/v1/streams/{stream}"),
]


@pytest.mark.parametrize(("method", "path"), SIMPLE)
@pytest.mark.parametrize(
    "origin", [EVIL, "null", "https://localhost.evil.test", "http://localhost"]
)
async def test_page_of_another_site_changes_nothing(method, path, origin):
    """Not by requests either that browsers send without asking first."""
    async with (
        serve_script([head(), send(text("a")), Hold()], local_origins=False) as (relay, upstream),
        relay.client.stream("POST", "/v1/chat", json=HELLO) as running,
    ):
        stream = running.headers["stream-id"]
        line = f"{method} {path.format(stream=stream)} HTTP/1.1"
        host = f"Host: 127.0.0.1:{relay.port}"
        told = await ask(relay, host, f"Origin: {origin}", "Content-Type: text/plain", line=line)
        state = (await relay.client.get(f"/v1/streams/{stream}")).json()

    assert 403 == told[0]
    assert "running" == state["status"]
    assert repr(origin).encode() in told[2]
    assert "access-control-allow-origin" not in told[1]
    assert 1 == len(upstream.calls)


async def test_body_of_a_refused_request_is_not_waited_for():
    async with serve_relay() as relay:
        headers = (f"Host: localhost:{relay.port}", f"Origin: {EVIL}", "Content-Length: 1000000")
        status, _, _ = await ask(relay, *headers, line="POST /v1/chat HTTP/1.1")

    assert 403 == status


ASKED = {
    "as it is": (
        {},
        [
            ("localhost:8000", "http://localhost:8000", True),
            ("LocalHost:8000", "http://localhost:8000", True),
            ("localhost:8000", "http://localhost:5173", True),
            ("localhost:8000", "http://127.0.0.1:5173", True),
            ("localhost:8000", "http://[::1]:5173", True),
            ("localhost", EVIL, False),
            ("localhost", "null", False),
            ("localhost", "", False),
            ("localhost", "file://", False),
            ("localhost", "http://localhost:5173@evil.test", False),
            ("localhost", "http://localhost:5173/x", False),
            ("localhost", "http://" + "a" * 5000, False)
        ]
    ),
    "behind a proxy that ends TLS": (
        {"allowed_hosts": "*.example"},
        [
            ("chat.example", "https://chat.example", True),
            ("chat.example:443", "https://chat.example", True),
            ("chat.example", "http://chat.example", True),
            ("chat.example", "https://chat.example:8443", False),
            ("chat.example:8000", "http://chat.example", False),
            ("chat.example", "https://other.example", False)
        ]
    ),
    "for pages of another host": ({"cors_origins": "https://app.example"}, [("localhost", "https://app.example", True), ("localhost", "http://app.example", False)]),
    "for files": ({"cors_origins": "null"}, [("localhost", "null", True), ("localhost", EVIL, False)]),
    "for all": ({"cors_origins": "*"}, [("localhost", EVIL, True), ("localhost", "null", True)]),
    "on localhost": (
        {"host": "localhost"},
        [
            ("localhost", "http://localhost:5173", True),
            ("localhost", "http://tauri.localhost", True),
            ("localhost", "http://tauri.localhost.evil.example", False),
            ("localhost", "http://evillocalhost", False)
        ]
    ),
    "on ::1": ({"host": "::1"}, [("localhost", "http://localhost:5173", True)]),
    "on all addresses": (
        {"host": "0.0.0.0"},  # noqa: S104  (only said, not bound)
        [
            ("localhost:8000", "http://localhost:8000", True),
            ("localhost:8000", "http://localhost:5173", False)
        ]
    ),
    "by a name": ({"host": "relay.lan"}, [("localhost", "http://localhost:5173", False)]),
    "off": ({"local_origins": False}, [("localhost", "http://localhost:5173", False)]),
    "on": (
        {"host": "0.0.0.0", "local_origins": True},  # noqa: S104  (as above)
        [("localhost", "http://localhost:5173", True)]
    )
}  # fmt: skip


@pytest.mark.parametrize(("settings", "asked"), ASKED.values(), ids=ASKED)
async def test_pages_that_may_are_the_relays_own_and_those_of_the_settings(settings, asked):
    async with serve_relay(**settings) as relay:
        for host, origin, allowed in asked:
            headers = (f"Host: {host}", f"Origin: {origin}", "Content-Type: application/json")
            told = await ask(relay, *headers, line="POST /v1/chat HTTP/1.1", body=b"{}")
            read = await ask(relay, *headers[:2])

            assert (400 if allowed else 403) == told[0], (host, origin)
            assert 200 == read[0]  # which pages may see it is for CORS to say
            if origin.endswith(":5173"):
                shown = f"access-control-allow-origin: {origin}" in read[1]
                assert allowed == shown, (host, origin)


async def test_two_origins_are_refused():
    async with serve_relay() as relay:
        headers = ("Host: localhost", "Origin: http://localhost", f"Origin: {EVIL}")
        told = await ask(relay, *headers, line="POST /v1/chat HTTP/1.1", body=BODY)

    assert 400 == told[0]


async def test_what_is_remembered_is_bounded():
    """However many and however long the names are that clients make up."""
    guard = Guard(HostNames("127.0.0.1"), origins=(), local_origins=False)
    scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "server": None}
    tracemalloc.start()
    try:
        for number in range(8 * REMEMBERED):
            host = b"%d" % number + b"a" * 20_000
            guard.check({**scope, REQUEST_HEADERS: {b"host": (host,)}})
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()

    assert kept < 2**20
    assert parse_host(b"a" * (MAX_HOST + 1)) is None


@pytest.mark.parametrize(
    "headers", [{b"host": (b"evil.test",)}, {b"host": (b"localhost",), b"origin": (b"evil",)}]
)
async def test_an_error_that_is_raised_again_keeps_no_earlier_request(headers):
    guard = Guard(HostNames("127.0.0.1"), origins=(), local_origins=False)
    scope = {"type": "http", "method": "POST", "path": "/", "query_string": b""}
    frames = []
    for _ in range(3):
        error = guard.check({**scope, REQUEST_HEADERS: headers})
        assert error is not None
        with pytest.raises(RequestError) as raised:
            raise error
        frames.append(len(raised.traceback))

    assert [1, 1, 1] == frames
