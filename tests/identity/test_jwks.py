"""The keys of identity providers: which are used, and how they follow those that rotate."""

import asyncio
import json
import time
from typing import Any

import jwt
import pytest
import structlog
from cryptography.hazmat.primitives.asymmetric import rsa
from hypothesis import given
from hypothesis import strategies as st

from app.errors import RequestError, ServiceError
from app.identity.issuer_keys import AGAIN_S, FETCH_S, IDLE_S, REFRESH_S
from app.identity.issuers import Issuers
from app.identity.jwks import MAX_KEYS, JwksUnusable, parse_jwks
from tests.clock import StoppedClock
from tests.identity.provider import (
    DISCOVERY,
    JSON,
    JWKS,
    Provider,
    ec_key,
    ed_key,
    in_memory,
    jwk,
    make_issuers,
    rsa_key,
    sign,
)
from tests.waiting import until

pytestmark = pytest.mark.pure

KEY, NEW = rsa_key("1"), rsa_key("2")
GOOD = jwk(KEY, "good")


def issuer(**config: Any) -> tuple[Provider, Issuers, StoppedClock]:
    clock, provider = StoppedClock(), in_memory()
    return provider, make_issuers([provider.config(**config)], provider, monotonic=clock), clock


async def settle() -> None:
    """Let a fetch come to its end, which goes on in the background and waits for nobody."""
    for _ in range(5):
        await asyncio.sleep(0)


async def code(issuers: Issuers, token: str) -> str:
    try:
        await issuers.verify(token)
    except (RequestError, ServiceError) as error:
        return error.code
    return "taken"


def without(name: str, row: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key != name}


def private(key: rsa.RSAPrivateKey) -> dict[str, Any]:
    return {**jwt.algorithms.RSAAlgorithm.to_jwk(key, as_dict=True), "kid": "private"}


BAD: dict[str, Any] = {
    "no object": "text",
    "for encryption": jwk(KEY, "x", use="enc"),
    "of an encryption's algorithm": jwk(KEY, "x", alg="RSA-OAEP"),
    "not for checking": jwk(KEY, "x", key_ops=["encrypt"]),
    "symmetric": {"kty": "oct", "k": "c2VjcmV0", "kid": "x", "alg": "HS256"},
    "HS256": jwk(KEY, "x", alg="HS256"),
    "algorithm of another type": jwk(KEY, "x", alg="ES256"),
    "private": private(KEY),
    "name is no text": {**GOOD, "kid": 7},
    "name is too long": jwk(KEY, "x" * 257),
    "1024 bits": jwk(rsa_key("small", 1024), "x"),
    "longer than is looked at": jwk(KEY, "x", n="_" * 100_000),
    "long exponent": jwk(KEY, "x", e="_" * 40),
    "no modulus": without("n", GOOD),
    "modulus is no base64": jwk(KEY, "x", n="é"),
    "point is not on the curve": jwk(ec_key("1"), "x", y=jwk(ec_key("2"), "x")["x"]),
    "unknown curve": jwk(ec_key("1"), "x", crv="secp256k1"),
    "for agreeing on keys": {**jwk(ed_key("1"), "x"), "crv": "X25519"},
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
    provider, issuers, clock = issuer()
    old, new = sign(KEY, provider.claims()), sign(NEW, provider.claims(), kid="2")
    assert "taken" == await code(issuers, old)
    provider.publish(jwk(NEW, "2"))
    clock.now += AGAIN_S

    assert "taken" == await code(issuers, new)
    assert "unauthenticated" == await code(issuers, old)
    assert 2 == provider.fetches()


async def test_known_token_ends_with_its_key_after_the_next_refresh():
    provider, issuers, clock = issuer()
    old = sign(KEY, provider.claims())
    await issuers.verify(old)
    provider.publish(jwk(NEW, "2"))
    clock.now += REFRESH_S - 1
    assert "taken" == await code(issuers, old)
    assert 1 == provider.fetches()
    clock.now += 1
    # Nobody waits: this request starts the refresh, and is answered by what is known.
    assert "taken" == await code(issuers, old)
    await settle()

    assert "unauthenticated" == await code(issuers, old)


async def test_key_that_was_taken_back_while_nobody_asked_is_not_used_again():
    provider, issuers, clock = issuer()
    old = sign(KEY, provider.claims())
    await issuers.verify(old)
    provider.publish(jwk(NEW, "2"))
    clock.now += IDLE_S

    assert ["unauthenticated"] * 5 == await asyncio.gather(*(code(issuers, old) for _ in range(5)))
    assert 2 == provider.fetches()


async def test_name_of_a_key_that_is_used_for_another_ends_what_the_old_has_signed():
    provider, issuers, clock = issuer()
    old = sign(KEY, provider.claims())
    await issuers.verify(old)
    provider.publish(jwk(NEW, "1"))
    clock.now += IDLE_S

    assert "unauthenticated" == await code(issuers, old)
    assert "taken" == await code(issuers, sign(NEW, provider.claims()))


async def test_two_keys_of_one_name_are_both_tried():
    provider, issuers, _ = issuer()
    provider.publish(jwk(NEW, "1"), jwk(KEY, "1"))

    assert "taken" == await code(issuers, sign(KEY, provider.claims()))
    assert "taken" == await code(issuers, sign(NEW, provider.claims()))


async def test_unnamed_new_key_is_found_too():
    provider, issuers, clock = issuer()
    provider.publish(jwk(KEY, None))
    assert "taken" == await code(issuers, sign(KEY, provider.claims(), kid=None))
    provider.publish(jwk(NEW, None))
    clock.now += AGAIN_S

    assert "taken" == await code(issuers, sign(NEW, provider.claims(), kid=None))


async def test_flood_of_unknown_keys_costs_one_fetch_a_minute():
    provider, issuers, clock = issuer()
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


async def test_forged_signature_of_a_known_key_costs_no_fetch():
    provider, issuers, clock = issuer()
    await issuers.verify(sign(KEY, provider.claims()))
    clock.now += AGAIN_S
    forged = sign(NEW, provider.claims(), kid="1")

    assert "unauthenticated" == await code(issuers, forged)
    assert 1 == provider.fetches()


async def test_refresh_makes_nobody_wait():
    provider, issuers, clock = issuer()
    token, other = sign(KEY, provider.claims()), sign(KEY, provider.claims(sub="b"))
    known = await issuers.verify(token)
    provider.hold = asyncio.Event()
    clock.now += REFRESH_S

    for _ in range(10):
        assert "taken" == await code(issuers, token)
    assert "taken" == await code(issuers, other)
    await until(lambda: 2 == provider.fetches())
    provider.hold.set()
    await settle()
    # The keys are the same, and so is what is known of those that they have signed.
    assert await issuers.verify(token) is known
    assert 2 == provider.fetches()


async def test_keys_are_found_where_the_issuer_says():
    provider, issuers, clock = issuer(jwks_url=None)
    assert "taken" == await code(issuers, sign(KEY, provider.claims()))
    clock.now += IDLE_S
    assert "taken" == await code(issuers, sign(KEY, provider.claims()))

    assert [DISCOVERY, JWKS, JWKS] == provider.asked


OTHER, UNUSABLE = "is for another issuer", "has no valid jwks_uri"
DISCOVERIES: list[tuple[dict[str, Any], str]] = [
    ({}, OTHER),
    ({"issuer": "https://evil.example", "jwks_uri": "https://idp.example/keys"}, OTHER),
    ({"issuer": "https://idp.example"}, UNUSABLE),
    ({"jwks_uri": "http://192.0.2.1/keys"}, UNUSABLE),
    ({"jwks_uri": "https://user:pass@a.example/keys"}, UNUSABLE),
    ({"jwks_uri": "https://a.example/" + "x" * 2000}, UNUSABLE),
    # Else the provider says which of this machine's own services are asked.
    ({"jwks_uri": "http://127.0.0.1:6379/"}, "is on this machine"),
]


@pytest.mark.parametrize(("said", "told"), DISCOVERIES, ids=[str(d)[:60] for d, _ in DISCOVERIES])
async def test_what_an_issuer_says_of_itself_is_checked(said, told):
    provider, issuers, _ = issuer(jwks_url=None)
    provider.discovery = {**({} if told == OTHER else {"issuer": provider.url}), **said}
    with structlog.testing.capture_logs() as lines:
        assert "overloaded" == await code(issuers, sign(KEY, provider.claims()))

    assert told in lines[0]["reason"]
    assert [DISCOVERY] == provider.asked


async def test_keys_may_be_on_another_host():
    """As Google's are, for Firebase."""
    provider, host = in_memory(), in_memory(name="keys")
    name = f"{provider.url}/"
    provider.discovery = {"issuer": name, "jwks_uri": host.url + JWKS}
    issuers = make_issuers([provider.config(issuer=name, jwks_url=None)], provider, host)

    assert "taken" == await code(issuers, sign(KEY, provider.claims(iss=name)))
    assert ([DISCOVERY], [JWKS]) == (provider.asked, host.asked)


async def test_cancelled_request_does_not_end_the_fetch_of_others():
    provider, issuers, _ = issuer()
    provider.hold = asyncio.Event()
    token = sign(KEY, provider.claims())
    first, second = (asyncio.create_task(code(issuers, token)) for _ in range(2))
    await until(provider.fetches)
    first.cancel()
    await asyncio.wait([first])
    provider.hold.set()

    assert "taken" == await second
    assert 1 == provider.fetches()


async def test_closing_ends_a_fetch():
    provider, issuers, _ = issuer()
    provider.hold = asyncio.Event()
    task = asyncio.create_task(code(issuers, sign(KEY, provider.claims())))
    await until(provider.fetches)
    await asyncio.wait_for(issuers.aclose(), FETCH_S - 1)

    assert "overloaded" == await task


async def test_token_of_a_known_key_costs_no_wait_while_the_wall_clock_jumps():
    wall, provider = StoppedClock(time.time()), in_memory()
    issuers = make_issuers([provider.config()], provider, clock=wall)
    token = sign(KEY, provider.claims(iat=None))
    await issuers.verify(token)
    wall.now -= 86_400

    assert "taken" == await code(issuers, token)
    assert 1 == provider.fetches()
