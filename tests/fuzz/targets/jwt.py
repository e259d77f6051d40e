"""JWTs of identity providers, and their key sets: only what is signed for the relay is taken."""

import json
from random import Random
from types import SimpleNamespace
from typing import Any

from app.errors import RequestError
from app.identity.config import IssuerConfig
from app.identity.issuers import Issuers
from app.identity.jwks import MAX_KEYS, JwksUnusable, KeySet, parse_jwks
from app.identity.principal import Principal, is_visible
from tests.fuzz.coroutines import run_now
from tests.fuzz.mutations import mutate
from tests.fuzz.target import Target, check_refusal, split
from tests.identity.provider import ec_key, ed_key, jwk, rsa_key, sign

NOW = 1_800_000_000.0
URL = "https://idp.example"
CONFIG = IssuerConfig(
    issuer=URL,
    audience="relay",
    algorithms=("EdDSA", "RS256"),
    tenant_claim="org",
    models_claim="scope",
    limits_claim="limits",
)
OTHER = IssuerConfig(issuer="https://other.example", audience="relay", tenant="theirs")
CLAIMS: dict[str, Any] = {
    **{"iss": URL, "aud": "relay", "sub": "ada", "iat": NOW, "exp": NOW + 600, "org": "acme"},
    **{"scope": "gpt-* fast", "limits": {"requests_per_minute": 5}, "nbf": NOW},
}
ROWS = [
    jwk(ed_key("1"), "1"),
    {**jwk(rsa_key("1"), "2"), "alg": "RS256", "key_ops": ["verify"]},
    jwk(ec_key("1"), None),
]
PUBLISHED = [*ROWS, {**ROWS[0], "d": "AQ"}]
"""With a private key, by mistake."""

KEYS = parse_jwks(json.dumps({"keys": ROWS[:2]}).encode()).keys


class StaticKeys:
    """The keys of an issuer, which are there."""

    async def get(self) -> Any:
        return KEYS

    async def get_other(self, keys: Any) -> Any:
        return KEYS


def clock() -> float:
    return NOW


ISSUERS = Issuers([CONFIG, OTHER], clock=clock, fetcher=SimpleNamespace())  # type: ignore[arg-type]
ISSUERS._issuers = {
    name: issuer._replace(keys=StaticKeys())  # type: ignore[arg-type]
    for name, issuer in ISSUERS._issuers.items()
}
ISSUED = sign(ed_key("1"), CLAIMS, alg="EdDSA")


def check(data: bytes) -> None:
    _, body = split(data)
    text = body.decode("latin-1")
    found = verify(text)
    assert found is None or text == ISSUED, "another text is another token"
    check_keys(body)
    check_claims(body)


def verify(token: str) -> Principal | None:
    try:
        return run_now(ISSUERS.verify(token))
    except RequestError as error:
        check_refusal(error.message, code=(error.code, "unauthenticated"), most=1000)
        return None


def check_claims(body: bytes) -> None:
    """Assert that any claims that the provider has signed are within the settings, or refused."""
    try:
        claims = json.loads(body)
        token = sign(ed_key("1"), claims, alg="EdDSA")
    except (ValueError, TypeError, AttributeError, RecursionError, KeyError):
        return
    found = verify(token)
    if found is None:
        return
    assert claims["iss"] == URL
    assert "relay" == claims["aud"] or "relay" in claims["aud"]
    assert found.tenant != OTHER.tenant, "a tenant that is another issuer's"
    assert is_visible(found.user)
    assert is_visible(found.tenant)
    assert found.expires_at is not None
    assert found.expires_at > NOW
    assert not found.roles
    assert "scope" in claims or found.models is None or found.models == ()
    assert found == verify(token), "from the cache"


def check_keys(body: bytes) -> None:
    try:
        found: KeySet = parse_jwks(body)
    except JwksUnusable as error:
        check_refusal(str(error), most=200)
        return
    rows = json.loads(body)["keys"]
    assert 0 < len(found.keys) <= MAX_KEYS
    assert len(rows) == len(found.keys) + found.skipped
    private = sum(isinstance(row, dict) and ("d" in row or "k" in row) for row in rows)
    assert found.skipped >= private, "a published private key is used by nobody"
    for key in found.keys:
        assert key.algorithms
        assert "none" not in key.algorithms
        assert not any(name.startswith("HS") for name in key.algorithms)


def change(data: bytes, dice: Random) -> bytes:
    return b"\x00" + mutate([CLAIMS, {**CLAIMS, "org": "theirs"}, {"keys": PUBLISHED}], dice)


TARGET = Target(
    check,
    seeds=(
        b"\x00" + ISSUED.encode(),
        b"\x00" + json.dumps(CLAIMS).encode(),
        b"\x00" + json.dumps({"keys": PUBLISHED}).encode(),
    ),
    tokens=(
        *(b".", b"=", b"-", b"_", b"eyJhbGciOiJub25lIn0", b'"alg":"none"', b'"d": "AQ"', b'"kid"'),
        *(b'"kty": "oct"', b'"k": "AA"', b"1e999", b"null", b"[]", b"{}", b'"theirs"', b"\\u0000"),
    ),
    mutate=change,
    costly=True,
)
