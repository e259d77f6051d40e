"""Every route of the app, asked by everybody who has no business there.

The routes are the app's own: a new one has to be given a row here, which says what it is. What
is another's is answered as what never was, word for word, and by the same look-ups.
"""

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from inspect import iscoroutinefunction, signature
from pathlib import Path
from typing import Any, NamedTuple, get_args

import httpx2
import msgspec
import pytest
from starlette.routing import Mount, Route

from app.api.authentication import ADMIN_PAGE, DOCS_PAGE, PAGE, PROBES
from app.dialects import forwarded
from app.dialects.client_formats import CLIENT_FORMATS
from app.eventlog.redis.pages import Page, Pages
from app.eventlog.sqlite.database import Database
from app.generation.calls import Calls
from app.generation.hub import Hub
from app.generation.owned_streams import OwnedStreams
from app.identity.authenticator import Authenticator
from app.identity.principal import ANYONE, Principal, Role
from app.relay import Relay as Composed
from app.settings import load_settings
from app.testing.upstream import Hold, Step, head, send, text
from tests.api.bodies import CHAT, M
from tests.api.bodies import body_of as body_of
from tests.api.test_openai_responses import HI
from tests.identities import EXPIRED, Table, bearer
from tests.redis_server import RedisServer
from tests.serving import HELLO, Relay, routes_of, serve_relay, serve_script
from tests.waiting import until

SAID = "what only I was told"

STARTS = {*(one.path for one in CLIENT_FORMATS.values()), "/v1/responses/compact"}
CALLS = {
    *("/v1/messages/count_tokens", "/v1/responses/input_tokens", "/v1/embeddings"),
    "/v1/client_secrets",
    *(f"/v1/{call.path}" for call in forwarded.CALLS),
    "/v2/rerank",
}
LISTS = {
    *("/v1/models", "/v1/models/{model:path}", "/v1/usage", "/v1/echo", "/openapi.json"),
    *("/v1/streams", "/v1/streams/watch"),
}
ROLES = {
    ("GET", "/metrics"): ("metrics", "admin"),
    ("GET", "/v1/admin/summary"): ("admin",),
}
"""What only keys of some role may ask for."""
PUBLIC = {PAGE, ADMIN_PAGE, DOCS_PAGE, *PROBES}
OPEN = {*PUBLIC, "/static"}


class Named(NamedTuple):
    """A route that names a stream."""

    status: int = 404
    """What is said where there is none."""
    may: str | None = None
    """The stream token that is for it."""
    to_tokens: int = 404
    """What those of other streams are told, whether it is there or not."""


NAMING = {
    ("GET", "/v1/streams/{stream}/events"): Named(may="read"),
    ("GET", "/v1/streams/{stream}"): Named(may="read"),
    ("DELETE", "/v1/streams/{stream}"): Named(),
    ("POST", "/v1/streams/{stream}/cancel"): Named(may="stop"),
    ("POST", "/v1/streams/{stream}/cassette"): Named(),
    ("POST", "/v1/streams/{stream}/share"): Named(to_tokens=403),
    ("GET", "/v1/responses/{response_id}"): Named(),
    ("DELETE", "/v1/responses/{response_id}"): Named(),
    ("GET", "/v1/responses/{response_id}/input_items"): Named(),
    ("POST", "/v1/responses/{response_id}/cancel"): Named(),
    ("GET", "/v1/ui/chat/{chat:path}/stream"): Named(204),
    ("POST", "/v1/ui/chat/{chat:path}/stop"): Named(204),
}
LOGS = {
    *(("GET", "/v1/streams/{stream}/events"), ("POST", "/v1/streams/{stream}/cancel")),
    *(("GET", "/v1/responses/{response_id}"), ("DELETE", "/v1/responses/{response_id}")),
    ("POST", "/v1/ui/chat/{chat:path}/stop"),
}
"""What is asked of every log: a call of each kind."""

CELLS = [pytest.param(*route, "memory") for route in sorted(NAMING)]
CELLS += [pytest.param(*route, "sqlite") for route in sorted(LOGS)]
CELLS += [pytest.param(*route, "redis", marks=pytest.mark.proving) for route in sorted(LOGS)]

ME = Principal("t", "me", "k1")
OTHERS = {
    "other-tenant": Principal("u", "me", "k1"),
    "other-user": Principal("t", "other", "k1"),
    "no-user": Principal("t", "", "k1"),
    "no-tenant": Principal("", "me", "k1"),
    "nearly": Principal("t:user", "me", "k1"),
    "nobody": ANYONE,
}
REFUSED: dict[str, dict[str, str]] = {
    "no credential": {},
    "unknown": bearer("unknown"),
    "expired": {"authorization": f"Bearer {EXPIRED}"},
    "not bearer": {"authorization": "Basic a2V5LW1l"},
    "two": bearer("me") | {"x-api-key": "key-other-user"},
    "two that are known": {"api-key": "key-me", "x-goog-api-key": "key-other-tenant"},
}


class World(NamedTuple):
    """A relay in which I have a response and a chat, which both go on."""

    relay: Relay
    table: Table
    names: dict[str, str]
    """What stands in the paths for what is mine."""
    streams: list[str]
    asked: list[str]
    """What the event log was asked."""

    async def have_said(self) -> bool:
        """Return whether the streams have said what they say."""
        return all(one.get("text") == SAID for one in await self.results())

    async def have_ended(self) -> bool:
        return "running" not in await self.states()

    async def results(self) -> list[dict[str, Any]]:
        asked = [await self.ask("me", "GET", f"/v1/streams/{stream}") for stream in self.streams]
        return [answer.json() for answer in asked]

    async def ask(
        self, who: str | dict[str, str], method: str, path: str, **how: Any
    ) -> httpx2.Response:
        shown = header_of(who) if isinstance(who, str) else who
        headers = {**how.pop("headers", {}), **shown, "x-request-id": "req"}
        return await self.relay.client.request(method, path, headers=headers, **how)

    def fill(self, path: str, *, there: bool = True) -> str:
        for place, name in self.names.items():
            path = path.replace(place, name if there else none_like(name))
        return path

    async def compare(self, who: str | dict[str, str], method: str, path: str) -> httpx2.Response:
        """Ask for what is mine and for what is not there; both must be told the same."""
        mine = await self.ask(who, method, self.fill(path))
        none = await self.ask(who, method, self.fill(path, there=False))
        told = mine.text
        for name in self.names.values():
            told = told.replace(name, none_like(name))
        assert (none.status_code, none.text) == (mine.status_code, told)
        assert telling(none) == telling(mine)
        return mine

    async def states(self) -> list[str]:
        return [result["status"] for result in await self.results()]


def header_of(who: str) -> dict[str, str]:
    return {"authorization": f"Bearer key-{who}"}


def none_like(name: str) -> str:
    return f"{name[:-4]}none"


def telling(answer: httpx2.Response) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name not in ("date", "age")}


@asynccontextmanager
async def serve_world(log: str = "memory", *, ends: bool = False) -> AsyncIterator[World]:
    table = Table({"key-me": ME} | {f"key-{name}": who for name, who in OTHERS.items()})
    asked: list[str] = []
    spy = partial(Spy, asked=asked)
    how: dict[str, Any] = {"authenticator": Authenticator([table]), "wrap_log": spy}
    script: list[Step] = HI if ends else [head(), send(text(SAID)), Hold()]
    async with serve_script(script, default_model=M, log=log, **how) as (relay, _):
        world = World(relay, table, {}, [], asked)
        body = {"model": M, "input": "hello", "background": True}
        response = await world.ask("me", "POST", "/v1/responses", json=body)
        body, prefer = body_of("/v1/ui/chat"), {"prefer": "respond-async"}
        chat = await world.ask("me", "POST", "/v1/ui/chat", json=body, headers=prefer)
        assert (200, 202) == (response.status_code, chat.status_code), response.text
        world.names["{response_id}"] = response.json()["id"]
        world.names["{chat:path}"] = CHAT.replace(" ", "%20")
        world.names["{stream}"] = response.headers["stream-id"]
        world.streams.extend((response.headers["stream-id"], chat.headers["stream-id"]))
        for name, stream in (("mine", world.streams[0]), ("another", world.streams[1])):
            for may in ("read", "stop"):
                token = msgspec.structs.replace(ME, stream=stream, may=may)
                table.principals = {**table.principals, f"key-{may}-{name}": token}
        if not ends:
            await until(world.have_said)
        yield world


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with serve_world() as world:
        yield world


def list_routes() -> Iterator[tuple[str, str]]:
    for route in routes_of(load_settings({})):
        assert isinstance(route, Route | Mount), route
        if isinstance(route, Mount):
            yield "*", route.path
        else:
            yield from ((method, route.path) for method in (route.methods or set()) - {"HEAD"})


ROUTES = sorted(list_routes())
CLOSED = [route for route in ROUTES if route[1] not in OPEN]


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_route_has_a_row(method: str, path: str):
    """A new one belongs into a row above: it names a stream, starts one, or does neither."""
    rows: dict[str, set[str]] = {
        "POST": STARTS | CALLS,
        "GET": LISTS | PUBLIC | {path for method, path in ROLES if method == "GET"},
        "*": {"/static"},
    }

    assert path in rows.get(method, set()) or (method, path) in NAMING


def test_rows_have_a_route():
    rows = {("POST", path) for path in STARTS | CALLS}
    rows |= {("GET", path) for path in LISTS | PUBLIC}

    assert set(ROUTES) == rows | set(ROLES) | set(NAMING) | {("*", "/static")}


async def test_hub_itself_names_no_stream():
    """What starts, reads and ends a stream is reached by a principal only, or is a type error."""
    public = {name for name in dir(Hub) if not name.startswith("_")}
    of_all_owners = {"progress", "readers"}

    assert public == {
        *("models", "readiness", "report_refusal"),
        *("open", "close", "drain", "drain_once"),
        "load",  # numbers alone
        *of_all_owners,
    }
    # The page of operators alone shows these, and its calls need their role.
    for module in Path(Hub.__module__.partition(".")[0]).glob("api/*.py"):
        for name in of_all_owners:
            assert not re.search(rf"hub\.{name}\b", module.read_text()), module
    async with Composed.open(load_settings({})) as relay:
        parts = {name for name in vars(relay.hub) if not name.startswith("_")}
        opened = relay.hub.streams_of
    assert parts == {"upstreams", "admission", "calls", "shutdown", "clock", "streams_of"}
    assert OwnedStreams is opened.func
    assert ((), "principal") == (opened.args, next(iter(signature(OwnedStreams).parameters)))
    assert "principal" not in opened.keywords
    assert {"ask"} == {name for name in dir(Calls) if not name.startswith("_")}
    assert "principal" in Calls.ask.__code__.co_varnames


@pytest.mark.parametrize(("method", "path"), CLOSED)
async def test_nobody_is_let_in_who_is_not_known(world, method: str, path: str):
    how = {"json": body_of(path)} if path in STARTS | CALLS else {}
    for what, headers in REFUSED.items():
        answer = await world.ask(headers, method, world.fill(path), **how)
        assert 401 == answer.status_code, what
        shown = ', error="invalid_token"' if headers else ""
        assert f'Bearer realm="seseragi"{shown}' == answer.headers["www-authenticate"], what
        assert SAID not in answer.text
        if (method, path) in NAMING:
            await world.compare(headers, method, path)
    assert ["running", "running"] == await world.states()


@pytest.mark.parametrize(("method", "path"), sorted(ROLES))
async def test_what_is_for_a_role_is_for_no_other(world, method: str, path: str):
    for role in get_args(Role):
        who = Principal("t", "me", "k1", roles=frozenset([role]))
        world.table.principals = {**world.table.principals, f"key-{role}": who}
    others = set(get_args(Role)) - set(ROLES[method, path])
    for name in ("me", *others, *OTHERS):
        if OTHERS.get(name) is not ANYONE:  # who asks where nobody has to say it
            assert 403 == (await world.ask(name, method, path)).status_code, name
    for role in ROLES[method, path]:
        assert 200 == (await world.ask(role, method, path)).status_code
    token = msgspec.structs.replace(ME, stream=world.streams[0], may="read")
    world.table.principals = {**world.table.principals, "key-token": token}
    assert 403 == (await world.ask("token", method, path)).status_code


def place_of(log: str, folder: Path, request: pytest.FixtureRequest) -> str:
    """Return where a log is that is empty yet."""
    if log == "redis":
        server: RedisServer = request.getfixturevalue("redis")
        server.ask("FLUSHALL")
        return server.url
    return f"sqlite:///{folder}/streams.db" if log == "sqlite" else log


@pytest.mark.parametrize(("method", "path", "log"), CELLS)
async def test_what_is_mine_is_not_there_for_others(
    method: str, path: str, log: str, tmp_path: Path, request: pytest.FixtureRequest
):
    async with serve_world(place_of(log, tmp_path, request)) as world:
        row = NAMING[method, path]
        for who in OTHERS:
            assert row.status == (await world.compare(who, method, path)).status_code
        await check_tokens(world, method, path)
        assert ["running", "running"] == await world.states()
        if path.endswith(("/events", "/stream")):
            url = f"{world.relay.url}{world.fill(path)}"
            async with world.relay.client.stream("GET", url, headers=bearer("me")) as reply:
                assert 200 == reply.status_code
        else:
            assert 300 > (await world.ask("me", method, world.fill(path))).status_code
        if method == "DELETE":  # nor is it told to others that there was one
            for who in OTHERS:
                assert row.status == (await world.compare(who, method, path)).status_code


async def check_tokens(world: World, method: str, path: str) -> None:
    """Ask with stream tokens of this stream and of another of mine."""
    row = NAMING[method, path]
    for may in ("read", "stop"):
        of_another = await world.compare(f"{may}-another", method, path)
        expected = row.to_tokens if path.startswith("/v1/streams/") else 403
        assert expected == of_another.status_code
        if may != row.may:
            answer = await world.ask(f"{may}-mine", method, world.fill(path))
            assert 403 == answer.status_code, answer.text
            assert SAID not in answer.text


@pytest.mark.parametrize(
    "log", ["memory", "sqlite", pytest.param("redis", marks=pytest.mark.proving)]
)
async def test_what_is_mine_is_in_no_list_of_others(
    log: str, tmp_path: Path, request: pytest.FixtureRequest
):
    async with serve_world(place_of(log, tmp_path, request)) as world:
        admin = Principal("t", "admin", "k1", roles=frozenset(["admin"]))
        world.table.principals = {**world.table.principals, "key-admin": admin}
        mine = await world.ask("me", "GET", "/v1/streams?limit=1")
        for query in (
            *("", "?status=running", "?limit=100", f"?after={mine.json()['next']}"),
            f"?metadata=chat:{CHAT}",
        ):
            for who in ("admin", *OTHERS):
                answer = await world.ask(who, "GET", f"/v1/streams{query}")
                if who == "nobody":
                    assert 403 == answer.status_code
                else:
                    assert (200, {"data": []}) == (answer.status_code, answer.json())
        whole = (await world.ask("me", "GET", "/v1/streams")).json()
        chat = (await world.ask("me", "GET", f"/v1/streams?metadata=chat:{CHAT}")).json()
        assert world.streams[::-1] == [one["stream"] for one in whole["data"]]
        assert world.streams[1:] == [one["stream"] for one in chat["data"]]


@pytest.mark.parametrize("client_format", CLIENT_FORMATS)
async def test_stream_is_read_in_no_format_by_others(world, client_format: str):
    path = f"/v1/streams/{{stream}}/events?format={client_format}"
    letter = CLIENT_FORMATS[client_format].letter
    for who, status in (
        *((who, 404) for who in OTHERS),
        *(("read-another", 404), ("stop-another", 404), ("stop-mine", 403), ("unknown", 401)),
    ):
        for cursor in ("", "&after=1"):
            if status in (404, 401):
                assert status == (await world.compare(who, "GET", path + cursor)).status_code
            else:
                answer = await world.ask(who, "GET", world.fill(path + cursor))
                assert (status, False) == (answer.status_code, SAID in answer.text)
        cursor = f"{world.names['{stream}']}.{letter}1"
        headers = {"last-event-id": cursor}
        answer = await world.ask(who, "GET", world.fill(path), headers=headers)
        assert (status, False) == (answer.status_code, SAID in answer.text)


async def test_stream_tokens_do_what_they_are_for_in_the_query_too(world):
    """Where `EventSource` and `sendBeacon` have them, which send no headers."""
    stream = world.streams[0]
    base = f"/v1/streams/{stream}"

    async def ask(method: str, path: str, token: str, **headers: str) -> int:
        path = f"{path}{'&' if '?' in path else '?'}token={token}"
        return (await world.ask(headers, method, path)).status_code

    read, stop = "key-read-mine", "key-stop-mine"
    assert 200 == await ask("GET", base, read)
    async with world.relay.client.stream("GET", f"{base}/events?token={read}") as reply:
        assert 200 == reply.status_code
    assert 403 == await ask("GET", f"{base}/events", stop)
    assert 403 == await ask("POST", f"{base}/cancel", read)
    assert 403 == await ask("DELETE", base, stop)
    # Nothing else is taken from a query, nor anywhere else.
    assert 401 == await ask("GET", base, "key-me")
    assert 401 == await ask("GET", base, "key-unknown")
    # By its plain name, which what hides it from logs knows, and whole.
    assert 200 == await ask("GET", f"{base}?x=token=1&%74oken=a", "key%2Dread-mine&token=&tok")
    for name in ("%74oken", "TOKEN", "tok%65n", "+token", "token[]", "x;token"):
        assert 401 == (await world.ask({}, "GET", f"{base}?{name}={read}")).status_code
    for path in ("/v1/models", "/readyz", f"/v1/responses/{world.names['{response_id}']}"):
        assert 401 == await ask("GET", path, read)
        assert 401 == await ask("GET", path, "key-me")
    # Beside a credential of its own owner it says no more than that; beside another's, nothing.
    assert 200 == await ask("GET", base, read, **bearer("me"))
    assert 401 == await ask("GET", base, read, **bearer("other-user"))
    assert 401 == await ask("GET", f"{base}?token=key-read-another", read)
    assert 401 == await ask("GET", base, "", **{"x-api-key": ""})
    assert ["running", "running"] == await world.states()
    # A stop tells nothing of what was said.
    stopped = await world.ask({}, "POST", f"{base}/cancel?token={stop}")
    assert (202, {"id": stream}) == (stopped.status_code, stopped.json())
    assert "cancelled" == (await world.states())[0]


@pytest.mark.parametrize(("method", "path"), [r for r in CLOSED if r not in NAMING])
async def test_stream_token_is_for_nothing_else(world, method: str, path: str):
    how = {"json": body_of(path)} if method == "POST" else {}
    for may in ("read", "stop"):
        answer = await world.ask(f"{may}-mine", method, world.fill(path), **how)
        assert 403 == answer.status_code
    for path in ("/readyz?verbose", "/nothing", "/v1/streams"):
        assert 403 == (await world.ask("read-mine", "GET", path)).status_code


class Spy:
    """Notes what is asked of a log."""

    def __init__(self, log: Any, asked: list[str]) -> None:
        self._log = log
        self._asked = asked

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._log, name)
        if not iscoroutinefunction(found):
            return found

        async def noted(*args: Any, **kwargs: Any) -> Any:
            self._asked.append(name)
            return await found(*args, **kwargs)

        return noted


@pytest.mark.parametrize(("method", "path"), sorted(NAMING))
async def test_others_cost_the_log_what_nothing_does(world, method: str, path: str):
    """So that time tells nothing either."""
    asked = world.asked
    asked.clear()
    for who in (*OTHERS, "read-another", "stop-another"):
        await world.ask(who, method, world.fill(path))
        of_mine = asked.copy()
        asked.clear()
        await world.ask(who, method, world.fill(path, there=False))
        assert asked == of_mine
        assert len(asked) <= 1
        asked.clear()


@pytest.mark.parametrize("ends", [False, True], ids=["running", "ended"])
@pytest.mark.parametrize("log", ["sqlite", pytest.param("redis", marks=pytest.mark.proving)])
async def test_others_cost_the_place_of_the_log_what_nothing_does(
    log: str, ends: bool, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch
):
    """Nothing of another's stream is read, and what is in memory is looked for all the same."""
    asked: list[str] = []

    def note(kind: type, name: str) -> None:
        real = getattr(kind, name)

        def noted(self: Any, *args: Any, **kwargs: Any) -> Any:
            asked.append(name)
            return real(self, *args, **kwargs)

        monkeypatch.setattr(kind, name, noted)

    path = "/v1/streams/{stream}/events"
    place = place_of(log, tmp_path, request)
    async with AsyncExitStack() as stack:
        world = await stack.enter_async_context(serve_world(place, ends=ends))
        if ends:  # and the process has begun again, so that nothing of it is in memory
            await until(world.have_ended)
            await stack.aclose()
            how: dict[str, Any] = {"authenticator": Authenticator([world.table])}
            again = await stack.enter_async_context(serve_relay(log=place, **how))
            world = world._replace(relay=again)
        for kind, name in ((Database, "find"), (Database, "read"), (Pages, "_ask"), (Page, "has")):
            note(kind, name)
        for who in OTHERS:
            assert 404 == (await world.ask(who, "GET", world.fill(path))).status_code
            of_mine = asked.copy()
            asked.clear()
            await world.ask(who, "GET", world.fill(path, there=False))
            assert asked == of_mine
            assert len(asked) == 1
            asked.clear()


@pytest.mark.parametrize("path", sorted(STARTS))
async def test_key_of_another_starts_a_stream_of_its_own(path: str):
    async with serve_world(ends=True) as world:
        streams: dict[str, str] = {}
        for who in ("me", *OTHERS, "me"):
            reply = await world.ask(
                who, "POST", path, json=body_of(path), headers={"idempotency-key": "a-key"}
            )
            assert reply.status_code == 200, reply.text
            streams.setdefault(who, reply.headers["stream-id"])
            assert streams[who] == reply.headers["stream-id"]

    assert 1 + len(OTHERS) == len(set(streams.values()))


@pytest.mark.parametrize("path", sorted(STARTS))
async def test_cursor_of_another_is_not_read_on(world, path: str):
    own = path.removesuffix("/compact")
    letter = next(one.letter for one in CLIENT_FORMATS.values() if one.path == own)
    stream = world.names["{stream}"]
    for who in OTHERS:
        told = []
        for asked in (stream, none_like(stream)):
            headers = {"last-event-id": f"{asked}.{letter}1"}
            reply = await world.ask(who, "POST", path, json=body_of(path), headers=headers)
            assert 404 == reply.status_code, reply.text
            told.append(reply.text.replace(stream, none_like(stream)))
        assert told[0] == told[1]


@pytest.mark.parametrize("end", ["", "/input_tokens", "/compact"])
@pytest.mark.parametrize("field", ["previous_response_id", "item_reference"])
async def test_response_of_another_is_not_gone_on_from(field: str, end: str):
    async with serve_world(ends=True) as world:
        first = await world.ask("me", "POST", "/v1/responses", json={"model": M, "input": "hi"})
        answer = first.json()
        named = answer["id"] if field == "previous_response_id" else answer["output"][0]["id"]

        async def go_on(who: str, name: str) -> httpx2.Response:
            body: dict[str, Any] = {"model": M, "input": [{"role": "user", "content": "more"}]}
            if field == "previous_response_id":
                body["previous_response_id"] = name
            else:
                body["input"].insert(0, {"type": "item_reference", "id": name})
            return await world.ask(who, "POST", f"/v1/responses{end}", json=body)

        for who in OTHERS:
            mine, none = await go_on(who, named), await go_on(who, none_like(named))
            assert "not found" in mine.json()["error"]["message"]
            assert mine.text.replace(named, none_like(named)) == none.text
            assert mine.status_code == none.status_code
        assert 200 == (await go_on("me", named)).status_code


async def test_error_names_no_id_that_was_not_sent(world):
    """A cursor of another stream, a format that is none, a body that is none."""
    stream = world.names["{stream}"]
    for who in ("other-user", "read-another"):
        for path, headers in (
            (f"/v1/streams/{none_like(stream)}/events", {"last-event-id": "st_x.1"}),
            (f"/v1/streams/{none_like(stream)}/events?format=none", {}),
            (f"/v1/streams/{none_like(stream)}/events?after=999999", {}),
            ("/v1/streams/%20/events", {}),
        ):
            answer = await world.ask(who, "GET", path, headers=headers)
            found = set(re.findall(r"st_[\w-]{22}", answer.text))
            assert found <= {none_like(stream), "st_4fJ9qXw0V1cT8mYbR2nZkQ"}, answer.text


def test_owner_is_the_user_whatever_the_key_and_nobody_else():
    owners = [
        who.owner
        for who in (
            *(Principal("t", "u", "k1"), Principal("t", "u", "k2")),
            *(Principal("t", "", "k1"), Principal("t", "k1"), Principal("t", "", "")),
            *(Principal("t:user", "u"), Principal("t", "user:u"), Principal("", "u"), ANYONE),
        )
    ]

    assert owners[0] == owners[1]
    assert 8 == len(set(owners))
    assert "" == owners[-1]


async def test_chat_started_natively_is_read_by_its_own():
    async with serve_world(ends=True) as world:
        reply = await world.ask("me", "POST", "/v1/chat", json={**HELLO, "model": M})
        url = f"/v1/streams/{reply.headers['stream-id']}/events"
        again = await world.ask("me", "GET", url)

    assert reply.text.count("event:") == again.text.count("event:")
