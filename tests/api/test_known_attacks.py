"""Attacks that worked on others' gateways, each tried at every route by real credentials."""

import asyncio
import base64
import contextlib
import json
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from starlette.routing import Route
from websockets.exceptions import InvalidStatus

from app.api.authentication import Authentication
from app.api.request import read_headers
from app.errors import RequestError
from app.identity.authenticator import Authenticator
from app.identity.config import KeyConfig
from app.identity.keys import Keys, digest
from app.identity.tokens import Tokens
from app.settings import load_settings
from app.testing.upstream import DONE, FINISH, Hold, Step, head, send, serve_upstream, text
from tests.api.bodies import CHAT, M, body_of
from tests.api.test_openai_responses import HI
from tests.api.test_ownership_matrix import NAMING, STARTS, none_like
from tests.api.test_responses_socket import ask, connect, read
from tests.identity.provider import in_memory, make_issuers, rsa_key, sign
from tests.serving import HELLO, Relay, routes_of, serve_relay, serve_script

SAID = "what only the owner was told"
SIGNING_KEY = "a signing key of more than 32 characters"
KEYS = {
    name: f"ssk_{name}_".ljust(47, "x")
    for name in ("owner", "new", "stranger", "mint", "metrics", "admin", "both")
}


def key(name: str, shown: str = "", **fields: Any) -> KeyConfig:
    return KeyConfig(name=name, sha256=digest(KEYS[shown or name]), **fields)


OWNER = key("owner", tenant="t")
OTHERS = (
    key("stranger", tenant="t"),
    key("mint", tenant="t", roles=("client_secrets",)),
    key("metrics", tenant="t", roles=("metrics",)),
    key("admin", tenant="t", roles=("admin",)),
    key("both", tenant="t", roles=("admin", "client_secrets")),
)


def authenticator_of(*configs: KeyConfig) -> Authenticator:
    provider = in_memory()
    issuers = make_issuers([provider.config()], provider)
    keys = Keys(configs, None)
    tokens = Tokens(SIGNING_KEY, find_key=keys.find)
    return Authenticator((keys, tokens), keys=keys, tokens=tokens, issuers=issuers)


def bearer(credential: str) -> dict[str, str]:
    return {"authorization": f"Bearer {credential}"}


@dataclass
class World:
    """A relay whose owner has a response and a chat, and credentials of every kind."""

    relay: Relay
    authenticator: Authenticator
    names: dict[str, str] = field(default_factory=dict)
    shown: dict[str, str] = field(default_factory=dict)
    """The credentials, and other texts that a client knows, by kind."""

    async def ask(self, credential: str, method: str, path: str, **how: Any) -> httpx2.Response:
        headers = {"x-request-id": "req", **bearer(credential), **how.pop("headers", {})}
        return await self.relay.client.request(method, path, headers=headers, **how)

    def fill(self, path: str, *, there: bool = True) -> str:
        for place, name in self.names.items():
            path = path.replace(place, name if there else none_like(name))
        return path

    async def compare(self, credential: str, method: str, path: str, **how: Any) -> httpx2.Response:
        """Ask for what is the owner's and for what is not there; both are told the same."""
        mine = await self.ask(credential, method, self.fill(path), **how)
        none = await self.ask(credential, method, self.fill(path, there=False), **how)
        told = mine.text
        for name in self.names.values():
            told = told.replace(name, none_like(name))
        assert (none.status_code, none.text) == (mine.status_code, told), path
        assert SAID not in mine.text
        return mine


@asynccontextmanager
async def serve_world(*, ends: bool = False) -> AsyncIterator[World]:
    authenticator = authenticator_of(OWNER, *OTHERS)
    script: list[Step] = [head(), send(text(SAID)), send(FINISH + DONE) if ends else Hold()]
    async with serve_script(script, default_model=M, authenticator=authenticator) as (relay, _):
        world = World(relay, authenticator)
        owner = KEYS["owner"]
        body = {"model": M, "input": "hello", "background": True}
        response = await world.ask(owner, "POST", "/v1/responses", json=body)
        prefer = {"prefer": "respond-async", "idempotency-key": "an-idempotency-key"}
        chat = await world.ask(
            owner, "POST", "/v1/ui/chat", json=body_of("/v1/ui/chat"), headers=prefer
        )
        assert (200, 202) == (response.status_code, chat.status_code), chat.text
        stream = response.headers["stream-id"]
        world.names = {
            "{response_id}": response.json()["id"],
            "{chat:path}": CHAT.replace(" ", "%20"),
            "{stream}": stream,
        }
        world.shown = await show_all(world, stream)
        yield world


async def show_all(world: World, stream: str) -> dict[str, str]:
    """Return a credential of every kind, and what may be taken for one."""

    async def secret(by: str) -> str:
        made = await world.ask(KEYS[by], "POST", "/v1/client_secrets", json={"user": "ann"})
        return str(made.json()["value"])

    tokens, principal = world.authenticator.tokens, await world.authenticator.find(KEYS["owner"])
    assert tokens is not None
    assert principal is not None
    shared = await world.ask(KEYS["owner"], "POST", f"/v1/streams/{stream}/share")
    provider = in_memory()
    made = {
        may: tokens.make_stream_token(principal, stream, may=may, expires_at=4e9)
        for may in ("read", "stop")
    }
    return {
        **KEYS,
        "client secret": await secret("mint"),
        "client secret of an operator": await secret("both"),
        "read token": made["read"],
        "stop token": made["stop"],
        "share link": shared.json()["token"],
        "jwt": sign(rsa_key("1"), provider.claims()),
        "cursor": f"{stream}.1",
        "stream id": stream,
        "response id": world.names["{response_id}"],
        "idempotency key": "an-idempotency-key",
        "signing key": SIGNING_KEY.replace(" ", ""),
        "digest": digest(KEYS["owner"]),
        "key id": digest(KEYS["owner"])[:16],
        "key name": "owner",
        "key of the upstream": "sk-test-0123456789",
        "request id": "req",
        "bare client secret": (await secret("mint")).removeprefix("ek_"),
        "prefixed link": f"ek_{made['read']}",
        "prefixed jwt": f"ek_{sign(rsa_key('1'), provider.claims())}",
        "prefixed key": f"ek_{KEYS['owner']}",
    }


# The owner's key has changed

CHANGES: dict[str, tuple[KeyConfig, ...]] = {
    "revoked": (),
    "rotated": (key("owner", "new", tenant="t"),),
    "made again for another tenant": (key("owner", "new", tenant="u"),),
    "made again for a user": (key("owner", "new", tenant="t", user="bob"),),
    "another name": (key("renamed", "new", tenant="t"),),
    "revoked and made by an issuer": (key("other", "new", tenant="t", user="owner"),),
}
"""Only a rotated key has access to the streams of before: docs/auth.md."""


async def change(world: World, how: str) -> None:
    await world.authenticator.reconfigure(authenticator_of(*CHANGES[how], *OTHERS))


@pytest.mark.proving
@pytest.mark.parametrize("how", CHANGES)
async def test_stream_is_reached_by_no_other_subject_after_its_owners_key_changed(how: str):
    """Read, resumed, stopped, shared, deleted, by every route that names it."""
    async with serve_world() as world:
        await change(world, how)
        for (method, path), row in sorted(NAMING.items()):
            for old in ("owner", "read token", "stop token", "share link"):
                reply = await world.compare(world.shown[old], method, path)
                assert 401 == reply.status_code, (method, path, old)
                if path.startswith("/v1/streams/"):
                    query = f"{path}?token={world.shown[old]}"
                    reply = await world.compare("", method, query, headers={"authorization": ""})
                    assert 401 == reply.status_code, (method, path, old)
            new = () if how in ("revoked", "rotated") else ("new",)
            for other in ("stranger", "client secret", "jwt", *new):
                reply = await world.compare(world.shown[other], method, path)
                assert row.status == reply.status_code, (method, path, other)
        if how == "rotated":
            state = await world.ask(KEYS["new"], "GET", world.fill("/v1/streams/{stream}"))
            assert "running" == state.json()["status"]


@pytest.mark.proving
@pytest.mark.parametrize("how", ["made again for another tenant", "another name"])
async def test_stream_is_continued_and_replayed_by_no_other_subject_after_that(how: str):
    """By a cursor, an idempotency key, or the id of a response, in every dialect."""
    async with serve_world(ends=True) as world:
        stream = world.names["{stream}"]
        replayed = {path: {"idempotency-key": path} for path in STARTS}
        first = await world.ask(KEYS["owner"], "POST", "/v1/responses", json={"input": "hi"})
        mine = {
            path: await world.ask(
                KEYS["owner"], "POST", path, json=body_of(path), headers=replayed[path]
            )
            for path in sorted(STARTS)
        }
        await change(world, how)
        for path in sorted(STARTS):
            for who in ("new", "stranger", "jwt"):
                reply = await world.ask(
                    world.shown[who], "POST", path, json=body_of(path), headers=replayed[path]
                )
                assert 200 == reply.status_code, reply.text
                assert mine[path].headers["stream-id"] != reply.headers["stream-id"]
                for cursor in (f"{stream}.1", f"{none_like(stream)}.1"):
                    reply = await world.ask(
                        world.shown[who],
                        *("POST", path),
                        json=body_of(path),
                        headers={"last-event-id": cursor},
                    )
                    assert reply.status_code in (400, 404), (path, reply.text)
            for old in ("owner", "share link", "read token"):
                reply = await world.ask(
                    world.shown[old], "POST", path, json=body_of(path), headers=replayed[path]
                )
                assert 401 == reply.status_code
        answer = first.json()
        for who in ("new", "stranger", "jwt"):
            for body in (
                {"previous_response_id": answer["id"], "input": "hi"},
                {"input": [{"type": "item_reference", "id": answer["output"][0]["id"]}]},
            ):
                reply = await world.ask(world.shown[who], "POST", "/v1/responses", json=body)
                assert reply.status_code in (400, 404), reply.text
                assert SAID not in reply.text


# Tokens of one kind where another is expected

USES = {*KEYS, "client secret", "client secret of an operator", "jwt"} - {"new"}
"""The credentials of users."""


@dataclass(frozen=True)
class Door:
    """A request that takes credentials of some kinds; `way` is how one is sent."""

    method: str
    path: str
    takes: frozenset[str] | set[str]
    way: Callable[[str], dict[str, Any]] = lambda shown: {"headers": bearer(shown)}
    status: int = 401
    """Of what is no credential here; others are forbidden."""


def header(name: str, form: str = "{}") -> Callable[[str], dict[str, Any]]:
    return lambda shown: {"headers": {name: form.format(shown)}}


def query(name: str) -> Callable[[str], dict[str, Any]]:
    return lambda shown: {"params": {name: shown}}


STREAM = "/v1/streams/{stream}"
READS = {"read token", "share link"}
DOORS = {
    "bearer": Door("GET", "/v1/models", USES),
    **{
        name: Door("GET", "/v1/models", USES, header(name))
        for name in ("x-api-key", "api-key", "x-goog-api-key")
    },
    "basic": Door("GET", "/v1/models", set(), lambda shown: {"auth": ("", shown)}),
    "no scheme": Door("GET", "/v1/models", set(), header("authorization")),
    "token scheme": Door("GET", "/v1/models", set(), header("authorization", "Token {}")),
    "cookie": Door("GET", "/v1/models", set(), header("cookie", "token={0}; session={0}")),
    "proxy": Door("GET", "/v1/models", set(), header("proxy-authorization", "Bearer {}")),
    **{
        f"query {name}": Door("GET", "/v1/models", set(), query(name))
        for name in ("token", "key", "api_key", "access_token")
    },
    "read": Door("GET", STREAM, {"owner", "admin", "both", *READS}),
    "read by query": Door("GET", STREAM, READS, query("token")),
    "read by key in query": Door("GET", STREAM, set(), query("key")),
    "stop by query": Door("POST", f"{STREAM}/cancel", {"stop token"}, query("token")),
    "delete by query": Door("DELETE", STREAM, set(), query("token")),
    "share": Door("POST", f"{STREAM}/share", {"owner"}),
    "share by query": Door("POST", f"{STREAM}/share", set(), query("token")),
    "mint": Door("POST", "/v1/client_secrets", {"mint", "both"}),
    "mint by query": Door("POST", "/v1/client_secrets", set(), query("token")),
    "admin": Door("GET", "/v1/admin/summary", {"admin", "both"}),
    "metrics": Door("GET", "/metrics", {"metrics", "admin", "both"}),
    "upstreams": Door("GET", "/readyz?verbose", USES),
}


@pytest.mark.parametrize("name", DOORS)
async def test_credential_of_one_kind_is_taken_by_no_door_of_another(name: str):
    door = DOORS[name]
    async with serve_world() as world:
        taken = set()
        for kind, shown in world.shown.items():
            how = door.way(shown)
            if door.method == "POST" and "targets" in door.path:
                how["json"] = body_of(door.path)
            reply = await world.relay.client.request(door.method, world.fill(door.path), **how)
            if reply.status_code < 300:
                taken.add(kind)
            else:
                assert reply.status_code in (401, 403, 404), (kind, reply.text)
                assert shown not in reply.text or kind.endswith((" id", "name")), kind
                assert SAID not in reply.text

    assert door.takes == taken


async def test_websocket_takes_the_credentials_of_users_and_asks_again_for_each_response():
    """Also after the key of the connection was revoked, and made again for another tenant."""
    async with serve_world(ends=True) as world:
        taken = set()
        for kind, shown in world.shown.items():
            with contextlib.suppress(InvalidStatus):
                async with connect(world.relay, additional_headers=bearer(shown)):
                    taken.add(kind)
        assert USES == taken
        async with connect(world.relay, additional_headers=bearer(KEYS["owner"])) as connection:
            await ask(connection, store=False)
            first = (await read(connection))[-1]["response"]["id"]
            await change(world, "made again for another tenant")
            await ask(connection, previous_response_id=first)
            (refused,) = await read(connection)

    assert ("error", 401) == (refused["type"], refused["status"])


async def test_credential_is_no_cursor_and_no_id():
    """Nor is it repeated, in an answer or the log, where another text was expected."""
    async with serve_world() as world:
        for kind, shown in world.shown.items():
            if kind in ("cursor", "stream id", "response id", "request id", "key name"):
                continue
            events = world.fill(f"{STREAM}/events")
            for method, path, how in (
                ("GET", events, {"headers": {"last-event-id": shown}}),
                ("GET", events, {"params": {"after": shown}}),
                ("GET", f"/v1/streams/{quote(shown, safe='')}", {}),
                ("GET", f"/v1/responses/{quote(shown, safe='')}", {}),
                ("POST", "/v1/responses", {"json": {"input": "x", "previous_response_id": shown}}),
            ):
                reply = await world.ask(KEYS["owner"], method, path, **how)
                assert reply.status_code in (400, 404), (kind, path, reply.status_code)
                assert SAID not in reply.text


# Spellings of one token


def spellings(token: str) -> Iterator[str]:
    """Write a JWT in a thousand other ways, which some decoder reads as the same."""
    prefix, text_ = ("ek_", token[3:]) if token.startswith("ek_") else ("", token)
    parts = text_.split(".")
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

    def with_part(at: int, part: str) -> str:
        return prefix + ".".join([*parts[:at], part, *parts[at + 1 :]])

    for at, part in enumerate(parts):
        for end in ("=", "==", "===", "%3D", "\n", "\r\n", "\t", " ", "+", "/", "\0", "A", "AA"):
            yield with_part(at, part + end)
            yield with_part(at, end + part)
        yield from (with_part(at, part[:-1] + one) for one in alphabet)
        yield with_part(at, part.replace("-", "+").replace("_", "/"))
        for place in range(1, len(part)):
            for inner in ("\n", "=", " ", "!"):
                yield with_part(at, part[:place] + inner + part[place:])
        if at == 2:
            continue
        document = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
        doubled = [*document.items(), *document.items()]
        for same in (
            json.dumps(document),
            json.dumps(document, indent=1),
            json.dumps(dict(reversed(document.items()))),
            "{%s}" % ",".join(f"{json.dumps(k)}:{json.dumps(v)}" for k, v in doubled),  # noqa: UP031
            json.dumps({**document, "alg": str(document.get("alg", "")).lower()}),
            json.dumps({**document, "ALG": "none", "Sub": "root"}),
            "\ufeff" + json.dumps(document),
        ):
            yield with_part(at, base64.urlsafe_b64encode(same.encode()).rstrip(b"=").decode())
    for more in (".", "..", ".A", " ", "\n", "\t", "\0", ",", ";", "#", "?"):
        yield token + more
        yield more + token
    yield from (token.upper(), token.lower(), token.swapcase(), "EK_" + token, "ek_" + token)


@pytest.mark.parametrize("kind", ["client secret", "read token", "share link", "jwt"])
async def test_a_thousand_spellings_of_a_token_are_refused_or_one_principal(kind: str):
    """Else a limit by principal, and a list of revoked tokens, would be escaped."""
    async with serve_world() as world:
        token = world.shown[kind]
        principal = await world.authenticator.authenticate(token)
        tried, taken = {*spellings(token)} - {token}, []
        for one in tried:
            try:
                found = await world.authenticator.find(one)
            except RequestError as error:
                assert "unauthenticated" == error.code  # noqa: PT017
            else:
                taken += [] if found is None else [(one, found.owner)]

    assert principal.owner
    assert [] == taken
    assert len(tried) > 1000


SCHEMES = ["Bearer", "bearer", "BEARER", "bEaReR"]


async def test_bearer_is_one_principal_in_every_spelling_that_is_taken():
    """RFC 9110, 11.1: the scheme is a token without case, and then at least one space."""
    authentication = Authentication(authenticator_of(OWNER, *OTHERS))
    shown = KEYS["owner"].encode()

    async def find(*values: bytes, name: bytes = b"authorization") -> str:
        headers = [(name, value) for value in values]
        scope = {"type": "http", "method": "GET", "path": "/v1/models", "query_string": b""}
        scope["headers"] = headers
        read_headers(scope)
        try:
            principal = await authentication.identify(scope)
        except RequestError as error:
            return error.code
        assert principal is not None
        return principal.owner

    for scheme in SCHEMES:
        for gap in (b" ", b"  ", b" \t "):
            assert "t:key:owner" == await find(scheme.encode() + gap + shown + b" ")
    for value in (
        *(b"Bearer\t" + shown, b"Bearer" + shown, b"Bearer:" + shown, b"Bearer=" + shown),
        *(b"Bearer Bearer " + shown, b"Bearer " + shown + b"," + shown, b'Bearer "%b"' % shown),
        *(b"Bearer " + shown + b"\x00", b"Bearer " + shown[:-1], b"Bearer " + shown.upper()),
        *(b"Bearer\xa0" + shown, b"Bearer " + shown + b"=", b"Bearer " + shown + b"%20", b"Bearer"),
    ):
        assert "unauthenticated" == await find(value), value
    assert "t:key:owner" == await find(b"Bearer " + shown, b"Bearer " + shown)
    other = KEYS["stranger"].encode()
    assert "unauthenticated" == await find(b"Bearer " + shown, b"Bearer " + other)


# No credential in what is read

PLANTED = {
    "PLANTED_KEY": "sk-planted-key-0123456789",
    "OPENAI_API_KEY": "sk-proj-planted-0123456789",
}
SETTINGS = """
allowed_hosts = ["localhost", "127.0.0.1"]
[auth]
signing_key = "planted signing key of more than 32"
[[key]]
name = "admin"
sha256 = "{admin}"
roles = ["admin", "client_secrets"]
[[key]]
name = "owner"
sha256 = "{owner}"
tenant = "t"
[upstream.u]
base_url = "{base_url}"
key_env = "PLANTED_KEY"
headers = {{ "x-planted" = "planted-header-0123456789" }}
[[route]]
name = "r"
targets = ["u/m", "openai/m"]
"""


GETS = sorted(
    route.path
    for route in routes_of(load_settings({"SESERAGI_METRICS": "true"}))
    if isinstance(route, Route) and "GET" in (route.methods or ())
)


async def test_no_credential_is_in_any_answer_to_a_get(tmp_path: Path):
    """Every GET of the app, by an operator and a user, after a failure that quotes the key."""
    config = tmp_path / "seseragi.toml"
    async with serve_upstream() as upstream:
        upstream.script = HI
        base_url = upstream.base_url.removesuffix("/v1")
        digests = {name: digest(KEYS[name]) for name in ("admin", "owner")}
        config.write_text(SETTINGS.format(base_url=base_url, **digests))
        environ = {**PLANTED, "SESERAGI_CONFIG": str(config), "OPENAI_BASE_URL": base_url}
        async with serve_relay(environ=environ, metrics=True) as relay:
            names = await fill_relay(relay, upstream)
            secrets_ = {*PLANTED.values(), *KEYS.values(), *digests.values(), names.pop("token")}
            secrets_ |= {"planted signing key of more than 32", "planted-header-0123456789"}
            secrets_ |= {names.pop("client_secret")}
            forms = {form for secret in secrets_ for form in forms_of(secret)}
            answered = set()
            for who in ("admin", "owner", None):
                for path in (*GETS, "/readyz?verbose", "/v1/streams?limit=100", "/static/chat.js"):
                    for place, name in names.items():
                        path = path.replace(place, name)
                    headers = {} if who is None else bearer(KEYS[who])
                    told = ""
                    async with relay.client.stream("GET", path, headers=headers) as reply:
                        async for piece in reply.aiter_text():
                            told += piece
                            if "event: watch.ready" in told:  # a watch does not end
                                break
                    told += repr(sorted(reply.headers.items()))
                    assert [] == [form for form in forms if form in told], (who, path)
                    answered |= {path} if reply.status_code == 200 else set()

    assert len(answered) > len(GETS)


async def fill_relay(relay: Relay, upstream: Any) -> dict[str, str]:
    """Start what the routes name, and fail once with an answer that quotes the keys."""
    owner, client = bearer(KEYS["owner"]), relay.client
    response = await client.post("/v1/responses", json={"model": "r", "input": "x"}, headers=owner)
    await client.post("/v1/ui/chat", json={**body_of("/v1/ui/chat"), "model": "r"}, headers=owner)
    made = await client.post(
        "/v1/client_secrets", json={"user": "a"}, headers=bearer(KEYS["admin"])
    )
    stream = response.headers["stream-id"]
    shared = await client.post(f"/v1/streams/{stream}/share", headers=owner)
    quoted = json.dumps({"error": {"message": f"bad key {' '.join(PLANTED.values())}"}})
    upstream.script = [
        send(
            "HTTP/1.1 401 Unauthorized\r\ncontent-type: application/json\r\n"
            f"content-length: {len(quoted)}\r\n\r\n{quoted}"
        )
    ]
    await client.post("/v1/chat", json={**HELLO, "model": "r"}, headers=owner)
    assert (200, 200, 200) == (response.status_code, made.status_code, shared.status_code)
    return {
        "{response_id}": response.json()["id"],
        "{chat:path}": CHAT.replace(" ", "%20"),
        "{model:path}": "r",
        "{stream}": stream,
        "token": shared.json()["token"],
        "client_secret": made.json()["value"],
    }


def forms_of(secret: str) -> Iterator[str]:
    yield from (secret, quote(secret, safe=""), json.dumps(secret)[1:-1])
    yield base64.b64encode(secret.encode()).decode().rstrip("=")


# Public paths with something after them

PUBLIC = ("", "/", "/admin", "/docs", "/static", "/static/", "/healthz", "/readyz")
SUFFIXES = (
    *("X", "/", "//", "/.", "/..", "/../", "..", "../", ".json", "%00", "%20", "%0a", ";", ";x=y"),
    *("/..;/v1/models", ";/v1/models", "/../v1/models", "/%2e%2e/v1/models", "/..%2fv1/models"),
    *("%2f..%2fv1%2fmodels", "/v1/models", "//v1/models", "/..//v1/models", "\\..\\v1\\models"),
    *("%5c..%5cv1%5cmodels", "/%252e%252e/v1/models", "?/v1/models", "#/v1/models", "%3f", "%23"),
    *("../app/main.py", "/../app/main.py", "/..%2fpyproject.toml", "/....//pyproject.toml"),
    *(
        "//etc/passwd",
        "/%2fetc%2fpasswd",
        "/..%5c..%5cpyproject.toml",
        "/..%c0%af",
        "/package.json",
    ),
    *("/metrics", "/v1/admin/summary", "/v1/streams", "/openapi.json", "/v1/chat", "/README.md"),
)


class Client:
    """Sends targets as they are written, one after another over a connection."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def ask(self, method: str, target: str) -> tuple[int, bytes]:
        """Return the status and the body of an answer."""
        if self._reader is None or self._writer is None:
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        lines = f"{method} {target} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n"
        self._writer.write(lines.encode())
        top = await self._reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"\r\ncontent-length: (\d+)\r\n", top)
        assert length is not None, top
        body = b"" if method == "HEAD" else await self._reader.readexactly(int(length[1]))
        if b"\r\nconnection: close\r\n" in top.lower():
            await self.aclose()
        return int(top.split()[1]), body

    async def aclose(self) -> None:
        if self._writer is not None:
            self._writer.close()
            await self._writer.wait_closed()
        self._reader = self._writer = None


def targets_of(root: str) -> Iterator[str]:
    for path, suffix in product(PUBLIC, SUFFIXES):
        yield from {f"{start}{path}{suffix}" for start in ("", "/", root, f"{root}/")}


@pytest.mark.proving
@pytest.mark.parametrize("root", ["", "/relay"])
async def test_public_path_with_a_suffix_opens_nothing_else(root: str):
    """Also before and within a root path, written as no client library would."""
    how: dict[str, Any] = {"root_path": root, "metrics": True} if root else {"metrics": True}
    async with serve_relay(authenticator=authenticator_of(OWNER, *OTHERS), **how) as relay:
        client, opened = Client(relay.port), dict[tuple[str, str], bytes]()
        for target in {*targets_of(root)}:
            for method in ("GET", "POST", "HEAD") if target.startswith("/") else ():
                status, body = await client.ask(method, target)
                if status < 300:
                    opened[method, target] = body
                else:
                    assert status in (307, 400, 401, 403, 404, 405), (status, target)
        await client.aclose()

    assert len(opened) > 10
    for (method, target), body in opened.items():
        assert method != "POST", target
        assert body in (b'{"status":"ok"}', b'{"status":"ready"}', b"") or body.startswith(
            b"<!doctype html>"
        ), target
