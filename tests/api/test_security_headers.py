"""What tells browsers how little they may do with an answer: on everything that is served."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.guard import OPERATOR
from tests.api.test_authentication import ME
from tests.identities import bearer, known
from tests.serving import HELLO, Relay, serve_relay

ALWAYS = {
    "x-content-type-options": "nosniff",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
}
NO_PAGE = "default-src 'none'; frame-ancestors 'none'"


@pytest.fixture
async def relay() -> AsyncIterator[Relay]:
    async with serve_relay(
        authenticator=known(me=ME), cors_origins="https://a.example", demo_pace=0
    ) as relay:
        yield relay


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        *(("GET", "/v1/models", 200), ("POST", "/v1/chat", 200), ("GET", "/healthz", 200)),
        *(("GET", "/nothing", 404), ("PUT", "/v1/chat", 405), ("GET", "/static/none", 404)),
        *(("GET", "/v1/streams/st_none", 404), ("POST", "/v1/messages", 400)),
        *(
            ("POST", "/v1/responses", 401),
            ("POST", "/v1/ui/chat", 403),
            ("OPTIONS", "/v1/chat", 200),
        ),
        ("GET", "/", 200),
        ("GET", "/docs", 200),
        ("GET", "/static/chat.js", 200),
    ],
)
async def test_every_answer_has_them_once(relay, method: str, path: str, status: int):
    headers = {} if status == 401 else bearer("me")
    if status == 403:
        headers |= {"origin": "https://evil.example"}
    if method == "OPTIONS":
        headers = {"origin": "https://a.example", "access-control-request-method": "POST"}
    body = None if method != "POST" else {} if status == 400 else HELLO
    answer = await relay.client.request(method, path, json=body, headers=headers)

    assert status == answer.status_code
    for name, value in ALWAYS.items():
        assert [value] == answer.headers.get_list(name), name
    (policy,) = answer.headers.get_list("content-security-policy")
    if status == 200 and path in ("/", "/docs", "/static/chat.js"):
        assert "script-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
    else:
        assert NO_PAGE == policy


def on_operators_port(app: ASGIApp) -> ASGIApp:
    async def marked(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, OPERATOR: True}, receive, send)

    return marked


@pytest.mark.parametrize(
    ("path", "status"),
    [
        *(("/", 404), ("/docs", 404), ("/v1/models", 404), ("/v1/streamsx", 404)),
        *(("/healthz", 200), ("/admin", 200), ("/metrics", 200), ("/static/admin.js", 200)),
        ("/v1/admin/summary", 401),
    ],
)
async def test_what_is_on_the_operators_port_and_what_is_not_have_them(path: str, status: int):
    async with serve_relay(watch=on_operators_port) as relay:
        answer = await relay.client.get(path)

    assert status == answer.status_code
    for name, value in ALWAYS.items():
        assert [value] == answer.headers.get_list(name), name
    assert answer.headers["x-request-id"].startswith("req_")
    assert (status == 404) == ("not on the operator's port" in answer.text)


async def test_what_is_no_request_is_answered_with_them(relay):
    reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
    writer.write(b"GET / HTTP/1.1\r\nno header\r\n\r\n")
    answer = (await asyncio.wait_for(reader.read(), 20)).decode()
    writer.close()

    assert answer.startswith("HTTP/1.1 400")
    for name, value in {**ALWAYS, "content-security-policy": NO_PAGE}.items():
        assert f"\r\n{name}: {value}\r\n" in answer


@pytest.mark.parametrize("encoding", ["gzip", "identity"])
@pytest.mark.parametrize("path", ["/", "/static/chat.js"])
async def test_page_that_is_not_modified_keeps_its_policy(path, encoding, relay):
    """What a 304 says takes the place of what is kept (RFC 9111, 4.3.4)."""
    asked = {"accept-encoding": encoding}
    first = await relay.client.get(path, headers=asked)
    again = await relay.client.get(path, headers={**asked, "if-none-match": first.headers["etag"]})

    assert encoding == first.headers.get("content-encoding", "identity")
    assert 304 == again.status_code
    for name in ("content-security-policy", *ALWAYS):
        assert first.headers[name] == again.headers[name]
