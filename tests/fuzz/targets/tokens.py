"""Credentials: no text but the issued one is taken, and any signed claims are judged."""

import json
from random import Random
from typing import Any

from app.errors import RequestError
from app.identity.principal import Principal
from app.identity.token_crypto import TokenCrypto
from app.identity.tokens import ISSUER, PREFIX, Tokens
from tests.fuzz.coroutines import run_now
from tests.fuzz.mutations import mutate
from tests.fuzz.target import Target, check_refusal, split

NOW = 1_800_000_000.0
SIGNING_KEY = "a signing key of more than 32 characters"
KEY = Principal(
    "acme", key="web", models=("gpt-*",), roles=frozenset({"client_secrets"}), key_id="k1"
)
USER = Principal("acme", "ann", "web", models=KEY.models, key_id="k1")


def find_key(name: str, *, issued_at: float | None = None) -> Principal | None:
    return KEY if name == "web" else None


def clock() -> float:
    return NOW


TOKENS = Tokens(SIGNING_KEY, find_key=find_key, clock=clock)
CRYPTO = TokenCrypto(SIGNING_KEY, ISSUER)
SECRET = TOKENS.make_client_secret(KEY, user="ann", expires_at=NOW + 600)
LINK = TOKENS.make_stream_token(USER, "st_1", may="read", expires_at=NOW + 600)
ISSUED = {SECRET: None, LINK: "st_1"}
CLAIMS: list[dict[str, Any]] = [
    {
        **{"exp": NOW + 600, "iat": NOW, "key": "web", "tenant": "acme", "user": "ann"},
        **{"models": ["gpt-4*"], "origins": ["https://a.example"], "key_id": "k1", "secret": ""},
        "limits": {"requests_per_minute": 5},
    },
    {"exp": NOW + 600, "iat": NOW, "stream": "st_1", "may": "read", "who": "AAAA"},
]


def check(data: bytes) -> None:
    choice, body = split(data)
    text = body.decode("latin-1")
    for credential in (text, PREFIX + text):
        found = verify(credential)
        assert found is None or credential in ISSUED, "nobody else makes credentials"
        assert found is None or ISSUED[credential] == found.stream
    check_claims(body, "stream" if choice & 1 else "client_secret")


def check_claims(body: bytes, audience: str) -> None:
    """Assert that any claims that are signed, as by a later version, grant something or are refused."""
    try:
        claims = json.loads(body)
        # Of what the relay never signs: half of a surrogate pair, a time without end.
        json.dumps(claims, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):
        return
    if not isinstance(claims, dict):
        return
    try:
        if audience == "stream" and isinstance(claims.get("who"), list):
            claims["who"] = CRYPTO.encrypt(
                json.dumps(claims["who"]).encode(), str(claims["stream"])
            )
        token = CRYPTO.sign(claims, audience)
    except (KeyError, TypeError, ValueError, RecursionError):  # these cannot be signed
        return
    found = verify(token if audience == "stream" else PREFIX + token)
    if found is not None:
        assert found.key in ("", "web")
        assert found.stream is not None or audience != "stream"
        assert found.models is None or audience != "stream" or found.models == ()
        assert "client_secrets" not in found.roles
        assert "admin" not in found.roles
        assert found.expires_at is None or found.expires_at > NOW


def verify(credential: str) -> Principal | None:
    try:
        return run_now(TOKENS.verify(credential))
    except RequestError as error:
        check_refusal(error.message, code=(error.code, "unauthenticated"), secret=credential)
        return None


def change(data: bytes, dice: Random) -> bytes:
    owner = ["acme", "ann", "web", None, "k1"]
    claims = [CLAIMS[0], {**CLAIMS[1], "who": owner}]
    return bytes((dice.randrange(256),)) + mutate(claims, dice)


TARGET = Target(
    check,
    seeds=(
        b"\x00" + SECRET.encode(),
        b"\x00" + LINK.encode(),
        b"\x00" + SECRET.encode() + b"=",
        *(bytes([at]) + json.dumps(claims).encode() for at, claims in enumerate(CLAIMS)),
        b"\x00" + json.dumps({**CLAIMS[0], "exp": NOW - 1}).encode(),
        b"\x01" + json.dumps({**CLAIMS[1], "who": ["acme", "ann", "web", None, "k1"]}).encode(),
    ),
    tokens=(
        *(PREFIX.encode(), b".", b"=", b"-", b"_", b"eyJhbGciOiJub25lIn0", b"e30", b'"exp": '),
        *(b"1e999", b"NaN", b"null", b'"may": "stop"', b'"key": ""', b'"models": null', b"\\ud800"),
    ),
    mutate=change,
)
