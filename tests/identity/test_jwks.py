"""The keys of identity providers, and providers that rotate, flood, lie, hang and die."""

import asyncio
import contextlib
import gzip
import json
import ssl
import time
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
import structlog
import trustme
from cryptography.hazmat.primitives.asymmetric import rsa
from hypothesis import given
from hypothesis import strategies as st

from app.errors import RequestError, ServiceError
from app.identity import issuer_keys
from app.identity.config import IssuerConfig
from app.identity.fetching import MAX_BYTES, Fetcher
from app.identity.issuer_keys import AGAIN_S, IDLE_S, REFRESH_S, IssuerKeys
from app.identity.issuers import Issuers
from app.identity.jwks import MAX_KEYS, JwksUnusable, parse_jwks
from tests.identity.provider import (
    DISCOVERY,
    JSON,
    JWKS,
    Clock,
    Provider,
    ec_key,
    ed_key,
    jwk,
    make_issuers,
    rsa_key,
    serve_provider,
    sign,
)
from tests.ports import free_port

KEY, NEW = rsa_key("1"), rsa_key("2")
GOOD = jwk(KEY, "good")


@contextlib.asynccontextmanager
async def issuer(**config: Any) -> AsyncIterator[tuple[Provider, Issuers, Clock]]:
    clock = Clock()
    async with serve_provider() as provider:
        issuers = make_issuers([provider.config(**config)], monotonic=clock)
        yield provider, issuers, clock
        await issuers.aclose()


async def settled(issuers: Issuers) -> None:
    """Wait for what goes on in the background."""
    for one in issuers._issuers.values():
        if one.keys._task is not None:
            await asyncio.wait([one.keys._task])


async def code(issuers: Issuers, token: str) -> str:
    try:
        await issuers.verify(token)
    except (RequestError, ServiceError) as error:
        return error.code
    return "taken"


def without(name: str, row: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key != name}


def private(key: rsa.RSAPrivateKey) -> dict[str, Any]:
    import jwt

    return {**jwt.algorithms.RSAAlgorithm.to_jwk(key, as_dict=True), "kid": "private"}


BAD: dict[str, Any] = {
    "no object": "text",
    "null": None,
    "empty": {},
    "for encryption": jwk(KEY, "x", use="enc"),
    "of an encryption's algorithm": jwk(KEY, "x", alg="RSA-OAEP"),
    "not for checking": jwk(KEY, "x", key_ops=["encrypt"]),
    "operations are no list": jwk(KEY, "x", key_ops="verify"),
    "symmetric": {"kty": "oct", "k": "c2VjcmV0", "kid": "x", "alg": "HS256"},
    "symmetric within": jwk(KEY, "x", k="c2VjcmV0"),
    "HS256": jwk(KEY, "x", alg="HS256"),
    "none": jwk(KEY, "x", alg="none"),
    "algorithm of another type": jwk(KEY, "x", alg="ES256"),
    "private": private(KEY),
    "name is no text": {**GOOD, "kid": 7},
    "name is too long": jwk(KEY, "x" * 257),
    "1024 bits": jwk(rsa_key("small", 1024), "x"),
    "huge": jwk(KEY, "x", n="_" * 1500),
    "longer than is looked at": jwk(KEY, "x", n="_" * 100_000),
    "even exponent": jwk(KEY, "x", e="BA"),
    "exponent 1": jwk(KEY, "x", e="AQ"),
    "long exponent": jwk(KEY, "x", e="_" * 40),
    "no modulus": without("n", GOOD),
    "modulus is no text": jwk(KEY, "x", n=5),
    "modulus is no base64": jwk(KEY, "x", n="é"),
    "point is not on the curve": jwk(ec_key("1"), "x", y=jwk(ec_key("2"), "x")["x"]),
    "curve of another": jwk(ec_key("1"), "x", crv="P-384"),
    "unknown curve": jwk(ec_key("1"), "x", crv="secp256k1"),
    "curve is no text": jwk(ec_key("1"), "x", crv=["P-256"]),
    "no point": {"kty": "EC", "crv": "P-256", "kid": "x"},
    "for agreeing on keys": {**jwk(ed_key("1"), "x"), "crv": "X25519"},
    "short": jwk(ed_key("1"), "x", x="AA"),
    "unknown type": {"kty": "AKP", "kid": "x", "alg": "ML-DSA-44", "pub": "AA"},
}


@pytest.mark.parametrize("row", BAD.values(), ids=BAD)
def test_bad_key_is_left_out_and_the_good_are_used(row):
    found = parse_jwks(json.dumps({"keys": [row, GOOD, row]}).encode())

    assert ["good"] == [key.kid for key in found.keys]
    assert 2 == found.skipped


def test_no_more_keys_are_looked_at_than_providers_have():
    rows = [{"kty": "oct"}] * MAX_KEYS + [GOOD]
    with pytest.raises(JwksUnusable):
        parse_jwks(json.dumps({"keys": rows}).encode())


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"<html>", b"[]", b"{}", b"null", b'{"keys": {}}', b'{"keys": []}', b'{"keys": 1}'),
        *(b'{"keys": [{}]}', b"[" * 100_000, b'{"keys":' + b"[" * 100_000, b"\xff\xfe{}"),
        json.dumps({"keys": list(BAD.values())}).encode(),
    ],
)
def test_what_is_no_set_of_keys_is_refused(body):
    with pytest.raises(JwksUnusable):
        parse_jwks(body)


FIELDS = ("kty", "crv", "n", "e", "x", "y", "kid", "use", "alg", "key_ops")
ROWS = st.sampled_from([GOOD, jwk(ec_key("1"), "ec"), jwk(ed_key("1"), "ed")])


@given(ROWS, st.dictionaries(st.sampled_from(FIELDS), JSON, min_size=1))
def test_nothing_that_stands_in_a_key_harms_another(row, changes):
    found = parse_jwks(json.dumps({"keys": [{**row, **changes}, jwk(NEW, "new")]}).encode())

    assert "new" == found.keys[-1].kid


async def test_new_key_is_found_and_an_old_one_ends():
    async with issuer() as (provider, issuers, clock):
        old, new = sign(KEY, provider.claims()), sign(NEW, provider.claims(), kid="2")
        assert "taken" == await code(issuers, old)
        provider.publish(jwk(NEW, "2"))
        clock.now += AGAIN_S

        assert "taken" == await code(issuers, new)
        assert "unauthenticated" == await code(issuers, old)
        assert 2 == provider.fetches()


async def test_known_token_ends_with_its_key_after_the_next_refresh():
    async with issuer() as (provider, issuers, clock):
        old = sign(KEY, provider.claims())
        await issuers.verify(old)
        provider.publish(jwk(NEW, "2"))
        clock.now += REFRESH_S - 1
        assert "taken" == await code(issuers, old)
        assert 1 == provider.fetches()
        clock.now += 1
        # Nobody waits: this request starts the refresh, and is answered by what is known.
        assert "taken" == await code(issuers, old)
        await settled(issuers)

        assert "unauthenticated" == await code(issuers, old)


async def test_key_that_was_taken_back_while_nobody_asked_is_not_used_again():
    async with issuer() as (provider, issuers, clock):
        old = sign(KEY, provider.claims())
        await issuers.verify(old)
        provider.publish(jwk(NEW, "2"))
        clock.now += IDLE_S

        assert ["unauthenticated"] * 5 == await asyncio.gather(
            *(code(issuers, old) for _ in range(5))
        )
        assert 2 == provider.fetches()


async def test_name_of_a_key_that_is_used_for_another_ends_what_the_old_has_signed():
    async with issuer() as (provider, issuers, clock):
        old = sign(KEY, provider.claims())
        await issuers.verify(old)
        provider.publish(jwk(NEW, "1"))
        clock.now += IDLE_S

        assert "unauthenticated" == await code(issuers, old)
        assert "taken" == await code(issuers, sign(NEW, provider.claims()))


async def test_two_keys_of_one_name_are_both_tried():
    async with issuer() as (provider, issuers, _):
        provider.publish(jwk(NEW, "1"), jwk(KEY, "1"))

        assert "taken" == await code(issuers, sign(KEY, provider.claims()))
        assert "taken" == await code(issuers, sign(NEW, provider.claims()))


async def test_unnamed_new_key_is_found_too():
    async with issuer() as (provider, issuers, clock):
        provider.publish(jwk(KEY, None))
        assert "taken" == await code(issuers, sign(KEY, provider.claims(), kid=None))
        provider.publish(jwk(NEW, None))
        clock.now += AGAIN_S

        assert "taken" == await code(issuers, sign(NEW, provider.claims(), kid=None))


async def test_flood_of_unknown_keys_costs_one_fetch_a_minute():
    async with issuer() as (provider, issuers, clock):
        claims = provider.claims()
        await issuers.verify(sign(KEY, claims))
        for minute in range(1, 4):
            clock.now += AGAIN_S
            tokens = [sign(NEW, claims, kid=f"{minute}-{n}") for n in range(30)]
            together = await asyncio.gather(*(code(issuers, token) for token in tokens[:20]))
            after = [await code(issuers, token) for token in tokens[20:]]
            clock.now += AGAIN_S - 1
            after.append(await code(issuers, tokens[0]))
            clock.now -= AGAIN_S - 1

            assert {"unauthenticated"} == {*together, *after}
            assert 1 + minute == provider.fetches()


async def test_unknown_key_right_after_the_first_fetch_costs_none():
    async with issuer() as (provider, issuers, _):
        for n in range(10):
            assert "unauthenticated" == await code(
                issuers, sign(NEW, provider.claims(), kid=str(n + 5))
            )
        assert 1 == provider.fetches()


async def test_forged_signature_of_a_known_key_costs_no_fetch():
    async with issuer() as (provider, issuers, clock):
        await issuers.verify(sign(KEY, provider.claims()))
        clock.now += AGAIN_S
        forged = sign(NEW, provider.claims(), kid="1")

        assert "unauthenticated" == await code(issuers, forged)
        assert 1 == provider.fetches()


async def test_refresh_makes_nobody_wait():
    async with issuer() as (provider, issuers, clock):
        token, other = sign(KEY, provider.claims()), sign(KEY, provider.claims(sub="b"))
        known = await issuers.verify(token)
        provider.hold = asyncio.Event()
        clock.now += REFRESH_S

        for _ in range(10):
            assert "taken" == await code(issuers, token)
        assert "taken" == await code(issuers, other)
        await until(lambda: 2 == provider.fetches())
        provider.hold.set()
        await settled(issuers)
        # The keys are the same, and so is what is known of those that they have signed.
        assert await issuers.verify(token) is known
        assert 2 == provider.fetches()


async def until(true: Any) -> None:
    async with asyncio.timeout(20):
        while not true():  # noqa: ASYNC110  (no event tells)
            await asyncio.sleep(0.002)


async def test_known_keys_work_for_hours_while_the_provider_is_away():
    clock = Clock()
    port = free_port()
    async with serve_provider(port=port) as provider:
        issuers = make_issuers([provider.config()], monotonic=clock)
        token = sign(KEY, provider.claims())
        await issuers.verify(token)
    for hours in (0.5, 1, 5):
        clock.now = 1000 + 3600 * hours
        assert "taken" == await code(issuers, token)
        assert "taken" == await code(issuers, sign(KEY, provider.claims(sub=str(hours))))
        await settled(issuers)
        # Nobody can tell whether it is a new one.
        clock.now += AGAIN_S
        assert "overloaded" == await code(issuers, sign(NEW, provider.claims(), kid="2"))
        assert "overloaded" == await code(issuers, sign(NEW, provider.claims(), kid="3"))
    async with serve_provider(jwk(NEW, "2"), port=port) as again:
        clock.now += REFRESH_S
        await issuers.verify(token)
        await settled(issuers)

        assert "taken" == await code(issuers, sign(NEW, again.claims(), kid="2"))
        assert "unauthenticated" == await code(issuers, token)
    await issuers.aclose()


async def test_first_use_without_the_provider_is_told_to_come_again():
    clock, port = Clock(), free_port()
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
    "another JSON": {"body": b'{"error": "x"}'},
    "nothing": {"body": b""},
    "no keys": {"body": b'{"keys": []}'},
    "bad keys only": {"body": json.dumps({"keys": list(BAD.values())}).encode()},
    "an error": {"body": json.dumps({"keys": [jwk(NEW, "2")]}).encode(), "status": "500 Oh"},
    "no content": {"body": b"", "status": "204 No Content"},
    "10 MB": {"body": json.dumps({"keys": [jwk(NEW, "2")], "x": "x" * 10_000_000}).encode()},
    "a bomb": {"body": gzip.compress(b" " * 50_000_000), "content_encoding": "gzip"},
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
            await settled(issuers)

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
        monkeypatch.setattr(issuer_keys, "FETCH_S", 20 if kind == "endless" else 0.3)
        if kind == "silent":
            provider.hold = asyncio.Event()
        else:
            provider.lie(b'{"keys": [')
            provider.chunk = b" " if kind == "drip" else b" " * 65536
            provider.pause_s = 0.01 if kind == "drip" else 0
        clock.now += IDLE_S
        with structlog.testing.capture_logs() as lines:
            # It waits, since nobody has asked for long, and goes on with what is known.
            assert "taken" == await asyncio.wait_for(code(issuers, token), 60)

        expected = f"{MAX_BYTES} bytes" if kind == "endless" else "it took longer than 0.3 s"
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


async def test_keys_are_found_where_the_issuer_says():
    async with issuer(jwks_url=None) as (provider, issuers, clock):
        assert "taken" == await code(issuers, sign(KEY, provider.claims()))
        clock.now += IDLE_S
        assert "taken" == await code(issuers, sign(KEY, provider.claims()))

        assert [DISCOVERY, JWKS, JWKS] == provider.asked


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


OTHER, UNUSABLE = "is that of another issuer", "has no jwks_uri that can be used"
DISCOVERIES: list[tuple[dict[str, Any], str]] = [
    ({}, OTHER),
    ({"issuer": "https://evil.example", "jwks_uri": "https://idp.example/keys"}, OTHER),
    ({"issuer": "https://idp.example/", "jwks_uri": "https://idp.example/keys"}, OTHER),
    ({"issuer": "https://idp.example"}, UNUSABLE),
    ({"jwks_uri": 5}, UNUSABLE),
    ({"jwks_uri": "file:///etc/passwd"}, UNUSABLE),
    ({"jwks_uri": "http://192.0.2.1/keys"}, UNUSABLE),
    ({"jwks_uri": "https://user:pass@a.example/keys"}, UNUSABLE),
    ({"jwks_uri": "/keys"}, UNUSABLE),
    ({"jwks_uri": "https://a.example/" + "x" * 2000}, UNUSABLE),
    # Else the provider says which of this machine's own services are asked.
    ({"jwks_uri": "http://127.0.0.1:6379/"}, "is on this machine"),
    ({"jwks_uri": "https://localhost/"}, "is on this machine"),
]


class Documents(Fetcher):
    """Has each document, and notes what it is asked for."""

    def __init__(self, **documents: Any) -> None:
        super().__init__()
        self.asked: list[str] = []
        self._documents = documents

    async def fetch(self, url: str) -> bytes:
        self.asked.append(url)
        return json.dumps(self._documents[url.rpartition("/")[2].replace("-", "_")]).encode()


@pytest.mark.parametrize(("said", "told"), DISCOVERIES, ids=[str(d)[:60] for d, _ in DISCOVERIES])
async def test_what_an_issuer_says_of_itself_is_checked(said, told):
    usual = {} if told == OTHER else {"issuer": "https://idp.example"}
    documents = Documents(openid_configuration={**usual, **said})
    config = IssuerConfig(issuer="https://idp.example", audience="a")
    with structlog.testing.capture_logs() as lines, pytest.raises(ServiceError):
        await IssuerKeys(config, documents, clock=Clock()).get()

    assert told in lines[0]["reason"]
    assert ["https://idp.example/.well-known/openid-configuration"] == documents.asked


async def test_keys_may_be_on_another_host():
    """As Google's are, for Firebase."""
    url = "https://keys.example/jwks"
    documents = Documents(
        openid_configuration={"issuer": "https://idp.example/", "jwks_uri": url},
        jwks={"keys": [GOOD]},
    )
    config = IssuerConfig(issuer="https://idp.example/", audience="a")
    keys = await IssuerKeys(config, documents, clock=Clock()).get()

    assert ["good"] == [key.kid for key in keys]
    assert ["https://idp.example" + DISCOVERY, url] == documents.asked


async def test_cancelled_request_does_not_end_the_fetch_of_others():
    async with issuer() as (provider, issuers, _):
        provider.hold = asyncio.Event()
        token = sign(KEY, provider.claims())
        first, second = (asyncio.create_task(code(issuers, token)) for _ in range(2))
        await until(lambda: provider.fetches())
        first.cancel()
        await asyncio.wait([first])
        provider.hold.set()

        assert "taken" == await second
        assert 1 == provider.fetches()


async def test_closing_ends_a_fetch(monkeypatch):
    monkeypatch.setattr("app.identity.issuer_keys.FETCH_S", 60)
    async with issuer() as (provider, issuers, _):
        provider.hold = asyncio.Event()
        task = asyncio.create_task(code(issuers, sign(KEY, provider.claims())))
        await until(lambda: provider.fetches())
        await asyncio.wait_for(issuers.aclose(), 20)

        assert "overloaded" == await asyncio.wait_for(task, 20)


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


async def test_nothing_is_fetched_before_it_is_needed():
    async with issuer() as (provider, issuers, _):
        await asyncio.sleep(0.02)
        with contextlib.suppress(RequestError):
            await issuers.verify(sign(KEY, provider.claims(iss="https://evil.example")))

        assert [] == provider.asked


async def test_token_of_a_known_key_costs_no_wait_while_the_wall_clock_jumps():
    wall = Clock(time.time())
    async with serve_provider() as provider:
        issuers = make_issuers([provider.config()], clock=wall)
        token = sign(KEY, provider.claims(iat=None))
        await issuers.verify(token)
        wall.now -= 86_400

        assert "taken" == await code(issuers, token)
        assert 1 == provider.fetches()
        await issuers.aclose()
