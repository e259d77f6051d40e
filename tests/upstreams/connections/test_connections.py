"""Connections to upstreams: names, addresses, the pool, and what waits for a reader."""

import asyncio
import contextlib
import gc
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx2
import pytest
import trustme

from app.testing.upstream import Endless, Hold, chunked_head, serve_upstream
from app.upstreams import connection as connection_module
from app.upstreams import transport as transport_module
from app.upstreams.connection import BURST, MAX_UNREAD, Connection, Disconnected, HttpBody
from app.upstreams.http import HttpClient, open_client
from app.upstreams.http_call import CallUrl, HttpCall, Origin
from app.upstreams.response_parser import Head
from app.upstreams.transport import Connector, _Names
from tests.tcp_server import serve_tcp
from tests.upstreams.proxy import serve_proxy
from tests.waiting import until

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"


def call_of(url: str, *, content: bytes = b"{}", timeout_s: float | None = 5) -> HttpCall:
    parsed = CallUrl.of(httpx2.URL(url))
    return HttpCall("POST", parsed, {}, content=content, connect_timeout_s=timeout_s)


@contextlib.asynccontextmanager
async def opened() -> AsyncIterator[HttpClient]:
    async with open_client(connect_timeout_s=5, mounts={}) as client:
        yield client


class Server:
    """Answers each request, and counts connections."""

    def __init__(self) -> None:
        self.open = self.connections = 0
        self.sizes: list[int] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open += 1
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                size = int(head.partition(b"content-length: ")[2].partition(b"\r")[0] or b"0")
                self.sizes.append(len(await reader.readexactly(size)))
                writer.write(OK)
        self.open -= 1


async def read_all(client: HttpClient, call: HttpCall) -> bytes:
    reply = await client.open(call)
    assert isinstance(reply.body, HttpBody)
    return b"".join([piece async for piece in reply.body])


@pytest.mark.parametrize(
    ("url", "origin", "authority", "target"),
    [
        ("http://a/b?c=%20d", ("http", "a", 80), "a", "/b?c=%20d"),
        ("https://a:8443", ("https", "a", 8443), "a:8443", "/"),
        ("https://a.:443/x%3Ay", ("https", "a", 443), "a.", "/x%3Ay"),
        ("http://[::1]:8000/", ("http", "::1", 8000), "[::1]:8000", "/"),
        ("https://bücher.example/é", ("https", "xn--bcher-kva.example", 443), None, "/%C3%A9"),
    ],
)
def test_url_is_taken_apart(
    url: str, origin: tuple[str, str, int], authority: str | None, target: str
) -> None:
    taken = CallUrl.of(httpx2.URL(url))

    assert (origin, target) == (taken.origin, taken.target)
    assert (authority or origin[1]) == taken.authority


async def test_free_connections_are_used_again_and_closed_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transport_module, "SURPLUS_S", 0.2)
    monkeypatch.setattr(transport_module, "KEEPALIVE_S", 1.0)
    monkeypatch.setattr(transport_module, "KEPT", 2)
    server = Server()
    async with serve_tcp(server.serve) as port, opened() as client:
        call = call_of(f"http://127.0.0.1:{port}/")
        await asyncio.gather(*(read_all(client, call) for _ in range(5)))
        assert b"{}" == await read_all(client, call)
        assert 5 == server.connections

        await until(lambda: server.open == 2)
        assert b"{}" == await read_all(client, call)
        assert 5 == server.connections
        await until(lambda: server.open == 0)
        assert b"{}" == await read_all(client, call)
        assert 6 == server.connections


async def test_connection_that_the_server_closed_is_not_used_again() -> None:
    server = Server()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server.connections += 1
        await reader.readuntil(b"\r\n\r\n{}")
        writer.write(OK)

    async with serve_tcp(serve) as port, opened() as client:
        for _ in range(3):
            assert b"{}" == await read_all(client, call_of(f"http://127.0.0.1:{port}/"))
            await asyncio.sleep(0.02)

    assert 3 == server.connections


async def test_closing_the_client_closes_free_connections() -> None:
    server = Server()
    async with serve_tcp(server.serve) as port:
        async with opened() as client:
            await read_all(client, call_of(f"http://127.0.0.1:{port}/"))
            assert 1 == server.open
        await until(lambda: server.open == 0)


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer each request with its content."""
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while head := await reader.readuntil(b"\r\n\r\n"):
            size = int(head.partition(b"content-length: ")[2].partition(b"\r")[0])
            content = await reader.readexactly(size)
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (size, content))


@pytest.mark.parametrize("leaving", [False, True])
async def test_each_of_many_calls_gets_its_own_answer(leaving: bool) -> None:
    """Connections change hands while earlier callers still wake up, or leave."""
    async with serve_tcp(echo) as port, opened() as client:

        async def ask(name: str) -> None:
            content = name.encode()
            got = await read_all(client, call_of(f"http://127.0.0.1:{port}/", content=content))
            assert content == got

        async def ask_and_leave(name: str, steps: int) -> None:
            call = asyncio.ensure_future(ask(name))
            for _ in range(steps):
                await asyncio.sleep(0)
            call.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await call

        async def client_of(number: int) -> None:
            for turn in range(40):
                if leaving and (number + turn) % 3 == 0:
                    await ask_and_leave(f"{number}, {turn}, leaves", steps=turn)
                await ask(f"{number}, {turn}")

        await asyncio.wait_for(asyncio.gather(*map(client_of, range(50))), 60)


async def test_caller_that_leaves_late_keeps_the_connection_of_the_next() -> None:
    async with serve_tcp(echo) as port:
        connection = await Connector(ssl.create_default_context(), None).connect(
            Origin("http", "127.0.0.1", port)
        )
        request = b"POST / HTTP/1.1\r\ncontent-length: 1\r\n\r\n"
        calls: list[asyncio.Future[tuple[Head, HttpBody]]] = []

        def begin(_: Connection) -> None:
            if len(calls) == 1:
                calls[0].cancel()
                calls.append(asyncio.ensure_future(connection.exchange(request, b"2")))

        connection.on_free = begin
        calls.append(asyncio.ensure_future(connection.exchange(request, b"1")))
        await until(lambda: len(calls) == 2)
        _, body = await asyncio.wait_for(calls[1], 20)
        assert [b"2"] == [piece async for piece in body]
        connection.close()


@pytest.mark.parametrize("size", [0, 2**20, 3 * 2**20 + 1])
async def test_body_of_any_size_is_sent_whole(size: int) -> None:
    server = Server()
    async with serve_tcp(server.serve) as port, opened() as client:
        for _ in range(2):
            call = call_of(f"http://127.0.0.1:{port}/", content=b"x" * size)
            assert b"{}" == await read_all(client, call)

    assert [size, size] == server.sizes


async def test_answer_in_the_middle_of_a_request_ends_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection_module, "LARGE", 100)
    server = Server()

    async def impatient(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server.connections += 1
        await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(100)
        writer.write(OK)
        with contextlib.suppress(ConnectionError):
            while await reader.read(2**20):
                pass

    async with serve_tcp(impatient) as port, opened() as client:
        for _ in range(3):
            call = call_of(f"http://127.0.0.1:{port}/", content=b"x" * 100_000)
            assert b"{}" == await asyncio.wait_for(read_all(client, call), 20)

    assert 3 == server.connections


async def test_what_is_not_read_stays_in_the_socket() -> None:
    async with serve_upstream() as upstream, opened() as client:
        piece = b"%x\r\n%b\r\n" % (BURST, b"x" * BURST)
        upstream.script = [chunked_head(), Endless(piece, 4000), Hold()]
        body = (await client.open(call_of(upstream.base_url))).body
        assert isinstance(body, HttpBody)
        await until(lambda: len(body._unread) > MAX_UNREAD)
        await asyncio.sleep(0.2)
        assert len(body._unread) < 4 * MAX_UNREAD + 2**18

        read = 0
        async for part in body:
            read += len(part)
            if read >= 2000 * BURST:
                break
        await body.aclose()


async def test_body_that_was_closed_never_looks_finished() -> None:
    async with serve_upstream() as upstream, opened() as client:
        upstream.script = [chunked_head(), Hold()]
        body = (await client.open(call_of(upstream.base_url))).body
        assert isinstance(body, HttpBody)
        reading = asyncio.ensure_future(anext(body))
        await asyncio.sleep(0)
        await body.aclose()

        with pytest.raises(httpx2.ReadError):
            await reading
        assert not body.at_end


async def test_connection_that_is_closed_at_once_has_no_answer() -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")

    async with serve_tcp(hang_up) as port, opened() as client:
        with pytest.raises(Disconnected):
            await client.open(call_of(f"http://127.0.0.1:{port}/"))


async def test_waiting_for_a_connection_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*_: Any) -> Connection:
        await asyncio.sleep(60)
        raise AssertionError

    monkeypatch.setattr(Connector, "connect", never)
    async with opened() as client:
        with pytest.raises(httpx2.ConnectTimeout):
            await client.open(call_of("http://127.0.0.1:1/", timeout_s=0.05))


async def test_cancelled_call_leaves_no_connection() -> None:
    server = Server()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server.open += 1
        await reader.read()
        server.open -= 1

    async with serve_tcp(silent) as port, opened() as client:
        calling = asyncio.ensure_future(client.open(call_of(f"http://127.0.0.1:{port}/")))
        await until(lambda: server.open)
        calling.cancel()
        await asyncio.wait([calling])
        await until(lambda: server.open == 0)


async def test_connections_are_freed_without_the_garbage_collector() -> None:
    def count() -> int:
        return sum(isinstance(one, Connection | HttpBody) for one in gc.get_objects())

    async with serve_upstream() as upstream, opened() as client:
        upstream.script = [chunked_head(), Hold()]
        body = (await client.open(call_of(upstream.base_url))).body
        gc.collect()
        gc.disable()
        try:
            before = count()
            await body.aclose()
            del body
            await until(lambda: count() == before - 2)
        finally:
            gc.enable()


ADDRESSES = [
    (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 80))
    for address in ("192.0.2.1", "192.0.2.2", "192.0.2.3")
]


class Lookups:
    """Stands for the resolver of the system."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked = 0
        self.fails = False
        monkeypatch.setattr(transport_module, "_look_up", self.look_up)

    async def look_up(self, host: str, port: int) -> list[Any]:
        self.asked += 1
        await asyncio.sleep(0.01)
        if self.fails:
            raise socket.gaierror(-2, "unknown")
        return list(ADDRESSES)


async def test_names_are_looked_up_once_and_their_addresses_take_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lookups, names = Lookups(monkeypatch), _Names()
    found = await asyncio.gather(*(names.find("a", 80) for _ in range(6)))

    assert 1 == lookups.asked
    assert [2, 2, 2] == sorted(
        sum(found_first[0] == address for found_first in found) for address in ADDRESSES
    )
    monkeypatch.setattr(transport_module, "NAMES_S", -1.0)
    await names.find("b", 80)
    await names.find("b", 80)
    assert 3 == lookups.asked


async def test_failed_lookup_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    lookups, names = Lookups(monkeypatch), _Names()
    lookups.fails = True
    for _ in range(2):
        with pytest.raises(socket.gaierror):
            await names.find("a", 80)
    lookups.fails = False

    assert len(ADDRESSES) == len(await names.find("a", 80))
    assert 3 == lookups.asked


async def test_another_address_is_tried_beside_a_silent_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Server()
    async with serve_tcp(server.serve) as port, opened() as client:

        async def look_up(host: str, _: int) -> list[Any]:
            kind = socket.AF_INET, socket.SOCK_STREAM, 6, ""
            return [(*kind, ("127.0.0.1", port)), (*kind, ("127.0.0.1", 1))]

        monkeypatch.setattr(transport_module, "_look_up", look_up)
        for _ in range(2):  # each address is the first once
            assert b"{}" == await read_all(client, call_of(f"http://name.invalid:{port}/"))


@pytest.fixture
def certificate(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Callable[[], ssl.SSLContext]:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))

    def context() -> ssl.SSLContext:
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("localhost", "127.0.0.1").configure_cert(made)
        return made

    return context


async def test_tls_connection_is_used_again(certificate: Callable[[], ssl.SSLContext]) -> None:
    server = Server()
    async with serve_tcp(server.serve, tls=certificate()) as port, opened() as client:
        for _ in range(3):
            assert b"{}" == await read_all(client, call_of(f"https://localhost:{port}/"))

    assert 1 == server.connections


@pytest.mark.parametrize("proxied_by", ["http", "https"])
async def test_tunnel_is_used_again(
    proxied_by: str, certificate: Callable[[], ssl.SSLContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server()
    async with (
        serve_tcp(server.serve, tls=certificate()) as port,
        serve_proxy(tls=certificate() if proxied_by == "https" else None) as proxy,
    ):
        monkeypatch.setenv("HTTPS_PROXY", f"{proxied_by}://localhost:{proxy.port}")
        async with opened() as client:
            for _ in range(3):
                assert b"{}" == await read_all(client, call_of(f"https://localhost:{port}/"))

    assert 1 == len(proxy.asked)


async def test_client_of_httpx2_works_as_any() -> None:
    server = Server()
    async with serve_tcp(server.serve) as port, opened() as client:
        response = await client.post(f"http://127.0.0.1:{port}/x", json={"a": 1})

    assert (200, {}, [7]) == (response.status_code, response.json(), server.sizes)
