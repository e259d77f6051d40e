"""Who is let in: by what a request shows, wherever it shows it, and however it spells its path."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient
from starlette.types import Message, Scope

from app.api.authentication import MAX_CREDENTIAL, Authentication
from app.api.request import read_headers
from app.composition import Substitutes
from app.dialects.client_formats import CLIENT_FORMATS
from app.errors import RelayError
from app.identity.authenticator import Authenticator
from app.identity.principal import ANYONE, Principal
from app.relay import Relay as Composed
from app.settings import load_settings
from app.settings.access import settle_identity
from tests.dialects import clients
from tests.identities import EXPIRED, Table, bearer, known
from tests.serving import HELLO, Relay, serve_relay

ME, OTHER = Principal("t", "me"), Principal("t", "other")
PAGE = "https://chat.example"
WHO = {
    **{"me": ME, "other": OTHER},
    "page": Principal("t", "me", origins=(PAGE,)),
    "late": Principal("t", "me", expires_at=time.time() - 1),
}


@pytest.fixture
async def relay() -> AsyncIterator[Relay]:
    authenticator = known(**WHO)
    async with serve_relay(
        authenticator=authenticator, allowed_hosts="*", cors_origins=PAGE
    ) as relay:
        yield relay


async def ask_raw(relay: Relay, *lines: str, body: str = "") -> tuple[int, dict[str, str], str]:
    """Send a head as it is; httpx would mend it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
    head = [*lines, "host: localhost", f"content-length: {len(body)}", "connection: close"]
    writer.write(("\r\n".join(head) + "\r\n\r\n" + body).encode("latin-1"))
    answer = (await asyncio.wait_for(reader.read(), 20)).decode("latin-1")
    writer.close()
    top, _, rest = answer.partition("\r\n\r\n")
    status, *fields = top.split("\r\n")
    headers = {name: value for name, _, value in (field.partition(": ") for field in fields)}
    return int(status.split()[1]), headers, rest


@pytest.mark.parametrize(
    "header",
    [
        *("authorization: Bearer key-me", "Authorization: bearer key-me"),
        *("authorization: BEARER   key-me ", "x-api-key: key-me", "X-Api-Key: key-me"),
        *("api-key: key-me", "x-goog-api-key: key-me"),
    ],
)
async def test_credential_is_read_where_clients_send_it(relay, header: str):
    status, headers, _ = await ask_raw(relay, "GET /v1/models HTTP/1.1", header)

    assert 200 == status
    assert "www-authenticate" not in headers


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ((), "a credential is needed: send it as 'Authorization: Bearer ...'"),
        (("authorization: Bearer",), "send 'Bearer', a space and the credential"),
        (("authorization: Basic a2V5LW1l",), "send 'Bearer', a space and the credential"),
        (("authorization: key-me",), "send 'Bearer', a space and the credential"),
        (("x-api-key:",), "a credential is needed"),
        (("authorization: Bearer key-nobody",), "it is wrong, or was revoked"),
        (("authorization: Bearer Key-me",), "it is wrong, or was revoked"),
        (("authorization: Bearer key-me, Bearer key-me",), "contains invalid characters"),
        (("authorization: Bearer key-me key-me",), "contains invalid characters"),
        (("authorization: Bearer key-m\xe9",), "contains invalid characters"),
        ((f"authorization: Bearer {EXPIRED}",), "expired"),
        (("authorization: Bearer key-late",), "expired"),
        ((f"x-api-key: {'k' * (MAX_CREDENTIAL + 1)}",), "longer than 16384 characters"),
        (("authorization: Bearer key-me", "x-api-key: key-other"), "two different"),
        (("authorization: Bearer key-me", "authorization: Bearer key-other"), "two different"),
        (("authorization: Bearer key-me", "authorization: Basic eA=="), "two different"),
        (("x-api-key: key-me", "api-key: key-other"), "two different"),
    ],
)
async def test_other_credentials_are_refused(relay, lines: tuple[str, ...], said: str):
    status, headers, body = await ask_raw(relay, "GET /v1/models HTTP/1.1", *lines)

    assert (401, "unauthenticated") == (status, json.loads(body)["error"]["code"])
    assert said in json.loads(body)["error"]["message"]
    assert "key-" not in body
    shown = ', error="invalid_token"' if lines else ""
    assert f'Bearer realm="seseragi"{shown}' == headers["www-authenticate"]
    assert "false" == headers["x-should-retry"]


@pytest.mark.parametrize(
    "lines",
    [
        ("authorization: Bearer key-me", "x-api-key: key-me"),
        ("authorization: Bearer key-me", "authorization: Bearer key-me"),
        # A page behind a proxy that asks for a password sends it with everything.
        ("authorization: Basic a2V5LW1l", "x-api-key: key-me"),
    ],
)
async def test_credentials_that_agree_are_one(relay, lines: tuple[str, ...]):
    status, _, _ = await ask_raw(relay, "GET /v1/models HTTP/1.1", *lines)

    assert 200 == status


async def test_credential_after_the_body_is_none(relay):
    reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
    writer.write(
        b"POST /v1/chat HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        b"transfer-encoding: chunked\r\ntrailer: authorization\r\n\r\n"
        b"2\r\n{}\r\n0\r\nauthorization: Bearer key-me\r\n\r\n"
    )
    assert b" 401 " in await asyncio.wait_for(reader.readline(), 20)
    writer.close()


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_page_and_probes_are_public(relay, method: str):
    for path in (
        "/",
        "/?from=a",
        "/docs",
        "/healthz",
        "/readyz",
        "/static/chat.js",
        "/static/none",
    ):
        status, _, _ = await ask_raw(relay, f"{method} {path} HTTP/1.1")

        assert (404 if path.endswith("none") else 200) == status, path


PATHS = [
    *("/readyz?verbose", "/readyz?", "/healthz?x", "/healthz/", "/HEALTHZ", "//healthz"),
    *("//", "/./healthz", "/static", "/static/../v1/models/", "/Static/chat.js", "/healthz%0a"),
    *("/healthz%2f", "/healthz%00", "/healthz;/../v1/models", "/nothing", "/v1", "/v1/models"),
    *("/v1%2fmodels", "/v1/./models", "//v1/models", "/V1/models", "/v1/models/", "/docs/"),
    *("/openapi.json", "/metrics", "http://localhost/v1/models", "/v1/streams/st_x"),
    *("/admin/", "/admin/x", "/administrator", "/v1/admin", "/v1/admin/summary"),
]


async def test_nothing_but_the_public_is_told_of_without_a_credential(relay):
    for path in PATHS:
        status, headers, body = await ask_raw(relay, f"GET {path} HTTP/1.1")

        if path == "/readyz?":  # an empty query is none
            assert 200 == status
        elif path.startswith("/static/"):  # a file, or none: nothing else is below it
            assert 404 == status, path
        else:
            assert 401 == status, (path, body)
            assert 'Bearer realm="seseragi"' == headers["www-authenticate"], path


METHODS = ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "QUERY"]


@pytest.mark.parametrize("path", ["/", "/healthz", "/static/chat.js", "/v1/chat", "/nothing"])
async def test_no_method_gets_around_it(relay, path: str):
    statuses = [(await ask_raw(relay, f"{method} {path} HTTP/1.1"))[0] for method in METHODS]

    assert [401] * len(METHODS) == statuses


async def test_preflight_needs_no_credential_and_refusals_can_be_read_by_pages(relay):
    ask = {"origin": PAGE, "access-control-request-method": "POST"}
    asked = await relay.client.options("/v1/chat", headers=ask)
    assert (200, PAGE) == (asked.status_code, asked.headers["access-control-allow-origin"])
    private = ask | {"access-control-request-private-network": "true"}
    asked = await relay.client.options("/v1/chat", headers=private)
    assert "true" == asked.headers["access-control-allow-private-network"]
    asked = await relay.client.options("/v1/chat", headers={**private, "origin": "https://evil.x"})
    assert "access-control-allow-origin" not in asked.headers
    refused = await relay.client.post("/v1/chat", json=HELLO, headers={"origin": PAGE})
    assert (401, PAGE) == (refused.status_code, refused.headers["access-control-allow-origin"])
    assert "www-authenticate" in refused.headers["access-control-expose-headers"]


async def test_credential_of_a_page_is_for_that_page(relay):
    for origin, status in ((PAGE, 200), (None, 200), ("http://localhost:5173", 403), ("null", 403)):
        headers = bearer("page") | ({"origin": origin} if origin else {})
        answer = await relay.client.get("/v1/models", headers=headers)
        assert status == answer.status_code
    assert "permission_error" == answer.json()["error"]["type"]
    assert "'null'" in answer.json()["error"]["message"]
    assert "www-authenticate" not in answer.headers


@pytest.mark.parametrize("client_format", CLIENT_FORMATS.values(), ids=lambda one: one.name)
async def test_refusal_is_in_the_words_of_the_client(relay, client_format):
    answer = await relay.client.post(client_format.path, json={}, headers=bearer("nobody"))
    assert (401, "no-store") == (answer.status_code, answer.headers["cache-control"])
    message = clients.read_failure(client_format.name, answer.content)
    assert message.startswith("the credential is not known here")


async def test_body_is_not_waited_for(relay):
    reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
    writer.write(b"POST /v1/chat HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000\r\n\r\n")
    assert b" 401 " in await asyncio.wait_for(reader.readline(), 20)
    writer.close()


async def test_credential_is_resolved_once_a_request():
    table = Table({"key-me": ME})
    async with serve_relay(authenticator=Authenticator([table])) as relay:
        headers = bearer("me") | {"x-api-key": "key-me"}
        answer = await relay.client.post("/v1/responses", json={"input": "hi"}, headers=headers)

    assert (200, 1) == (answer.status_code, table.asked)


async def test_first_kind_that_knows_a_credential_counts_and_time_is_looked_at():
    now = 1000.0
    mine, its = Table({"key": Principal(user="a", expires_at=2000)}), Table({"key": OTHER})
    authenticator = Authenticator([Table({}), mine, its], clock=lambda: now)

    assert "a" == (await authenticator.authenticate("key")).user
    assert 0 == its.asked
    now = 2000.0
    with pytest.raises(Exception, match="expired"):
        await authenticator.authenticate("key")


async def test_any_credential_is_ignored_where_nobody_is_asked():
    async with serve_relay() as relay:
        for headers in ({}, bearer("x"), {"authorization": "Basic x", "x-api-key": "y" * 20_000}):
            assert 200 == (await relay.client.get("/v1/models", headers=headers)).status_code


def scope_of(path: str = "/v1/models", **more: Any) -> Scope:
    return {
        **{"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": []},
        **{"http_version": "1.1", "server": ("127.0.0.1", 8000), **more},
    }


async def identify(authentication: Authentication, scope: Scope) -> Principal | int | None:
    """Return the principal of a request, or the status of its refusal."""
    read_headers(scope)
    try:
        return await authentication.identify(scope)
    except RelayError as error:
        return error.status


@pytest.mark.parametrize(
    ("server", "status"),
    [
        *((("127.0.0.1", 8000), ANYONE), (("127.9.9.9", 8000), ANYONE), (("::1", 8000), ANYONE)),
        *((("::ffff:127.0.0.1", 8000), ANYONE), (None, ANYONE), (("/run/s.sock", None), ANYONE)),
        *((("testserver", 80), ANYONE), (("localhost", 80), ANYONE)),
        *((("172.17.0.2", 8000), 401), (("10.0.0.1", 80), 401), (("fe80::1%eth0", 8000), 401)),
        *((("::ffff:10.0.0.1", 8000), 401), (("2001:db8::1", 8000), 401)),
    ],
)
async def test_relay_with_money_is_open_to_its_machine_alone(server, status):
    authentication = Authentication(None, loopback_only=True)

    assert status == await identify(authentication, scope_of(server=server))
    assert None is await identify(authentication, scope_of("/healthz", server=server))
    assert ANYONE == await identify(Authentication(None), scope_of(server=server))


@pytest.mark.parametrize(
    ("server", "client", "status"),
    [
        # A function that is called for HTTP requests has no address, but what `Host` says.
        (("x1y2.lambda-url.eu-central-1.on.aws", 443), ("203.0.113.9", 0), 401),
        (("x1y2.lambda-url.eu-central-1.on.aws", 443), None, 401),
        *((("localhost", 443), ("203.0.113.9", 0), 401), (None, ("203.0.113.9", 0), 401)),
        *((("/run/s.sock", None), ("203.0.113.9", 0), 401), (("LocalHost", 1), None, ANYONE)),
        *(
            (("/run/s.sock", None), ("127.0.0.1", 0), ANYONE),
            (("/run/s.sock", None), ("", 0), ANYONE),
        ),
        *((("testserver", 80), ("testclient", 5), ANYONE), (None, ("::1", 5), ANYONE)),
        # Where it has one, that counts: a proxy on this machine tells of its own clients.
        *(
            (("127.0.0.1", 80), ("203.0.113.9", 0), ANYONE),
            (("10.0.0.1", 80), ("127.0.0.1", 0), 401),
        ),
    ],
)
async def test_name_in_place_of_an_address_lets_nobody_in_from_elsewhere(server, client, status):
    authentication = Authentication(None, loopback_only=True)

    assert status == await identify(authentication, scope_of(server=server, client=client))


@pytest.mark.parametrize("header", ["x-forwarded-for", "x-real-ip", "forwarded", "via", "x-forwarded-proto"])  # fmt: skip
async def test_forwarded_request_is_not_local(header: str):
    authentication = Authentication(None, loopback_only=True)
    scope = scope_of(server=None, headers=[(header.encode(), b"unknown")])

    assert 401 == await identify(authentication, scope)


PAID = {"OPENAI_API_KEY": "x"}
OLLAMA = {"OLLAMA_HOST": "http://ollama:11434"}


@pytest.mark.parametrize(
    ("environ", "base_url", "status"),
    [
        ({}, "http://127.0.0.1:8000", 404),
        (OLLAMA, "http://127.0.0.1:8000", 404),
        *((said, "http://172.17.0.2:8000", 401) for said in ({}, OLLAMA, PAID)),
        (PAID, "http://127.0.0.1:8000", 401),
        # A gateway, which may pay with the key that it is sent.
        ({**PAID, "OPENAI_BASE_URL": "http://10.1.2.3/v1"}, "http://127.0.0.1:8000", 401),
        ({**PAID, "SESERAGI_AUTH": "none"}, "http://172.17.0.2:8000", 404),
        ({"SESERAGI_HOST": "::"}, "http://127.0.0.1:8000", 401),
    ],
)
async def test_which_relays_are_open(environ, base_url: str, status: int):
    """A relay whose address its server does not tell it is asked at these addresses."""
    start = settle_identity(load_settings({"SESERAGI_ALLOWED_HOSTS": "172.17.0.2", **environ}))
    async with (
        Composed.open(start.settings) as relay,
        httpx2.AsyncClient(transport=httpx2.ASGITransport(relay.app), base_url=base_url) as client,
    ):
        answer = await client.get("/v1/streams/st_none")
        shown = {"authorization": f"Bearer {start.key}"}
        assert 404 == (await client.get("/v1/streams/st_none", headers=shown)).status_code

    assert status == answer.status_code


async def test_websockets_are_closed_before_anything():
    sent: list[Message] = []

    async def receive() -> Message:
        raise AssertionError("nothing is read")

    async def send(message: Message) -> None:
        sent.append(message)

    own = Substitutes(authenticator=known(me=ME))
    async with Composed.open(load_settings({}), substitutes=own) as relay:
        for path in ("/v1/chat", "/", "/static/chat.js"):
            await relay.app({"type": "websocket", "path": path, "headers": []}, receive, send)

    assert [{"type": "websocket.close", "code": 1008}] * 3 == sent


def test_mounted_relay_is_closed_and_its_public_part_open():

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        own = Substitutes(authenticator=known(me=ME))
        async with Composed.open(load_settings({}), substitutes=own) as relay:
            app.mount("/llm", relay.app)
            app.mount("/static", relay.app)
            yield

    with TestClient(Starlette(lifespan=lifespan)) as client:
        for path in ("/llm/", "/llm/healthz", "/llm/static/chat.js"):
            assert 200 == client.get(path).status_code
        # Mounted where a public path begins, it is not open for that.
        for path in ("/llm/v1/models", "/static/v1/models", "/llm/llm/healthz", "/llm//healthz"):
            assert 401 == client.get(path).status_code
        assert 200 == client.get("/static/v1/models", headers=bearer("me")).status_code


async def test_public_requests_have_no_principal():
    assert None is await identify(Authentication(known(me=ME)), scope_of("/healthz"))
