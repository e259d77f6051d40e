"""A relay mounted in an application that names the callers itself."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.requests import Request
from starlette.testclient import TestClient
from starlette.types import ASGIApp, Receive, Scope, Send

from app import Caller, UsageLimits, create_app
from app.dialects.client_formats import CLIENT_FORMATS
from app.settings import SettingsError, load_settings
from app.settings.access import settle_hook
from tests.api.bodies import body_of
from tests.api.test_ownership_matrix import CALLS, CLOSED, STARTS
from tests.serving import HELLO

SHORT = {**HELLO, "max_tokens": 3}
USERS: dict[str, Any] = {
    "ada": "ada",
    "grace": "grace",
    "admin": Caller("root", admin=True),
    "acme": Caller("ada", "acme"),
    "bounded": Caller("bounded", limits=UsageLimits(requests_per_minute=1)),
    "narrow": Caller("narrow", models=["fast"]),
    "mistake": Caller(""),
}


class Sessions:
    """A middleware of the host application: its cookie is the session."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope["session"] = dict(Request(scope).cookies)
        await self._app(scope, receive, send)


class Host:
    """An application with the relay at /llm, and one client of it for all users."""

    def __init__(self, **settings: object) -> None:
        self.asked: list[str] = []
        environ = {f"SESERAGI_{name.upper()}": str(value) for name, value in settings.items()}
        relay = create_app(load_settings(environ), identify=self.identify)
        self.app = FastAPI(lifespan=relay.lifespan)
        self.app.add_middleware(Sessions)
        self.app.mount("/llm", relay)

    async def identify(self, scope: Scope) -> Caller | str | None:
        self.asked.append(scope["path"])
        user = scope["session"].get("user")
        if user == "failing":
            raise LookupError("no database")
        return None if user is None else USERS[user]

    @contextmanager
    def served(self) -> Iterator["Host"]:
        with TestClient(self.app) as self._client:
            yield self

    def ask(self, user: str | None, method: str, path: str, **how: Any) -> Any:
        cookie = {} if user is None else {"cookie": f"user={user}"}
        headers = {**how.pop("headers", {}), **cookie}
        return self._client.request(method, f"/llm{path}", headers=headers, **how)

    def start(self, user: str) -> str:
        answer = self.ask(user, "POST", "/v1/chat", json=SHORT)
        assert '"status":"completed"' in answer.text
        return f"/v1/streams/{answer.headers['stream-id']}"


@pytest.fixture
def host() -> Iterator[Host]:
    with Host().served() as host:
        yield host


def test_every_call_needs_a_caller_and_asks_once(host):
    for method, path in CLOSED:
        how = {"json": body_of(path)} if path in STARTS | CALLS else {}
        host.asked.clear()
        answer = host.ask(None, method, path, headers={"authorization": "Bearer ssk_x"}, **how)
        assert (401, [f"/llm{path}"]) == (answer.status_code, host.asked), path
        assert "did not identify the caller" in answer.text
    host.asked.clear()
    for path in ("/", "/healthz", "/static/seseragi.js"):
        assert 200 == host.ask(None, "GET", path).status_code
    assert [] == host.asked


@pytest.mark.parametrize("client_format", CLIENT_FORMATS.values(), ids=lambda one: one.name)
@pytest.mark.parametrize(("user", "status"), [(None, 401), ("failing", 500), ("mistake", 500)])
def test_refusal_and_failure_are_in_the_words_of_the_client(host, client_format, user, status):
    answer = host.ask(user, "POST", client_format.path, json={})
    assert status == answer.status_code
    assert "identify" in answer.text
    assert "database" not in answer.text
    assert "Traceback" not in answer.text


def test_streams_belong_to_their_user(host):
    stream = host.start("ada")
    for other in ("grace", "acme"):
        for method, path in (
            *(("GET", ""), ("GET", "/events"), ("DELETE", "")),
            *(("POST", "/cancel"), ("POST", "/share")),
        ):
            assert 404 == host.ask(other, method, f"{stream}{path}").status_code
    assert 200 == host.ask("ada", "GET", f"{stream}/events").status_code
    assert 200 == host.ask("admin", "GET", stream).status_code


def test_operators_calls_are_for_administrators(host):
    for user, status in (("ada", 403), ("admin", 200)):
        for path in ("/v1/admin/summary", "/metrics"):
            assert status == host.ask(user, "GET", path).status_code
    assert 403 == host.ask("admin", "POST", "/v1/client_secrets", json={}).status_code


def test_link_is_read_by_whoever_has_it(host):
    stream = host.start("ada")
    url = host.ask("ada", "POST", f"{stream}/share").json()["url"].removeprefix("/llm")
    host.asked.clear()
    for user in (None, "grace", "failing"):
        assert '"status":"completed"' in host.ask(user, "GET", url).text
    assert 401 == host.ask(None, "GET", f"{url}x").status_code
    assert [] == host.asked


def test_models_and_limits_are_those_of_the_caller(host):
    host.start("bounded")
    assert 429 == host.ask("bounded", "POST", "/v1/chat", json=SHORT).status_code
    refused = host.ask("narrow", "POST", "/v1/chat", json={**SHORT, "model": "demo"})
    assert 403 == refused.status_code
    assert [] == host.ask("narrow", "GET", "/v1/models").json()["data"]


@pytest.mark.parametrize(
    "origin", ["http://evil.test", "null", "http://testserver.evil.test", "http://localhost:3000"]
)
@pytest.mark.parametrize("method", ["POST", "DELETE"])
def test_page_of_another_site_cannot_use_the_cookie(host, origin, method):
    stream = host.start("ada")
    path = "/v1/chat" if method == "POST" else stream
    host.asked.clear()
    headers = {"origin": origin, "sec-fetch-site": "cross-site", "content-type": "text/plain"}
    assert 403 == host.ask("ada", method, path, headers=headers).status_code
    assert [] == host.asked
    assert 200 == host.ask("ada", "GET", stream).status_code


def test_own_and_named_pages_may_use_the_cookie():
    named = "https://app.example.com"
    with Host(cors_origins=named).served() as host:
        for origin in ("http://testserver", named):
            headers = {"origin": origin}
            answer = host.ask("ada", "POST", "/v1/chat", json=SHORT, headers=headers)
            assert 200 == answer.status_code
        assert "true" == answer.headers["access-control-allow-credentials"]
        assert named == answer.headers["access-control-allow-origin"]


@pytest.mark.parametrize(
    ("environ", "told"),
    [
        ({"SESERAGI_AUTH": "none"}, "identify: "),
        ({"SESERAGI_KEYS_FILE": "keys.json"}, "identify: "),
        ({"SESERAGI_CORS_ORIGINS": "*"}, "cors_origins: "),
        ({"SESERAGI_CORS_ORIGINS": "null"}, "cors_origins: "),
    ],
)
def test_settings_that_contradict_are_refused_where_the_app_is_made(environ, told):
    with pytest.raises(SettingsError, match=told):
        Host(**{name.removeprefix("SESERAGI_"): value for name, value in environ.items()})


def test_clients_set_only_safe_options():
    settings = load_settings({"OPENAI_API_KEY": "sk-test"})
    assert [None] == [upstream.options for upstream in settings.upstreams]
    assert [("safe",)] == [upstream.options for upstream in settle_hook(settings).upstreams]
