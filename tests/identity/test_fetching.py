"""Keys fetched from providers over a network: they lie, flood, hang, move, and are away."""

import asyncio
import contextlib
import gzip
import json
import ssl
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
import structlog
import trustme

from app.errors import ServiceError
from app.identity.issuer_keys import AGAIN_S, FETCH_S, IDLE_S, REFRESH_S
from app.identity.issuers import Issuers
from app.identity.jwks import MAX_BYTES
from tests.clock import Clock, StoppedClock
from tests.identity.provider import (
    JWKS,
    Provider,
    jwk,
    make_issuers,
    serve_provider,
    sign,
)
from tests.identity.test_jwks import BAD, KEY, NEW, code
from tests.ports import free_port
from tests.waiting import until


@contextlib.asynccontextmanager
async def issuer(**config: Any) -> AsyncIterator[tuple[Provider, Issuers, StoppedClock]]:
    clock = StoppedClock()
    async with serve_provider() as provider:
        issuers = make_issuers([provider.config(**config)], monotonic=clock)
        yield provider, issuers, clock
        await issuers.aclose()


async def test_known_keys_work_for_hours_while_the_provider_is_away():
    clock, port = StoppedClock(1000), free_port()
    async with serve_provider(port=port) as provider:
        issuers = make_issuers([provider.config()], monotonic=clock)
        token = sign(KEY, provider.claims())
        await issuers.verify(token)
    with structlog.testing.capture_logs() as lines:
        for hours in (0.5, 1, 5):
            lines.clear()
            clock.now = 1000 + 3600 * hours
            assert "taken" == await code(issuers, token)
            assert "taken" == await code(issuers, sign(KEY, provider.claims(sub=str(hours))))
            await until(lambda: lines)  # the fetch in the background has failed
            # Nobody can tell whether it is a new one.
            clock.now += AGAIN_S
            assert "overloaded" == await code(issuers, sign(NEW, provider.claims(), kid="2"))
            assert "overloaded" == await code(issuers, sign(NEW, provider.claims(), kid="3"))
        async with serve_provider(jwk(NEW, "2"), port=port) as again:
            lines.clear()
            clock.now += REFRESH_S
            await issuers.verify(token)
            await until(lambda: lines)

            assert "taken" == await code(issuers, sign(NEW, again.claims(), kid="2"))
            assert "unauthenticated" == await code(issuers, token)
    await issuers.aclose()


async def test_first_use_without_the_provider_is_told_to_come_again():
    clock, port = StoppedClock(), free_port()
    async with serve_provider(port=port) as provider:
        token = sign(KEY, provider.claims())
    issuers = make_issuers([provider.config()], monotonic=clock)
    waits = []
    for _ in range(6):
        with pytest.raises(ServiceError) as caught:
            await issuers.verify(token)
        assert "overloaded" == caught.value.code
        assert provider.url in caught.value.message
        waits.append(caught.value.retry_after_s)
        # Nobody is asked again before that.
        with pytest.raises(ServiceError):
            await issuers.verify(token)
        clock.now += waits[-1] or 0
    assert [5, 10, 20, 40, 60, 60] == waits
    async with serve_provider(port=port):
        assert "taken" == await code(issuers, token)
    await issuers.aclose()


LIES: dict[str, dict[str, Any]] = {
    "a page": {"body": b"<html>Down for maintenance</html>", "content_type": "text/html"},
    "bad keys only": {"body": json.dumps({"keys": list(BAD.values())}).encode()},
    "an error": {"body": json.dumps({"keys": [jwk(NEW, "2")]}).encode(), "status": "500 Oh"},
    "10 MB": {"body": json.dumps({"keys": [jwk(NEW, "2")], "x": "x" * 10_000_000}).encode()},
    "a bomb": {"body": gzip.compress(b" " * 10_000_000), "content_encoding": "gzip"},
    "half": {"body": b'{"keys": [', "content_length": "1000"},
    "no HTTP": {"body": b"", "status": "\0\0"},
    "endless headers": {"body": b"", "x": "y" * 1_000_000},
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
async def test_lies_change_nothing_and_are_told_in_one_line(lie):
    async with issuer() as (provider, issuers, clock):
        token = sign(KEY, provider.claims())
        await issuers.verify(token)
        provider.lie(**lie)
        clock.now += REFRESH_S
        with structlog.testing.capture_logs() as lines:
            await issuers.verify(token)
            await until(lambda: lines)

        assert "taken" == await code(issuers, token)
        assert "taken" == await code(issuers, sign(KEY, provider.claims(sub="b")))
        assert ["keys of an issuer not fetched"] == [line["event"] for line in lines]
        assert provider.url == lines[0]["issuer"]
        assert len(str(lines[0])) < 500
        assert 2 == provider.fetches()

        fresh = make_issuers([provider.config()])
        assert "overloaded" == await code(fresh, token)


@pytest.mark.parametrize("kind", ["endless", "drip", "silent"])
async def test_no_answer_takes_longer_or_more_than_is_given(kind, monkeypatch):
    async with issuer() as (provider, issuers, clock):
        token = sign(KEY, provider.claims())
        await issuers.verify(token)
        timers = Clock(monkeypatch)
        if kind == "silent":
            provider.hold = asyncio.Event()
        else:
            provider.lie(b'{"keys": [')
            provider.chunk = b" " if kind == "drip" else b" " * 65536
            provider.pause_s = 0.01 if kind == "drip" else 0
        clock.now += IDLE_S
        with structlog.testing.capture_logs() as lines:
            # It waits, since nobody has asked for long, and goes on with what is known.
            waiting = asyncio.create_task(code(issuers, token))
            await until(lambda: 2 == provider.fetches())
            if kind != "endless":
                assert not waiting.done()
                await timers.pass_(FETCH_S)
            assert "taken" == await waiting

        expected = f"{MAX_BYTES} bytes" if kind == "endless" else f"it took longer than {FETCH_S} s"
        assert expected in lines[0]["reason"]


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_redirects_are_not_followed(status):
    async with issuer() as (provider, _issuers, _), serve_provider() as other:
        for place in (other.url + JWKS, provider.url + "/else", "file:///etc/passwd"):
            provider.lie(b"", f"{status} Elsewhere", location=place)
            with structlog.testing.capture_logs() as lines:
                fresh = make_issuers([provider.config()])
                assert "overloaded" == await code(fresh, sign(KEY, provider.claims()))
            assert "redirects" in lines[0]["reason"]

        assert [] == other.asked
        assert {JWKS} == set(provider.asked)


async def test_keys_that_have_moved_are_found_again():
    async with issuer(jwks_url=None) as (provider, issuers, clock), serve_provider() as other:
        token = sign(KEY, provider.claims())
        assert "taken" == await code(issuers, token)
        provider.lie(b"gone", "404 Not Found")
        provider.discovery = {"issuer": provider.url, "jwks_uri": other.url + JWKS}
        other.publish(jwk(NEW, "2"))
        clock.now += IDLE_S
        assert "taken" == await code(issuers, token)
        clock.now += AGAIN_S
        assert "taken" == await code(issuers, sign(NEW, provider.claims(), kid="2"))


async def test_keys_come_from_whom_the_certificates_name():
    authority, stranger = trustme.CA(), trustme.CA()
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(own)

    def trusting(made: trustme.CA) -> ssl.SSLContext:
        context = ssl.create_default_context()
        made.configure_trust(context)
        return context

    async with serve_provider(tls=own) as provider:
        token = sign(KEY, provider.claims())
        for made, url, expected in [
            (authority, provider.url, "taken"),
            (stranger, provider.url, "overloaded"),
            # The certificate has another name.
            (authority, provider.url.replace("localhost", "127.0.0.1"), "overloaded"),
        ]:
            config = provider.config(jwks_url=url + JWKS)
            issuers = Issuers([config], trust=partial(trusting, made))

            assert expected == await code(issuers, token)


@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:1", "x://y:1", "http://127.0.0.1:1"])
async def test_proxy_that_cannot_be_used_is_told(proxy, monkeypatch):
    monkeypatch.setenv("ALL_PROXY", proxy)
    async with issuer() as (provider, issuers, _):
        # What is on this machine is not behind it.
        assert "taken" == await code(issuers, sign(KEY, provider.claims()))
        config = provider.config(jwks_url="https://idp.example/keys")
        with structlog.testing.capture_logs() as lines:
            assert "overloaded" == await code(make_issuers([config]), sign(KEY, provider.claims()))

        assert ["keys of an issuer not fetched"] == [line["event"] for line in lines]
