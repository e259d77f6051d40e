"""JWTs of identity providers: which are taken, and what they say."""

import asyncio
import base64
import contextlib
import hashlib
import hmac
import json
import random
import time
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from app.errors import RequestError
from app.identity import issuers as issuers_module
from app.identity.issuers import MAX_TOKEN, Issuers
from app.identity.principal import Principal
from app.ledger.config import UNLIMITED, UsageLimits
from tests.clock import StoppedClock
from tests.identity.provider import (
    AUDIENCE,
    JSON,
    Provider,
    ec_key,
    ed_key,
    in_memory,
    jwk,
    make_issuers,
    rsa_key,
    sign,
)

pytestmark = pytest.mark.pure

KEY = rsa_key("1")


def issuer(*keys: Any, **config: Any) -> tuple[Provider, Issuers]:
    provider = in_memory(*keys)
    return provider, make_issuers([provider.config(**config)], provider)


async def who(issuers: Issuers, token: str) -> Principal:
    """Return who shows a token, which is taken."""
    principal = await issuers.verify(token)
    assert principal is not None
    return principal


async def reason(issuers: Issuers, token: str) -> str:
    """Return why a token is refused."""
    with pytest.raises(RequestError) as caught:
        await issuers.verify(token)
    assert "unauthenticated" == caught.value.code
    assert len(caught.value.message) < 600
    return caught.value.message


def encode(part: Any) -> str:
    raw = part if isinstance(part, bytes) else json.dumps(part).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def signed_by_hand(header: Any, claims: Any, alg: str = "RS256") -> str:
    """Sign what PyJWT would not."""
    text = f"{encode(header)}.{encode(claims)}"
    algorithm: Any = jwt.get_algorithm_by_name(alg)
    return f"{text}.{encode(algorithm.sign(text.encode(), KEY))}"


async def test_token_says_who_asks():
    provider, issuers = issuer(origins=("https://app.example",), models=("fast",))
    claims = provider.claims(exp=int(time.time()) + 60)
    principal = await issuers.verify(sign(KEY, claims))

    assert principal == Principal(
        tenant=provider.url,
        user="ada",
        models=("fast",),
        origins=("https://app.example",),
        # Others compare it with the relay's clock, from which the issuer's may be so far.
        expires_at=claims["exp"] + 30,
    )


KINDS = [
    *((rsa_key("1"), alg) for alg in ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")),
    (ec_key("1"), "ES256"),
    (ec_key("1", "P-384"), "ES384"),
    (ec_key("1", "P-521"), "ES512"),
    (ed_key("1"), "EdDSA"),
]


@pytest.mark.parametrize(("key", "alg"), KINDS, ids=[alg for _, alg in KINDS])
async def test_each_algorithm_is_taken_where_it_is_allowed_and_else_is_not(key, alg):
    provider, issuers = issuer(jwk(key, "1"), algorithms=(alg,))
    token = sign(key, provider.claims(), alg=alg)
    other = make_issuers([provider.config(algorithms=("RS256" if alg != "RS256" else "ES256",))])

    assert "ada" == (await who(issuers, token)).user
    assert f"signed with '{alg}'" in await reason(other, token)


@pytest.mark.parametrize(
    "text",
    [
        *("", "x", "ssk_" + "a" * 43, "a.b", "a.b.c", "a.b.c.d", "..", "sk-ant-api03-a.b.c"),
        *("é.é.é", "ek_" + encode({"alg": "HS256"}) + "." + encode({}) + ".aa", "[1].{}.x"),
        *("eyJ.", "." * 50, encode([1]) + ".e30.aa", encode({"typ": "JWT"}) + ".e30.aa"),
        *(encode({"alg": 1}) + ".e30.aa", encode(b"\xff") + ".e30.aa", "a" * 20_000 + ".b.c"),
        encode(b"[" * 3000) + ".e30.aa",
    ],
)
async def test_what_is_no_jwt_is_somebody_elses(text):
    provider, issuers = issuer()
    assert await issuers.verify(text) is None
    assert [] == provider.asked


CLAIMS = [
    ({"aud": "https://other.example"}, "is for 'https://other.example' ('aud') and not for"),
    ({"aud": AUDIENCE + "/"}, "and not for this relay"),
    ({"aud": None}, "no claim 'aud'"),
    ({"aud": [AUDIENCE, 1]}, "must be a string or a list"),
    ({"iss": None}, "issuer None"),
    ({"iss": "https://evil.example"}, "issuer 'https://evil.example' ('iss') is not configured"),
    ({"exp": 1_600_000_000}, "expired at 2020-09-13T12:26:40Z; get a new one"),
    ({"exp": None}, "no claim 'exp'"),
    ({"exp": "9999999999"}, "'exp' is not a time in seconds"),
    ({"exp": 2_000_000_000_000}, "'exp' is not a time in seconds"),
    ({"nbf": 4_000_000_000}, "not valid before 2096-10-02T07:06:40Z ('nbf')"),
    ({"iat": 4_000_000_000}, "not valid before 2096-10-02T07:06:40Z ('iat')"),
    ({"sub": None}, "no claim 'sub', which names the user"),
    ({"sub": "a\x00"}, "'sub' must be"),
    ({"sub": "a" * 257}, "'sub' must be"),
    ({"sub": 1.5}, "'sub' must be"),
    ({"sub": int("9" * 4000)}, "'sub' must be"),
]


@pytest.mark.parametrize(("changes", "told"), CLAIMS, ids=[str(c)[:50] for c, _ in CLAIMS])
async def test_claims_that_do_not_hold_are_refused_with_the_reason(changes, told):
    provider, issuers = issuer()
    claims = provider.claims(**changes)
    if isinstance(claims.get("iss", ""), str) and isinstance(claims.get("sub", ""), str):
        token = sign(KEY, claims)
    else:
        token = signed_by_hand({"alg": "RS256", "kid": "1"}, claims)

    assert told in await reason(issuers, token)


HEADERS = [
    ({"crit": ["exp"], "exp": 1}, "'crit'"),
    ({"b64": False}, "'b64'"),
    ({"zip": "DEF"}, "'zip'"),
    ({"jwk": jwk(rsa_key("evil"), "1")}, "'jwk'"),
    ({"jku": "http://127.0.0.1:1/"}, "'jku'"),
    ({"typ": "logout+jwt"}, "its type 'logout+jwt'"),
    ({"typ": 1}, "its type 1"),
    ({"kid": 1}, "'kid' must be a string"),
    ({"alg": "none"}, "signed with 'none'; accepted of its issuer: RS256, ES256"),
    ({"alg": "HS256"}, "signed with 'HS256'"),
    ({"alg": "ES256K"}, "signed with 'ES256K'"),
]


@pytest.mark.parametrize(
    ("changes", "told"),
    HEADERS,
    ids=lambda value: str(list(value)) if isinstance(value, dict) else "",
)
async def test_headers_that_would_change_the_rules_are_refused_unasked(changes, told):
    provider, issuers = issuer()
    header = {"alg": "RS256", "kid": "1", **changes}

    assert told in await reason(issuers, signed_by_hand(header, provider.claims()))
    assert [] == provider.asked


@pytest.mark.parametrize("kind", ["JWT", "at+jwt", "AT+JWT", "application/okta-internal-at+jwt"])
async def test_kinds_of_access_tokens_are_taken(kind):
    provider, issuers = issuer()
    assert await issuers.verify(sign(KEY, provider.claims(), typ=kind, x5t="a")) is not None


@pytest.mark.parametrize("signature", ["", "AA", encode(b"\0" * 256)])
@pytest.mark.parametrize("alg", ["none", "RS256", "ES256", "PS256", "EdDSA"])
async def test_unsigned_tokens_are_refused(alg, signature):
    provider, issuers = issuer(jwk(KEY, "1"), jwk(ec_key("1"), "2"), jwk(ed_key("1"), "3"))
    for kid in ({}, {"kid": "1"}, {"kid": "2"}, {"kid": "3"}):
        token = f"{encode({'alg': alg, **kid})}.{encode(provider.claims())}.{signature}"
        assert "refused" != await reason(issuers, token)


@pytest.mark.parametrize("alg", ["HS256", "HS384", "HS512"])
@pytest.mark.parametrize("named", ["HS256", "RS256"])
async def test_public_key_is_no_secret(alg, named):
    pem = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    der = KEY.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    row = jwk(KEY, "1")
    provider, issuers = issuer(algorithms=("RS256", "ES256", "HS256"))
    for secret in (pem, pem.strip(), der, json.dumps(row).encode(), row["n"].encode(), b""):
        text = f"{encode({'alg': named, 'kid': '1'})}.{encode(provider.claims())}"
        mac = hmac.new(secret, text.encode(), getattr(hashlib, f"sha{alg[2:]}")).digest()

        told = f"signed with {named!r}" if named == "HS256" else "signature is not valid"
        assert told in await reason(issuers, f"{text}.{encode(mac)}")


async def test_key_of_another_type_curve_or_algorithm_is_not_tried():
    published = (
        *(jwk(KEY, "rsa"), jwk(ec_key("1"), "p256"), jwk(ec_key("1", "P-384"), "p384")),
        *(jwk(KEY, "only-ps", alg="PS256"), jwk(KEY, "only-rs512", alg="RS512")),
    )
    provider, issuers = issuer(*published, algorithms=("RS256", "PS256", "ES256", "ES384"))
    claims = provider.claims()
    for key, alg, kid in [
        *((KEY, "RS256", "p256"), (KEY, "RS256", "only-ps"), (KEY, "RS256", "only-rs512")),
        *((ec_key("1"), "ES256", "rsa"), (ec_key("1"), "ES256", "p384")),
        (ec_key("1", "P-384"), "ES384", "p256"),
    ]:
        assert "has no key for its signature" in await reason(
            issuers, sign(key, claims, alg=alg, kid=kid)
        )
    # A signature of the right type, by the key of a curve that is not the algorithm's.
    text = f"{encode({'alg': 'ES256', 'kid': 'p384'})}.{encode(claims)}"
    algorithm: Any = jwt.algorithms.ECAlgorithm(jwt.algorithms.ECAlgorithm.SHA256)
    forged = f"{text}.{encode(algorithm.sign(text.encode(), ec_key('1', 'P-384')))}"
    assert "has no key" in await reason(issuers, forged)

    assert await issuers.verify(sign(KEY, claims, alg="PS256", kid="only-ps")) is not None


async def test_issuers_do_not_vouch_for_each_other():
    a = in_memory(jwk(rsa_key("a"), "1"), name="a")
    b = in_memory(jwk(rsa_key("b"), "1"), jwk(rsa_key("b2"), "2"), name="b")
    issuers = make_issuers([a.config(), b.config(audience="b")], a, b)

    assert await issuers.verify(sign(rsa_key("a"), a.claims())) is not None
    assert "signature is not valid" in await reason(issuers, sign(rsa_key("b"), a.claims()))
    # Its name of the key is one that only the other has.
    assert "has no key" in await reason(issuers, sign(rsa_key("b2"), a.claims(), kid="2"))
    assert "not for this relay" in await reason(issuers, sign(rsa_key("b"), b.claims()))
    # Nearly the same name is another issuer.
    for named in (a.url + "/", a.url.upper(), a.url + "\0", f" {a.url}"):
        assert "is not configured" in await reason(issuers, sign(rsa_key("a"), a.claims(iss=named)))


async def test_same_user_of_two_issuers_is_two_owners():
    a, b = in_memory(name="a"), in_memory(name="b")
    issuers = make_issuers([a.config(), b.config()], a, b)
    together = make_issuers([a.config(tenant="us"), b.config(tenant="us")], a, b)
    tokens = [sign(KEY, a.claims()), sign(KEY, b.claims())]
    first, second = [await who(issuers, token) for token in tokens]
    one, other = [await who(together, token) for token in tokens]

    assert "" not in (first.owner, second.owner)
    assert first.owner != second.owner
    assert one.owner == other.owner


async def test_claim_cannot_name_the_tenant_that_is_another_issuers():
    a, b, c = (in_memory(name=name) for name in "abc")
    issuers = make_issuers(
        [a.config(), b.config(tenant="b"), c.config(tenant_claim="org")], a, b, c
    )
    for tenant in (a.url, "b"):
        token = sign(KEY, c.claims(org=tenant))
        assert "is another issuer's" in await reason(issuers, token)

    own = await issuers.verify(sign(KEY, c.claims(org=c.url)))
    assert own is not None
    assert c.url == own.tenant


MAPPED: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ({"user_claim": "id"}, {"id": 12345678901234567890}, {"user": "12345678901234567890"}),
    ({"user_claim": ("user", "id")}, {"user": {"id": "7"}, "user.id": "8"}, {"user": "7"}),
    ({"user_claim": "user.id"}, {"user": {"id": "7"}, "user.id": "8"}, {"user": "8"}),
    ({"tenant": "acme", "tenant_claim": "org"}, {"org": "globex"}, {"tenant": "globex"}),
    ({"tenant": "acme", "tenant_claim": "org"}, {"org": None}, {"tenant": "acme"}),
    ({"tenant_claim": "custom:org"}, {"custom:org": 7}, {"tenant": "7"}),
    ({"models_claim": "m"}, {"m": ["fast", "gpt-*"]}, {"models": ("fast", "gpt-*")}),
    ({"models_claim": "m"}, {"m": "fast  gpt-*"}, {"models": ("fast", "gpt-*")}),
    ({"models_claim": "m"}, {"m": ""}, {"models": ()}),
    ({"models_claim": "m"}, {}, {"models": ()}),
    ({"models_claim": "m", "models": ("fast",)}, {}, {"models": ("fast",)}),
    ({}, {"models": ["all"], "roles": ["admin"], "tenant": "x", "may": "all"}, {"models": None}),
    ({}, {"limits": {"streams": 9}}, {"user_limits": UNLIMITED}),
    ({"limits": UsageLimits(streams=2)}, {}, {"user_limits": UsageLimits(streams=2)}),
    (
        {"limits": UsageLimits(streams=2, usd_per_day=3), "limits_claim": ("app", "limits")},
        {"app": {"limits": {"streams": 9, "usd_per_day": 1.5, "usd_per_month": 4}}},
        {"user_limits": UsageLimits(streams=2, usd_per_day=1.5, usd_per_month=4)},
    ),
    ({"audience_claim": "client_id"}, {"aud": None, "client_id": AUDIENCE}, {"user": "ada"}),
]


@pytest.mark.parametrize(("config", "claims", "expected"), MAPPED)
async def test_claims_are_mapped_as_the_settings_say(config, claims, expected):
    provider, issuers = issuer(**config)
    principal = await issuers.verify(sign(KEY, provider.claims(**claims)))

    assert principal is not None
    assert expected == {name: getattr(principal, name) for name in expected}
    assert frozenset() == principal.roles


UNMAPPED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"user_claim": "user.id"}, {"user": {"id": "7"}}, "no claim 'user.id'"),
    ({"user_claim": ("user", "id")}, {"user": "7"}, "no claim 'user.id'"),
    ({"tenant_claim": "org"}, {"org": ""}, "'org' must be"),
    ({"models_claim": "m"}, {"m": {"a": 1}}, "'m' must be a list"),
    ({"models_claim": "m"}, {"m": ["a"] * 101}, "'m' must be a list"),
    (
        {"limits_claim": "m"},
        {"m": 5},
        "claim 'm' has limits that cannot be used: Expected `object`",
    ),
    ({"limits_claim": "m"}, {"m": {"streams": -1}}, "claim 'm' has limits that cannot be used"),
    ({"audience_claim": "client_id"}, {}, "no claim 'client_id'"),
]


@pytest.mark.parametrize(("config", "claims", "told"), UNMAPPED)
async def test_claims_that_cannot_be_mapped_are_refused(config, claims, told):
    provider, issuers = issuer(**config)
    assert told in await reason(issuers, sign(KEY, provider.claims(**claims)))


async def test_leeway_is_for_clocks_that_differ():
    clock = StoppedClock(time.time())
    provider = in_memory()
    issuers = make_issuers([provider.config(leeway_s=30)], provider, clock=clock)
    token = sign(KEY, provider.claims(nbf=clock.now + 20, exp=clock.now + 100))
    assert await issuers.verify(token) is not None
    clock.now += 129
    assert await issuers.verify(token) is not None
    other = provider.claims(sub="other", exp=clock.now - 29)
    assert await issuers.verify(sign(KEY, other)) is not None
    clock.now += 2
    # It was known, and has ended.
    assert "expired" in await reason(issuers, token)
    assert "not valid before" in await reason(
        issuers, sign(KEY, provider.claims(nbf=clock.now + 40, exp=clock.now + 100))
    )


async def test_known_token_costs_no_second_check_of_its_signature():
    """A check makes a new principal."""
    provider, issuers = issuer()
    token = sign(KEY, provider.claims())
    first = await issuers.verify(token)
    for _ in range(100):
        assert await issuers.verify(token) is first

    assert token not in repr(vars(issuers))


async def test_known_tokens_are_bounded_and_the_last_used_stay(monkeypatch):
    assert issuers_module.MAX_VERDICTS <= 10_000
    monkeypatch.setattr(issuers_module, "MAX_VERDICTS", 4)
    provider, issuers = issuer()
    tokens = [sign(KEY, provider.claims(sub=str(n))) for n in range(10)]
    known = [await issuers.verify(tokens[0])]
    for token in tokens[1:]:
        assert await issuers.verify(tokens[0]) is known[0]
        known.append(await issuers.verify(token))

    stay = [0, 7, 8, 9]
    assert [True] * 4 == [await issuers.verify(tokens[n]) is known[n] for n in stay]
    assert [False] * 6 == [await issuers.verify(tokens[n]) is known[n] for n in range(1, 7)]


async def test_encrypted_and_oversized_tokens_are_told_so():
    provider, issuers = issuer()
    encrypted = ".".join([encode({"alg": "RSA-OAEP", "enc": "A256GCM"}), "a", "b", "c", "d"])
    assert "encrypted" in await reason(issuers, encrypted)
    long = sign(KEY, provider.claims(more="x" * MAX_TOKEN))
    assert f"longer than {MAX_TOKEN} characters" in await reason(issuers, long)
    assert "longer than" in await reason(issuers, sign(KEY, provider.claims(), x="x" * 4000))
    nested = signed_by_hand({"alg": "RS256", "kid": "1"}, sign(KEY, provider.claims()).encode())
    assert "not a JSON object" in await reason(issuers, nested)
    deep = signed_by_hand({"alg": "RS256", "kid": "1"}, b'{"a":' + b"[" * 6000)
    assert "not a JSON object" in await reason(issuers, deep)
    assert [] == provider.asked
    near = sign(KEY, provider.claims(more="x" * 11_000))
    assert await issuers.verify(near) is not None


ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


@pytest.mark.parametrize(("key", "alg"), [(KEY, "RS256"), (ec_key("1"), "ES256")])
async def test_no_change_of_a_token_is_taken(key, alg):
    """Every character is changed, taken out, doubled, and swapped with its neighbour."""
    choose = random.Random(16)
    provider, issuers = issuer(jwk(key, "1"))
    token = sign(key, provider.claims(), alg=alg)
    assert await issuers.verify(token) is not None
    changed = set()
    for at, one in enumerate(token):
        other = choose.choice(ALPHABET.replace(one, ""))
        changed |= {
            token[:at] + other + token[at + 1 :],
            token[:at] + token[at + 1 :],
            token[:at] + one + token[at:],
            token[:at] + token[at + 1 : at + 2] + one + token[at + 2 :],
            token[:at] + choose.choice("=.+/ \n%é") + token[at:],
        }
    # The last characters have bits that stand for nothing.
    changed |= {token[:-1] + one for one in ALPHABET}
    changed |= {token + end for end in ("=", "==", ".", " ", "\n", "A", ".A")}
    taken = []
    for text in changed - {token}:
        with contextlib.suppress(RequestError):
            if await issuers.verify(text) is not None:
                taken.append(text)

    assert [] == taken
    assert len(changed) > 4 * len(token)


SIGNED_CLAIMS = ("iss", "aud", "exp", "nbf", "iat", "sub", "org", "models")


@given(
    st.dictionaries(st.sampled_from(("alg", "kid", "typ", "crit", "cty")), JSON),
    st.dictionaries(st.sampled_from(SIGNED_CLAIMS), JSON),
)
def test_whatever_a_token_says_is_understood_or_refused(header, claims):
    """Also where it is signed: what a user may write about himself stands in it."""

    provider = in_memory()
    config = provider.config(tenant_claim=("org", "id"), models_claim="models")

    async def verify() -> None:
        issuers = make_issuers([config], provider)
        token = signed_by_hand(
            {"alg": "RS256", "kid": "1", **header}, {**provider.claims(), **claims}
        )
        with contextlib.suppress(RequestError):
            principal = await issuers.verify(token)
            assert principal is None or (principal.user and principal.tenant)

    asyncio.run(verify())


@pytest.mark.parametrize(("keys", "taken"), [(1, True), (4, True), (5, False)])
async def test_token_that_names_no_key_is_tried_with_few(keys, taken):
    rows = [jwk(ec_key(str(n)), str(n)) for n in range(1, keys + 1)]
    provider, issuers = issuer(*rows, jwk(KEY, "rsa"))
    token = sign(ec_key("1"), provider.claims(), alg="ES256", kid=None)
    if taken:
        assert await issuers.verify(token) is not None
    else:
        assert "too many keys to try" in await reason(issuers, token)


async def test_keys_that_stay_the_same_are_tried_once(monkeypatch):
    rows = [jwk(rsa_key(str(n)), str(n)) for n in range(1, 4)]
    tried: list[str | None] = []
    real = issuers_module._is_signed

    def is_signed(token: Any, keys: Any) -> bool:
        tried.extend(key.kid for key in keys)
        return real(token, keys)

    monkeypatch.setattr(issuers_module, "_is_signed", is_signed)
    provider, issuers = issuer(*rows)
    forged = sign(rsa_key("evil"), provider.claims(), kid=None)
    for _ in range(2):  # also where they were not fetched again
        assert "its signature is not valid" in await reason(issuers, forged)
        assert ["1", "2", "3"] == tried
        tried.clear()


async def test_secrets_are_in_no_message():
    provider, issuers = issuer()
    token = sign(KEY, provider.claims(email="ada@private.example", aud="x"))
    said = await reason(issuers, token)

    assert token.split(".")[2] not in said
    assert "private" not in said
