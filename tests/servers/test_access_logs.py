"""No server that runs the relay writes the token of a link into its log, whatever is asked."""

import asyncio

import pytest

from tests.servers.programs import serve

pytestmark = pytest.mark.proving

TOKEN = "eyJhbGciOiJIUzI1NiJ9.eyJleHAiOjF9.c2VjcmV0LXNpZ25hdHVyZQ"  # noqa: S105
MORE = {
    "command": (),
    "uvicorn": ("--log-level", "debug"),
    "hypercorn": (
        "--access-logfile",
        "-",
        "--access-logformat",
        '%(h)s "%(R)s" %(Uq)s %(q)s %(s)s',
    ),
    "granian": (
        *("--access-log", "--access-log-fmt"),
        '%(addr)s "%(method)s %(path)s?%(query_string)s" %(status)d',
    ),
}
RAW = (
    # Requests that are no requests, and one that offers an upgrade.
    "GET http://[::1/v1/streams/st_1/events?token={} HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "GET /v1/streams/st_1/events?token={} HTTP/9.9\r\nhost: localhost\r\n\r\n",
    "GET /v1/streams/st_1/events?token={} HTTP/1.1\r\n\r\n",
    "GET /v1/streams/st_1/events?token={} HTTP/1.1\r\nhost: evil.example\r\n\r\n",
    "GET /v1/streams/st_1/events?token={} HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\n"
    "connection: upgrade\r\n\r\n",
    "GET /v1/streams/st_1/events?token={} HTTP/1.1\r\nhost: localhost\r\nx: \0\r\n\r\n",
    "POST /v1/chat?token={} HTTP/1.1\r\nhost: localhost\r\ncontent-length: x\r\n\r\n",
)


@pytest.mark.parametrize("name", MORE)
async def test_no_log_has_a_token(name, tmp_path):
    async with serve(name, tmp_path, *MORE[name], log_level="debug") as served:
        answers = []
        for method, path in (
            ("GET", "/v1/streams/st_1/events"),
            ("GET", "/v1/streams/st_1"),
            ("POST", "/v1/streams/st_1/cancel"),
            ("POST", "/v1/streams/st_1/share"),
            ("PUT", "/v1/streams/st_1"),
            ("GET", "/nowhere"),
            ("GET", "/"),
        ):
            for query in ("?token={}", "?format=ui&token={}&after=3", "?token={0}&token={0}"):
                url = path + query.format(TOKEN)
                answers.append((await served.client.request(method, url)).text)
            encoded = f"{path}%3Ftoken%3D{TOKEN}"
            answers.append((await served.client.request(method, encoded)).text)
        for request in RAW:
            answers.append(await ask(served.port, request.format(TOKEN)))
        log = (await served.stop()).decode()

    assert TOKEN not in log
    assert TOKEN[:30] not in log
    assert "token=..." in log or name == "command"
    assert [] == [answer for answer in answers if TOKEN[:30] in answer]


async def ask(port: int, request: str) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request.encode())
    try:
        async with asyncio.timeout(1):
            return (await reader.read(65_536)).decode("latin-1")
    except (TimeoutError, ConnectionError):
        return ""
    finally:
        writer.close()
