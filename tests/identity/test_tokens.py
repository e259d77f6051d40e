"""Tokens of the relay's own: what they let pass, and what they never do."""

import base64
import json
import string
from collections.abc import Callable
from typing import Any

import jwt
import msgspec
import pytest

from app.errors import RequestError
from app.identity import tokens as module
from app.identity.keys import Keys
from app.identity.principal import Principal, covers
from app.identity.tokens import MAX_LENGTH, FindKey, Tokens
from tests.clock import StoppedClock as Clock

pytestmark = pytest.mark.pure

SIGNING_KEY = "a signing key of more than 32 characters"
NOW = 1_800_000_000.0
KEY = Principal(
    "acme",
    key="web",
    models=("gpt-*", "fast"),
    origins=("https://a.example", "https://b.example"),
    roles=frozenset({"client_secrets"}),
)
USER = Principal("acme", "ann", "web", models=KEY.models, origins=KEY.origins)


@pytest.fixture
def clock() -> Clock:
    return Clock(NOW)


@pytest.fixture
def keys() -> dict[str, Principal]:
    return {"web": KEY}


def found_in(keys: dict[str, Principal]) -> FindKey:
    def find(name: str, *, issued_at: float | None = None) -> Principal | None:
        return keys.get(name)

    return find


@pytest.fixture
def tokens(clock: Clock, keys: dict[str, Principal]) -> Tokens:
    return Tokens(SIGNING_KEY, find_key=found_in(keys), clock=clock)


def secret_of(tokens: Tokens, **how: Any) -> str:
    return tokens.make_client_secret(KEY, **{"user": "ann", "expires_at": NOW + 600, **how})


def link_of(tokens: Tokens, **how: Any) -> str:
    how = {"may": "read", "expires_at": NOW + 600, **how}
    return tokens.make_stream_token(how.pop("principal", USER), "st_1", **how)


KINDS: dict[str, Callable[[Tokens], str]] = {"client secret": secret_of, "stream token": link_of}


@pytest.fixture(params=KINDS)
def made(request: pytest.FixtureRequest, tokens: Tokens) -> str:
    return KINDS[request.param](tokens)


async def refused(tokens: Tokens, credential: str) -> str:
    with pytest.raises(RequestError) as failure:
        await tokens.verify(credential)
    assert "unauthenticated" == failure.value.code
    assert credential not in failure.value.message
    return failure.value.message


def parts_of(token: str) -> tuple[dict[str, Any], dict[str, Any], str]:
    """The header, the claims and the signature of a token."""
    head, claims, signature = token.removeprefix("ek_").split(".")
    return unpacked(head), unpacked(claims), signature


def unpacked(part: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=="))
    return read


def packed(part: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()


async def test_client_secret_is_of_its_user_and_may_what_its_key_may(tokens):
    shown = await tokens.verify(secret_of(tokens))

    expected = Principal(
        "acme", "ann", "web", models=KEY.models, origins=KEY.origins, expires_at=NOW + 600
    )
    assert expected == shown


async def test_client_secret_narrows_its_key(tokens):
    how = {"models": ["gpt-4*", "fast"], "origins": ["https://b.example"]}
    shown = await tokens.verify(secret_of(tokens, **how))

    assert ("gpt-4*", "fast") == shown.models
    assert ("https://b.example",) == shown.origins
    assert frozenset() == shown.roles


async def test_stream_token_is_for_one_stream_and_has_its_owner(tokens):
    for may in ("read", "stop"):
        shown = await tokens.verify(link_of(tokens, may=may))

        assert ("st_1", may, USER.owner) == (shown.stream, shown.may, shown.owner)
        assert (frozenset(), NOW + 600) == (shown.roles, shown.expires_at)
        assert not shown.may_use("fast")


def test_stream_token_tells_nobody_whose_stream_it_is(tokens):
    token = link_of(tokens)
    _, claims, _ = parts_of(token)
    names = set(claims)
    # As base64 it may have any three letters in a row.
    who = base64.urlsafe_b64decode(claims.pop("who")).decode("latin-1")
    told = json.dumps(claims) + who

    assert {"iss", "aud", "exp", "iat", "stream", "may", "who"} == names
    for name in ("acme", "ann", "web"):
        assert name not in told
    assert token != link_of(tokens)


@pytest.mark.parametrize(
    "how",
    [
        {"models": ["gpt-4", "other"]},
        {"models": ["*"]},
        {"models": ["gpt-4"] * 3 + ["fas?"]},
        {"origins": ["https://c.example"]},
        {"origins": ["https://a.example.evil.example"]},
        {"tenant": "other"},
    ],
)
def test_client_secret_never_widens_its_key(tokens, how):
    with pytest.raises(RequestError) as failure:
        secret_of(tokens, **how)

    assert "forbidden" == failure.value.code
    assert next(iter(how)) in failure.value.message


def test_key_of_a_user_makes_secrets_of_nobody_else(clock):
    tokens = Tokens(SIGNING_KEY, clock=clock)
    with pytest.raises(RequestError, match="user: the key belongs to 'bob'"):
        tokens.make_client_secret(Principal("t", "bob", "k"), user="ann", expires_at=NOW + 1)


def test_stream_token_makes_no_client_secret(tokens):
    holder = Principal("acme", "ann", "web", stream="st_1", may="read")
    with pytest.raises(RequestError, match="cannot create client secrets"):
        tokens.make_client_secret(holder, user="ann", expires_at=NOW + 1)


async def test_secret_of_a_key_that_may_use_nothing_may_use_nothing(clock):
    for find_key in (None, found_in({"k": Principal("t", key="k", models=())})):
        tokens = Tokens(SIGNING_KEY, find_key=find_key, clock=clock)
        key = Principal("t", key="k", models=())
        shown = await tokens.verify(tokens.make_client_secret(key, user="a", expires_at=NOW + 1))
        assert shown is not None
        assert not shown.may_use("fast")


async def test_secret_stands_by_itself_where_keys_are_not_looked_up(clock):
    tokens = Tokens(SIGNING_KEY, clock=clock)
    shown = await tokens.verify(secret_of(tokens))
    assert shown is not None

    assert (KEY.models, KEY.origins) == (shown.models, shown.origins)


# Ends


async def test_expired_is_told_so_also_when_it_was_verified_before(tokens, clock, made):
    assert await tokens.verify(made)
    clock.now += 599.9
    assert await tokens.verify(made)
    clock.now += 0.1

    assert "has expired; ask" in await refused(tokens, made)


async def test_ends_with_its_key(tokens, keys, made):
    assert await tokens.verify(made)
    del keys["web"]

    assert "has expired or was revoked" in await refused(tokens, made)


async def test_key_of_another_tenant_under_the_same_name_is_another(tokens, keys, made):
    assert await tokens.verify(made)
    keys["web"] = Principal("others", key="web")

    assert "has expired or was revoked" in await refused(tokens, made)


@pytest.mark.parametrize("kind", KINDS)
async def test_request_by_an_old_key_makes_nothing_that_stands_on_the_new_one(tokens, keys, kind):
    """Its body may come long after its head, by which it was known who asks."""
    keys["web"] = msgspec.structs.replace(KEY, key_id="new")

    assert "has expired or was revoked" in await refused(tokens, KINDS[kind](tokens))


async def test_what_is_made_by_what_a_key_has_made_stands_on_that_key(tokens, keys):
    old, new = (msgspec.structs.replace(KEY, key_id=name) for name in ("old", "new"))
    keys["web"] = old
    holder = await tokens.verify(tokens.make_client_secret(old, user="ann", expires_at=NOW + 9))
    link = link_of(tokens, principal=holder)

    assert ("old", "old") == (holder.key_id, (await tokens.verify(link)).key_id)
    keys["web"] = new
    assert "has expired or was revoked" in await refused(tokens, link)


async def test_key_that_is_newer_than_the_token_is_another(keys, clock):
    made_at = NOW

    def find(name: str, *, issued_at: float | None = None) -> Principal | None:
        return keys.get(name) if issued_at is None or issued_at >= made_at else None

    tokens = Tokens(SIGNING_KEY, find_key=find, clock=clock)
    for made in (secret_of(tokens), link_of(tokens)):
        made_at = NOW
        assert await tokens.verify(made)
        made_at = NOW + 0.001
        assert "has expired or was revoked" in await refused(tokens, made)


async def test_ends_when_its_key_does(tokens, keys, clock, made):
    keys["web"] = Principal("acme", key="web", expires_at=NOW + 10)
    shown = await tokens.verify(made)
    assert NOW + 10 == shown.expires_at
    clock.now += 10

    assert "has expired or was revoked" in await refused(tokens, made)


def test_nothing_is_made_that_outlives_its_key(clock):
    key = Principal("acme", key="web", expires_at=NOW + 10)
    for find_key in (None, found_in({"web": key})):
        tokens = Tokens(SIGNING_KEY, find_key=find_key, clock=clock)
        secret = tokens.make_client_secret(key, user="ann", expires_at=NOW + 600)
        assert NOW + 10 == parts_of(secret)[1]["exp"]
    assert NOW + 10 == parts_of(link_of(tokens))[1]["exp"]


async def test_stream_token_outlives_the_secret_that_started_the_stream(tokens, clock):
    holder = await tokens.verify(secret_of(tokens))
    link = link_of(tokens, principal=holder, expires_at=NOW + 3000)
    clock.now += 2000
    shown = await tokens.verify(link)

    assert shown.owner == holder.owner


async def test_narrowing_a_key_narrows_what_stands_on_it(tokens, keys):
    whole = secret_of(tokens)
    part = secret_of(tokens, models=["gpt-4*", "fast"], origins=["https://b.example"])
    for one in (whole, part):
        assert (await tokens.verify(one)).may_use("gpt-4-x")
    keys["web"] = Principal("acme", key="web", models=("fast",))
    for one in (whole, part):
        shown = await tokens.verify(one)
        assert shown.may_use("fast")
        assert not shown.may_use("gpt-4-x")
    assert ("https://b.example",) == (await tokens.verify(part)).origins
    keys["web"] = Principal("acme", key="web", origins=("https://a.example",))

    assert ("https://a.example",) == (await tokens.verify(whole)).origins
    assert "origins" in await refused(tokens, part)  # for no origins would mean any


async def test_stream_token_keeps_the_origins_of_who_started_the_stream(tokens):
    holder = await tokens.verify(secret_of(tokens, origins=["https://b.example"]))
    shown = await tokens.verify(link_of(tokens, principal=holder))

    assert ("https://b.example",) == shown.origins


async def test_token_of_a_user_without_a_key_stands_until_it_ends(tokens, clock):
    user = Principal("acme", "ann", models=("fast",), expires_at=NOW + 5)
    link = link_of(tokens, principal=user)
    clock.now += 599
    shown = await tokens.verify(link)

    assert (user.owner, "st_1") == (shown.owner, shown.stream)


# Forgeries


async def test_changed_at_any_place_it_opens_nothing(tokens, made):
    alphabet = "ABCDwxyz0189-_.=+/ é"
    for place in range(len(made)):
        for other in (alphabet[place % 10], alphabet[10 + place % 10]):
            if other != made[place]:
                await opens_nothing(tokens, made[:place] + other + made[place + 1 :])
        await opens_nothing(tokens, made[:place])
        await opens_nothing(tokens, made[place + 1 :])
    # The last character has bits that stand for nothing.
    letters = string.ascii_letters + string.digits + "-_"
    for other in letters.replace(made[-1], ""):
        await opens_nothing(tokens, made[:-1] + other)
    for more in ("=", "==", "A", ".", ".A", "\n", " ", "\0"):
        await opens_nothing(tokens, made + more)
        await opens_nothing(tokens, more + made)

    assert await tokens.verify(made)


async def opens_nothing(tokens: Tokens, credential: str) -> None:
    try:
        assert await tokens.verify(credential) is None
    except RequestError as error:
        assert error.code == "unauthenticated"  # noqa: PT017


async def test_another_signing_key_opens_nothing(made, clock):
    others = Tokens("another signing key of 32 characters", clock=clock)

    assert "signs with another key now" in await refused(others, made)


@pytest.mark.parametrize("alg", ["none", "None", "HS384", "HS512", "RS256", "", None])
async def test_algorithm_is_not_for_the_token_to_say(tokens, made, alg):
    head, claims, signature = parts_of(made)
    prefix = "ek_" if made.startswith("ek_") else ""
    head["alg"] = alg
    for end in ("", signature):
        await opens_nothing(tokens, f"{prefix}{packed(head)}.{packed(claims)}.{end}")


async def test_signed_with_the_signing_key_itself_it_opens_nothing(tokens, made):
    """No secret of another purpose is a key here."""
    _, claims, _ = parts_of(made)
    prefix = "ek_" if made.startswith("ek_") else ""
    await refused(tokens, prefix + jwt.encode(claims, SIGNING_KEY, algorithm="HS256"))


async def test_one_kind_is_not_taken_for_the_other(tokens):
    secret, link = secret_of(tokens), link_of(tokens)
    await refused(tokens, secret.removeprefix("ek_"))
    await refused(tokens, f"ek_{link}")
    await refused(tokens, f"ek_{secret}")


@pytest.mark.parametrize(
    "change",
    [
        {"aud": "stream"},
        {"aud": None},
        {"iss": "https://issuer.example"},
        {"exp": None},
        {"exp": "never"},
        {"user": 7},
        {"models": "*"},
        {"nbf": NOW * 2},
        {"iat": None},
        {"may": "all things"},
    ],
    ids=str,
)
async def test_claims_that_are_not_ours_open_nothing(tokens, change):
    """Even of whoever has the key of the purpose."""
    _, claims, _ = parts_of(secret_of(tokens))
    claims = {name: value for name, value in {**claims, **change}.items() if value is not None}
    await refused(
        tokens, "ek_" + jwt.encode(claims, tokens._crypto._keys["client_secret"], algorithm="HS256")
    )


async def test_stream_token_leads_to_no_other_stream(tokens):
    """The owner is bound to the stream, even for whoever has the key of the purpose."""
    _, claims, _ = parts_of(link_of(tokens))
    claims["stream"] = "st_2"
    await refused(tokens, jwt.encode(claims, tokens._crypto._keys["stream"], algorithm="HS256"))


async def test_what_is_not_ours_is_left_to_others(tokens):
    foreign = jwt.encode({"iss": "https://issuer.example"}, "k" * 32, algorithm="HS256")
    deep = base64.urlsafe_b64encode(b"[" * 2000).rstrip(b"=").decode()
    for credential in ("", "ssk_x", "a.b.c", foreign, "x" * 100_000, f"e30.{deep}.e30", "é.é.é"):
        assert await tokens.verify(credential) is None


async def test_too_long_is_not_looked_at(tokens, monkeypatch):
    monkeypatch.setattr(module, "sha256", None)
    await refused(tokens, "ek_" + "a" * MAX_LENGTH)
    assert await tokens.verify("a" * (MAX_LENGTH + 1)) is None


def test_secret_is_not_made_longer_than_it_may_be(clock):
    tokens = Tokens(SIGNING_KEY, clock=clock)
    with pytest.raises(RequestError, match="the maximum is 4096; send fewer"):
        secret_of(tokens, models=["gpt-" + "x" * 190] * 32)


# What is remembered


async def test_token_is_verified_once_and_looked_at_each_time(tokens, made):
    """To verify it makes a new principal."""
    first = await tokens.verify(made)
    for _ in range(10):
        assert first is await tokens.verify(made)


async def test_forgeries_are_not_remembered_and_what_is_has_a_bound(clock, monkeypatch):
    assert module.REMEMBERED <= 10_000
    monkeypatch.setattr(module, "REMEMBERED", 4)
    tokens = Tokens(SIGNING_KEY, clock=clock)
    secrets = [secret_of(tokens, user=f"u{n}") for n in range(10)]
    known = []
    for n, secret in enumerate(secrets):
        await opens_nothing(tokens, f"ek_{n}")
        known.append(await tokens.verify(secret))

    assert [True] * 4 == [await tokens.verify(secrets[n]) is known[n] for n in (6, 7, 8, 9)]
    assert [False] * 6 == [await tokens.verify(secrets[n]) is known[n] for n in range(6)]


def test_nothing_shows_the_keys(tokens):
    assert SIGNING_KEY not in repr(tokens)
    assert SIGNING_KEY not in str(vars(tokens))


# Globs


@pytest.mark.parametrize(
    ("outer", "glob", "within"),
    [
        ("*", "anything[*?", True),
        ("gpt-*", "gpt-4", True),
        ("gpt-*", "gpt-?", True),
        ("gpt-?", "gpt-?", True),
        ("*-mini", "gpt-*-mini", True),
        ("gpt-[45]", "gpt-[45]", True),
        ("gpt-*", "*", False),
        ("gpt-*", "[g]pt-4", False),
        ("gpt-?", "gpt-*", False),
        ("gpt-??", "gpt-4*", False),
        ("gpt-[!x]", "gpt-*", False),
        ("*b]c", "[ab]c", False),
        ("GPT-*", "gpt-4", False),
    ],
)
def test_glob_is_within_another(outer, glob, within):
    assert within == covers((outer,), glob)
    assert within == covers(("x", outer), glob)
    assert covers(None, glob)
    assert not covers((), glob)


def test_glob_that_is_within_another_matches_no_name_more():
    """Over all short globs and names: where `covers` says yes, it is so."""
    from fnmatch import fnmatchcase
    from itertools import product

    letters = "ab*?[]"
    names = ["".join(name) for size in range(4) for name in product("ab[]", repeat=size)]
    globs = ["".join(glob) for size in range(1, 4) for glob in product(letters, repeat=size)]
    matches = {glob: {name for name in names if fnmatchcase(name, glob)} for glob in globs}
    found = 0
    for outer, glob in product(globs, globs):
        if covers((outer,), glob):
            found += 1
            assert matches[glob] <= matches[outer], (outer, glob)
    assert found > 1000


class File(Keys):
    """The signing keys of a file that changes."""

    def __init__(self) -> None:
        self.keys: tuple[str, ...] = (SIGNING_KEY,)

    def __repr__(self) -> str:
        return "File()"

    def signing_keys(self) -> tuple[str, ...]:
        return self.keys

    async def refresh(self) -> None:
        pass


async def test_tokens_of_rotated_signing_keys_are_valid_until_the_file_drops_them(clock, keys):
    file, new = File(), "another signing key of 32 characters"
    tokens = Tokens(SIGNING_KEY, file=file, find_key=found_in(keys), clock=clock)
    old = [secret_of(tokens), link_of(tokens)]
    file.keys = (SIGNING_KEY, new)  # known, and not yet used
    old += [secret_of(tokens), link_of(tokens)]
    file.keys = (new, SIGNING_KEY)
    late = [secret_of(tokens), link_of(tokens)]
    for token in (*old, *late):
        assert await tokens.verify(token) is not None
    file.keys = (new,)  # also tokens that were verified before are refused now
    for token in old:
        with pytest.raises(RequestError, match="not valid"):
            await tokens.verify(token)
    for token in late:
        assert await tokens.verify(token) is not None
    assert new not in str(vars(tokens))


async def test_signing_key_that_is_not_of_the_file_does_not_change_with_it(clock, keys):
    file = File()
    tokens = Tokens("a signing key of the settings of 32", file=file, clock=clock)
    secret = tokens.make_client_secret(KEY, user="ann", expires_at=NOW + 600)
    file.keys = ("another signing key of 32 characters",)
    assert secret.startswith("ek_")
    with pytest.raises(RequestError, match="not valid"):
        await Tokens(SIGNING_KEY, clock=clock).verify(secret)
    assert await tokens.verify(secret) is not None


async def test_fallbacks_verify_and_sign_nothing(clock, keys):
    find, new = found_in(keys), "another signing key of 32 characters"
    before = Tokens(SIGNING_KEY, find_key=find, clock=clock)
    knows = Tokens(SIGNING_KEY, fallbacks=[new], find_key=find, clock=clock)
    signs = Tokens(new, fallbacks=[SIGNING_KEY], find_key=find, clock=clock)
    after = Tokens(new, find_key=find, clock=clock)
    for maker, verifiers in (
        (before, (before, knows, signs)),
        (knows, (before, knows, signs)),
        (signs, (knows, signs, after)),
    ):
        for token in (secret_of(maker), link_of(maker)):
            for verifier in verifiers:
                assert await verifier.verify(token) is not None
