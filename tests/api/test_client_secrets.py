"""Client secrets over HTTP: who makes them, of what, and that nothing is had by asking."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from app.clock import Clock
from app.identity.principal import Principal
from app.ledger.config import LIMITS, UsageLimits
from tests.api.asking import Asked, serve_asked
from tests.clock import StoppedClock
from tests.serving import HELLO, cut_off, serve_relay
from tests.waiting import until

PATH = "/v1/client_secrets"


@pytest.fixture
async def asked() -> AsyncIterator[Asked]:
    async with serve_asked() as asked:
        yield asked


async def make(asked: Asked, body: dict[str, Any], *, who: str = "backend") -> dict[str, Any]:
    reply = await asked.by(who, "POST", PATH, json=body)
    assert 200 == reply.status_code, reply.text
    assert "no-store" == reply.headers["cache-control"]
    made: dict[str, Any] = reply.json()
    return made


async def test_secret_says_what_it_is_narrowed_to(asked):
    made = await make(
        asked, {"user": "ann", "models": ["fast", "openai/gpt-*"], "expires_in_s": 60}, who="narrow"
    )
    shown = await asked.tokens.verify(made["value"])

    assert made["value"].startswith("ek_")
    assert abs(time.time() + 60 - made["expires_at"]) < 20
    del made["value"], made["expires_at"]
    expected = {
        "user": "ann",
        "tenant": "acme",
        "models": ["fast", "openai/gpt-*"],
        "origins": ["https://a.example"],
    }
    assert expected == made
    assert ("acme", "ann", "narrow") == (shown.tenant, shown.user, shown.key)


async def test_every_limit_narrows_a_secret(asked):
    limits: dict[str, Any] = {limit.name: n for n, limit in enumerate(LIMITS, start=2)}
    made = await make(asked, {"limits": limits})
    shown = await asked.tokens.verify(made["value"])

    assert limits == made["limits"]
    assert UsageLimits(**limits) == shown.user_limits


async def test_openais_form_is_understood(asked):
    made = await make(asked, {"expires_after": {"anchor": "created_at", "seconds": 30}})

    assert abs(time.time() + 30 - made["expires_at"]) < 20


JSON = {"content-type": "application/json"}


@pytest.mark.parametrize(
    "how", [{}, {"json": {}}, {"content": b""}, {"content": b" ", "headers": JSON}]
)
async def test_nothing_needs_to_be_said(asked, how):
    reply = await asked.by("backend", "POST", PATH, **how)

    assert 200 == reply.status_code, reply.text
    assert abs(time.time() + 600 - reply.json()["expires_at"]) < 30


async def test_without_a_user_each_secret_has_one_of_its_own(asked):
    first, second = [await make(asked, {}) for _ in "12"]
    assert first["user"] != second["user"]
    started = await asked.by(first["value"], "POST", "/v1/chat", json={**HELLO, "max_tokens": 3})
    path = f"/v1/streams/{started.headers['stream-id']}"

    assert 200 == (await asked.by(first["value"], "GET", path)).status_code
    for other in (second["value"], "backend"):
        assert 404 == (await asked.by(other, "GET", path)).status_code
    assert 401 == (await asked.by("", "GET", path)).status_code
    again = await make(asked, {"user": first["user"]})
    assert 200 == (await asked.by(again["value"], "GET", path)).status_code


async def test_key_of_one_user_makes_secrets_of_that_user(asked):
    assert "ann" == (await make(asked, {}, who="ann"))["user"]
    reply = await asked.by("ann", "POST", PATH, json={"user": "bob"})

    assert (403, "forbidden") == (reply.status_code, reply.json()["code"])


async def test_only_a_key_with_the_role_makes_one(asked):
    reply = await asked.by("plain", "POST", PATH, json={"user": "ann"})

    assert (403, "forbidden") == (reply.status_code, reply.json()["code"])
    assert "role 'client_secrets'" in reply.json()["detail"]


async def test_what_it_made_makes_no_other(asked):
    secret = (await make(asked, {"user": "ann"}))["value"]
    link = asked.tokens.make_stream_token(
        asked.keys["backend"], "st_1", may="read", expires_at=time.time() + 60
    )
    for credential in (secret, link):
        reply = await asked.by(credential, "POST", PATH, json={"user": "ann"})
        assert (403, "forbidden") == (reply.status_code, reply.json()["code"])


@pytest.mark.parametrize(
    ("body", "status", "told"),
    [
        ({"models": ["other"]}, 403, "models: 'other' is not allowed for the key: 'fast'"),
        ({"origins": ["https://evil.example"]}, 403, "origins: 'https://evil.example'"),
        ({"tenant": "others"}, 403, "tenant: the key belongs to 'acme'"),
        ({"expires_in_s": 601}, 400, "expires_in_s: a client secret is valid for 600 s at most"),
        ({"expires_after": {"seconds": 7200}}, 400, "expires_after.seconds: a client secret"),
        ({"expires_after": {"seconds": 60, "anchor": "used_at"}}, 400, "expires_after.anchor"),
        ({"expires_in_s": 9, "expires_after": {"seconds": 9}}, 400, "send one of them"),
        ({"expires_in_s": 0}, 400, "expires_in_s"),
        ({"user": ""}, 400, "user"),
        *(({"user": user}, 400, "user") for user in (" ", "a\0b", "ann\u200b", "ann\n", "\u202eann")),
        ({"tenant": "acme\u200b"}, 400, "tenant"),
        ({"models": ["fast"] * 33}, 400, "models"),
        ({"origins": ["a.example"]}, 400, "origins[0]"),
        ({"session": {"model": "fast"}}, 400, "session"),
        ({"roles": ["admin"]}, 400, "roles"),
        ([], 400, "object")
    ],
    ids=str
)  # fmt: skip
async def test_more_than_the_key_may_or_what_is_unknown_is_refused(asked, body, status, told):
    reply = await asked.by("narrow", "POST", PATH, json=body)

    assert status == reply.status_code, reply.text
    assert told in reply.json()["detail"]


@pytest.mark.parametrize(
    ("content", "headers", "status"),
    [
        (b'{"user": "ann"}', {}, 415),
        (b'{"user": "ann"}', {"content-type": "text/plain"}, 415),
        (b'{"user": "ann"', {"content-type": "application/json"}, 400),
        (b" " * 16_385, {"content-type": "application/json"}, 413),
    ],
)
async def test_body_that_is_not_understood_never_counts_as_none(asked, content, headers, status):
    async def pieces() -> AsyncIterator[bytes]:
        yield content

    for sent in (content, pieces()):
        reply = await asked.by("backend", "POST", PATH, content=sent, headers=headers)
        assert status == reply.status_code, reply.text


async def test_client_that_leaves_amid_its_options_is_no_fault_of_the_relay(asked, caplog):
    relay = asked.relay
    _, writer = await asyncio.open_connection("127.0.0.1", relay.port)
    writer.write(
        f"POST {PATH} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer backend\r\n"
        "content-type: application/json\r\ncontent-length: 100\r\n\r\n{".encode()
    )
    await until(lambda: relay.hub.admission.bytes == 1)
    writer.close()
    await cut_off(relay, others=0)
    await until(lambda: relay.hub.admission.bytes == 0)  # its request ends after its connection

    assert [] == [line for line in caplog.records if line.levelname == "ERROR"]


async def test_secret_is_refused_when_it_has_expired_or_its_key_is_gone():
    now = StoppedClock()
    async with serve_asked(clock=Clock(wall=now)) as asked:
        made = await make(asked, {"user": "ann", "expires_in_s": 60})
        longer = await make(asked, {"user": "ann"})
        now.now += 59
        assert 200 == (await asked.by(made["value"], "GET", "/v1/models")).status_code
        now.now += 2
        reply = await asked.by(made["value"], "GET", "/v1/models")
        assert (401, True) == (reply.status_code, "ask your backend for a new one" in reply.text)

        assert 200 == (await asked.by(longer["value"], "GET", "/v1/models")).status_code
        del asked.keys["backend"]
        assert 401 == (await asked.by(longer["value"], "GET", "/v1/models")).status_code


async def test_secret_ends_with_its_key_and_says_so(asked):
    ends_at = time.time() + 30
    role = asked.keys["backend"].roles
    asked.keys["backend"] = Principal("acme", key="backend", roles=role, expires_at=ends_at)

    assert int(ends_at) == (await make(asked, {"user": "ann"}))["expires_at"]


async def test_where_nobody_says_who_he_is_it_is_told_what_to_configure():
    async with serve_relay() as relay:
        reply = await relay.client.post(PATH, json={"user": "ann"})

    assert 403 == reply.status_code
    assert "seseragi key new --role client_secrets" in reply.json()["detail"]
