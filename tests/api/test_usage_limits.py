"""Limits of requests, tokens, streams and money, as whoever asks meets them."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import msgspec
import pytest

from app.dialects.client_formats import CLIENT_FORMATS
from app.identity.authenticator import Authenticator
from app.identity.keys import digest
from app.identity.principal import Principal
from app.identity.tokens import Tokens
from app.ledger.config import PriceConfig, UsageLimits
from app.telemetry.observer import Observer, Refused
from app.testing.upstream import (
    DONE,
    FINISH,
    USAGE,
    Hold,
    Upstream,
    head,
    reply,
    send,
    serve_upstream,
    text,
)
from tests.api.bodies import M, body_of
from tests.clock import Clock
from tests.identities import Table
from tests.serving import Relay, serve_relay

SIGNING_KEY = "a signing key of more than 32 characters"
RUNS = [head(), send(text("a")), Hold()]
ENDS = [head(), send(text("a") + FINISH + USAGE + DONE)]
PRICE = PriceConfig(target="openai/*", input=0, output=1)
"""A millionth of a dollar for a token of the answer."""

KEYS = {
    "ann": Principal("acme", "ann", "app"),
    "bob": Principal("acme", "bob", "app"),
    "app": Principal("acme", key="app"),
    "other-app": Principal("acme", key="other-app"),
    "backend": Principal("acme", key="backend", roles=frozenset({"client_secrets"})),
    "root": Principal(key="root", roles=frozenset({"admin"})),
    "foreign": Principal("umbrella", "ann", "foreign"),
}


class Noting(Observer):
    """Notes what is refused."""

    def __init__(self) -> None:
        self.refusals: list[Refused] = []

    def refused(self, refused: Refused) -> None:
        self.refusals.append(refused)


class World(NamedTuple):
    relay: Relay
    upstream: Upstream
    keys: dict[str, Principal]
    noted: Noting

    async def post(
        self, who: str, path: str = "/v1/chat", *, headers: Mapping[str, str] = {}, **fields: Any
    ) -> httpx2.Response:
        headers = {**headers, **bearer(who)}
        body = {**body_of(path, streams=False), **fields}
        return await self.relay.client.post(path, json=body, headers=headers)

    async def statuses(self, *who: str) -> list[int]:
        """Ask for a whole answer as each of them in turn."""
        return [(await self.post(one, stream=False)).status_code for one in who]

    async def begin(self, who: str, **fields: Any) -> str:
        """Start a stream that runs on; return its id."""
        started = await self.post(who, headers={"prefer": "respond-async"}, **fields)
        assert 202 == started.status_code, started.text
        return str(started.headers["stream-id"])

    async def usage(self, who: str, query: str = "") -> Any:
        answer = await self.relay.client.get(f"/v1/usage{query}", headers=bearer(who))
        assert 200 == answer.status_code, answer.text
        return answer.json()

    async def secret(self, who: str = "backend", **body: Any) -> str:
        path = "/v1/client_secrets"
        made = await self.relay.client.post(path, json=body, headers=bearer(who))
        assert 200 == made.status_code, made.text
        return str(made.json()["value"])


def bearer(who: str) -> dict[str, str]:
    return {"authorization": f"Bearer {who}"} if who else {}


@asynccontextmanager
async def serve(
    folder: Path,
    toml: str = "",
    *,
    script: Sequence[Any] = ENDS,
    prices: Sequence[PriceConfig] = (PRICE,),
    **settings: Any,
) -> AsyncIterator[World]:
    """Run a relay with these settings, for the keys above, over an upstream that has a price."""
    keys = dict(KEYS)
    tokens = Tokens(SIGNING_KEY, find_key=lambda name, *, issued_at=None: keys.get(name))
    file = folder / "seseragi.toml"
    file.write_text(toml)
    noted = Noting()
    async with (
        serve_upstream() as upstream,
        serve_relay(
            upstream,
            config=file,
            default_model=M,
            authenticator=Authenticator((Table(keys), tokens), tokens=tokens),
            observers=[noted],
            prices=prices,
            **settings,
        ) as relay,
    ):
        upstream.script = script
        yield World(relay, upstream, keys, noted)


# Each limit of each account


class Where(NamedTuple):
    """Where the limits of an account stand, who has it, and who has not."""

    table: str
    who: str
    another: str | None
    own: str | None = None
    """Which limits of a principal they are, where they do not stand in the settings."""


ACCOUNTS = {
    "relay": Where("limits", "ann", None),
    "each tenant": Where("limits.tenant", "ann", "foreign"),
    "tenant": Where("tenant.acme", "ann", "foreign"),
    "each key": Where("limits.key", "app", "other-app"),
    "key": Where("", "app", "other-app", "key_limits"),
    "each user": Where("limits.user", "ann", "bob"),
    "user": Where("", "ann", "bob", "user_limits"),
    "secret's user": Where("", "{user}", "bob", "secret"),
    "secret": Where("", "{}", "bob", "secret"),
}
LIMITS: dict[str, Any] = {
    "requests_per_minute": 1,
    "tokens_per_minute": 500,
    "streams": 1,
    "usd_per_day": 0.0005,
    "usd_per_month": 0.0005,
}


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("account", ACCOUNTS)
async def test_limit_holds_for_its_account_and_no_other(tmp_path, account: str, limit: str):
    await check_limit(tmp_path, account, limit, log="memory")


@pytest.mark.parametrize("limit", LIMITS)
async def test_limit_holds_in_every_log(tmp_path, limit: str, log: str):
    await check_limit(tmp_path, "each user", limit, log=log)


async def check_limit(tmp_path: Path, account: str, limit: str, *, log: str) -> None:
    where, value = ACCOUNTS[account], LIMITS[limit]
    toml = f"[{where.table}]\n{limit} = {value}\n" if where.table else ""
    async with serve(tmp_path, toml, script=RUNS, log=log) as world:
        who = where.who
        own = UsageLimits(**{limit: value})
        if where.own == "secret":
            named = {"user": "ann"} if who == "{user}" else {}
            who = await world.secret(limits={limit: value}, **named)
        elif where.own is not None:
            world.keys[who] = msgspec.structs.replace(KEYS[who], **{where.own: own})
        await world.begin(who, max_tokens=1000)
        refused = await world.post(who, max_tokens=1000)

        assert 429 == refused.status_code, refused.text
        told = refused.json()
        money = limit.startswith("usd")
        assert told["code"] == ("budget_exceeded" if money else "rate_limited")
        assert told["retryable"] is not money
        assert ("x-should-retry" in refused.headers) is money
        assert int(refused.headers["retry-after"]) >= 1
        told_of = account not in ("relay", "each tenant", "tenant")  # what others share is not told
        assert ("x-ratelimit-limit-requests" in refused.headers) == (
            told_of and limit[:4] == "requ"
        )
        assert ("x-ratelimit-limit-tokens" in refused.headers) == (told_of and limit[:4] == "toke")
        assert not {"acme", "ann", "app"} & set(re.findall(r"\w+", told["detail"]))
        await asyncio.wait_for(world.upstream.called.wait(), 20)
        [call] = world.upstream.calls
        if limit != "streams" and limit != "requests_per_minute":
            assert 400 < call.json["max_completion_tokens"] <= 500
        [noted] = world.noted.refusals
        assert told["code"] == noted.error.code
        if where.another is not None:
            await world.begin(where.another, max_tokens=1000)


async def test_what_is_refused_takes_nothing(tmp_path):
    toml = "[limits.user]\nstreams = 1\nrequests_per_minute = 9\nusd_per_day = 1\n"
    async with serve(tmp_path, toml, script=RUNS) as world:
        await world.begin("ann", max_tokens=100)
        before = await world.usage("ann")
        for _ in range(20):
            assert 429 == (await world.post("ann", max_tokens=100)).status_code
        after = await world.usage("ann")

        del before["at"], after["at"]
        assert before == after
        assert 20 == len(world.noted.refusals)
        assert 1 == len(world.upstream.calls)


@pytest.mark.parametrize(
    ("each", "key", "expected"), [(2, 5, 2), (5, 2, 2), (3, None, 3), (None, 3, 3)]
)
async def test_of_settings_and_credential_the_smaller_counts(tmp_path, each, key, expected):
    toml = "" if each is None else f"[limits.key]\nrequests_per_minute = {each}\n"
    async with serve(tmp_path, toml) as world:
        limits = UsageLimits(requests_per_minute=key)
        world.keys["app"] = Principal("acme", key="app", key_limits=limits)

        assert [*[200] * expected, 429] == await world.statuses(*["app"] * (expected + 1))
        limit = (await world.usage("app"))["limits"]["requests_per_minute"]
        assert (expected, 0) == (limit["limit"], limit["remaining"])


async def test_of_several_accounts_each_one_counts(tmp_path):
    toml = """
[limits]
requests_per_minute = 6
[limits.tenant]
requests_per_minute = 5
[limits.key]
requests_per_minute = 4
[limits.user]
requests_per_minute = 2
"""
    async with serve(tmp_path, toml) as world:

        async def told(who: str) -> str:
            answer = await world.post(who, stream=False)
            return "" if answer.status_code == 200 else str(answer.json()["detail"])

        assert ["", "", "your limit of 2 requests a minute is reached"] == [
            await told("ann") for _ in "123"
        ]
        # Of the key's, the tenant's and the relay's no numbers are told to who is not the key.
        assert ["", "", "the key's limit of requests a minute is reached"] == [
            await told("bob") for _ in "123"
        ]
        assert "the key's limit of 4 requests a minute is reached" == await told("app")
        world.keys["cid"] = Principal("acme", "cid", "third")
        assert ["", "the organization's limit of requests a minute is reached"] == [
            await told("cid") for _ in "12"
        ]
        assert ["", "the relay's limit of requests a minute is reached"] == [
            await told("foreign") for _ in "12"
        ]


async def test_a_tenants_own_limits_take_the_place_of_those_of_each(tmp_path):
    toml = """
[limits.tenant]
requests_per_minute = 1
usd_per_month = 7
[tenant.acme]
requests_per_minute = 2
"""
    async with serve(tmp_path, toml) as world:
        assert [200, 200, 429] == await world.statuses(*["ann"] * 3)
        assert [200, 429] == await world.statuses(*["foreign"] * 2)
        limits = (await world.usage("root", "?tenant=acme"))["limits"]
        assert "7" == limits["usd_per_month"]["limit"]
        assert 2 == limits["requests_per_minute"]["limit"]


# What comes back


async def test_what_a_stopped_stream_has_not_used_comes_back(tmp_path):
    toml = "[limits.user]\ntokens_per_minute = 1000\nusd_per_day = 0.001\n"
    async with serve(tmp_path, toml, script=RUNS) as world:
        stream = await world.begin("ann")
        await asyncio.wait_for(world.upstream.called.wait(), 20)
        held = await world.usage("ann")
        assert (1, 0) == (held["streams"], held["limits"]["tokens_per_minute"]["remaining"])
        assert "0" != held["today"]["held"]
        assert 429 == (await world.post("ann")).status_code

        url = f"/v1/streams/{stream}/cancel"
        assert 202 == (await world.relay.client.post(url, headers=bearer("ann"))).status_code
        used = await world.usage("ann")
        assert (0, "0", 1) == (used["streams"], used["today"]["held"], used["today"]["requests"])
        assert 900 < used["limits"]["tokens_per_minute"]["remaining"] < 1000
        assert 0 < float(used["today"]["cost"]) < 0.0001
        world.upstream.script = ENDS
        assert 200 == (await world.post("ann", stream=False)).status_code


async def test_what_a_failed_stream_has_not_used_comes_back(tmp_path):
    toml = "[limits.user]\ntokens_per_minute = 1000\nusd_per_day = 0.001\nstreams = 1\n"
    async with serve(tmp_path, toml, script=reply("400 Bad", "{}")) as world:
        for _ in range(3):
            assert 400 == (await world.post("ann", stream=False)).status_code
        used = await world.usage("ann")

        assert (0, "0", "0") == (used["streams"], used["today"]["held"], used["today"]["cost"])
        limits = used["limits"]
        assert (1000, "0.001", 1) == tuple(
            limits[name]["remaining"] for name in ("tokens_per_minute", "usd_per_day", "streams")
        )


async def test_key_that_leads_to_a_stream_is_given_it_whatever_is_left(tmp_path):
    toml = "[limits.user]\nrequests_per_minute = 1\nusd_per_day = 0.0005\nstreams = 1\n"
    async with serve(tmp_path, toml) as world:
        again, other = {"idempotency-key": "a"}, {"idempotency-key": "b"}
        first = await world.post("ann", headers=again, stream=False)
        for _ in range(3):
            answer = await world.post("ann", headers=again, stream=False)
            assert 200 == answer.status_code
            assert first.headers["stream-id"] == answer.headers["stream-id"]
        assert 429 == (await world.post("ann", headers=other, stream=False)).status_code
        assert 422 == (await world.post("ann", headers=again, max_tokens=3)).status_code
        # What is refused has not bound its key.
        assert 429 == (await world.post("ann", headers=other, max_tokens=3)).status_code
        assert 1 == len(world.upstream.calls)


# Nobody gets round


@pytest.mark.parametrize("path", [one.path for one in CLIENT_FORMATS.values()])
async def test_no_dialect_leads_round_a_limit(tmp_path, path: str):
    async with serve(tmp_path, "[limits.user]\nrequests_per_minute = 1\n") as world:
        assert 200 == (await world.post("ann", path)).status_code
        for other in CLIENT_FORMATS.values():
            assert 429 == (await world.post("ann", other.path)).status_code
        assert 1 == len(world.upstream.calls)


async def test_what_a_request_says_of_its_user_or_key_changes_nothing(tmp_path):
    async with serve(tmp_path, "[limits.user]\nrequests_per_minute = 1\n") as world:
        assert 200 == (await world.post("ann", stream=False)).status_code
        path = "/v1/chat/completions"
        tries: list[tuple[str, dict[str, Any], dict[str, str]]] = [
            (path, {"user": "another"}, {}),
            (path, {"safety_identifier": "x", "prompt_cache_key": "y"}, {}),
            ("/v1/messages", {"metadata": {"user_id": "another"}}, {}),
            ("/v1/responses", {"user": "another", "store": False}, {}),
            (path, {}, {"idempotency-key": "fresh"}),
            (path, {}, {"x-forwarded-for": "10.9.8.7", "x-user": "another"}),
            (path, {}, {"openai-organization": "another", "openai-project": "another"}),
            (f"{path}?user=another&tenant=t&key=k", {}, {}),
            (path, {"max_tokens": 1}, {}),
        ]
        for where, fields, headers in tries:
            body = {**body_of(where.partition("?")[0], streams=False), **fields}
            headers = {**headers, **bearer("ann")}
            answer = await world.relay.client.post(where, json=body, headers=headers)
            assert 429 == answer.status_code, (where, fields, headers, answer.text)
        assert 1 == len(world.upstream.calls)


async def test_a_second_client_secret_of_a_user_shares_his_account(tmp_path):
    async with serve(tmp_path, "[limits.user]\nrequests_per_minute = 3\n") as world:
        one = await world.secret(user="eve", limits={"requests_per_minute": 2})
        two = await world.secret(user="eve", limits={"requests_per_minute": 100})
        wide = await world.secret(user="eve")

        assert [200, 200, 429] == await world.statuses(one, two, one)
        assert [200, 429, 429] == await world.statuses(two, two, wide)
        assert 3 == (await world.usage(two))["limits"]["requests_per_minute"]["limit"]
        # Of one that names nobody each has an account of its own, and the key's counts for all.
        alone = [await world.secret(limits={"requests_per_minute": 1}) for _ in "12"]
        twice = [alone[0], alone[0], alone[1], alone[1]]
        assert [200, 429, 200, 429] == await world.statuses(*twice)
        assert {"kind": "secret"} == (await world.usage(alone[0]))["account"]
        limits = UsageLimits(requests_per_minute=1)
        world.keys["backend"] = Principal(
            "acme", key="backend", roles=frozenset({"client_secrets"}), key_limits=limits
        )
        third = await world.secret()
        assert [200, 429, 429] == await world.statuses(third, third, alone[0])


async def test_limits_of_a_client_secret_are_told_and_checked(tmp_path):
    async with serve(tmp_path) as world:

        async def ask(limits: Any) -> httpx2.Response:
            body = {"user": "eve", "limits": limits}
            path = "/v1/client_secrets"
            return await world.relay.client.post(path, json=body, headers=bearer("backend"))

        made = await ask({"usd_per_day": 0.5, "streams": 2})
        assert {"usd_per_day": 0.5, "streams": 2} == made.json()["limits"]
        assert "limits" not in (await ask({})).json()
        for wrong, told in (
            ({"usd_per_day": -1}, "limits.usd_per_day"),
            ({"usd_per_week": 1}, "usd_per_week"),
            ({"streams": 1.5}, "limits.streams"),
            ({"streams": "1"}, "limits.streams"),
            ([], "limits"),
        ):
            refused = await ask(wrong)
            assert (400, True) == (refused.status_code, told in refused.json()["detail"]), wrong


async def test_a_stream_token_starts_nothing_and_is_told_of_nothing(tmp_path):
    async with serve(tmp_path, script=RUNS) as world:
        started = await world.post("ann", headers={"prefer": "respond-async"})
        token = re.search(r"token=([\w.-]+)", started.json()["events_url"])
        assert token is not None
        assert 403 == (await world.post(token[1])).status_code
        answer = await world.relay.client.get("/v1/usage", headers=bearer(token[1]))
        assert 403 == answer.status_code


async def test_limits_of_a_key_hold_as_soon_as_its_file_has_changed(tmp_path, monkeypatch):
    clock = Clock(monkeypatch)
    key = "ssk_a-key-that-is-made-up-by-hand-for-this-test"
    row: dict[str, Any] = {"name": "app", "sha256": digest(key)}
    file = tmp_path / "keys.json"

    def write(**limits: float) -> None:
        new = tmp_path / "new.json"
        new.write_text(
            json.dumps({"signing_key": SIGNING_KEY, "keys": [{**row, "limits": limits}]})
        )
        new.chmod(0o600)
        new.replace(file)

    write()
    async with serve_relay(keys_file=file, clock=clock, demo_pace=0) as relay:

        async def ask() -> int:
            body = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 1}
            answer = await relay.client.post("/v1/chat", json=body, headers=bearer(key))
            return answer.status_code

        assert [200, 200] == [await ask(), await ask()]
        write(requests_per_minute=2)
        await clock.pass_(1.01)
        assert 200 == await ask()  # of those before none was counted by the minute
        assert [200, 429] == [await ask(), await ask()]
        write(requests_per_minute=3)
        await clock.pass_(1.01)
        assert [200, 429] == [await ask(), await ask()]
        write()
        await clock.pass_(1.01)
        assert 200 == await ask()


# Where something is not known, or said


async def test_money_is_not_spent_where_a_price_is_unknown(tmp_path):
    async with serve(tmp_path, "[limits.user]\nusd_per_day = 1\n", prices=()) as world:
        refused = await world.post("ann")
        assert (429, "budget_exceeded") == (refused.status_code, refused.json()["code"])
        assert "add a [[price]]" in refused.json()["detail"]
        assert 1 == len(world.noted.refusals)
        assert [] == world.upstream.calls


@pytest.mark.parametrize(("said", "expected"), [("", 16_384), ("max_output_tokens = 77\n", 77)])
async def test_the_longest_answer_is_asked_for_where_a_request_does_not_say(
    tmp_path, said: str, expected: int
):
    async with serve(tmp_path, f"[limits]\n{said}[limits.user]\nusd_per_day = 1\n") as world:
        await world.post("ann", stream=False)
        await world.post("ann", stream=False, max_tokens=5)
        assert [expected, 5] == [
            call.json.get("max_completion_tokens") or call.json["max_tokens"]
            for call in world.upstream.calls
        ]


@pytest.mark.parametrize("budget", ["usd_per_day", "usd_per_month"])
async def test_a_budget_that_is_held_is_told_apart_from_one_that_is_spent(
    tmp_path, budget: str, log: str
):
    toml = f"[limits.user]\n{budget} = 0.0005\n"
    async with serve(tmp_path, toml, script=RUNS, log=log) as world:
        running = await world.begin("ann")
        refused = await world.post("ann")
        assert "reserve" in refused.json()["detail"]
        assert "2" == refused.headers["retry-after"]

        stop = f"/v1/streams/{running}/cancel"
        assert 202 == (await world.relay.client.post(stop, headers=bearer("ann"))).status_code
        await world.begin("ann", max_tokens=20)

        spent = await world.post("ann", n=40, max_tokens=20)
        assert 429 == spent.status_code
        assert "next" in spent.json()["detail"]
        assert "reserve" not in spent.json()["detail"]


# Headers


@pytest.mark.parametrize("path", [one.path for one in CLIENT_FORMATS.values()])
async def test_headers_say_how_near_a_limit_is(tmp_path, path: str):
    toml = "[limits.user]\nrequests_per_minute = 3\ntokens_per_minute = 100000\n"
    async with serve(tmp_path, toml, cors_origins="https://a.example") as world:
        anthropic = path == "/v1/messages"

        def shown(answer: httpx2.Response) -> dict[str, str]:
            return {
                "".join(name.split("ratelimit-")[1:]): value
                for name, value in answer.headers.items()
                if name.startswith("anthropic-ratelimit-" if anthropic else "x-ratelimit-")
            }

        def name(kind: str, what: str) -> str:
            return f"{kind}-{what}" if anthropic else f"{what}-{kind}"

        origin = {"origin": "https://a.example"}
        says = path not in ("/v1/ui/chat", "/v1/ag-ui")  # which always stream
        streamed: dict[str, Any] = {"stream": True} if says else {}
        whole: dict[str, Any] = {"stream": False} if says else {}
        answers = [
            await world.post("ann", path, headers=origin, **streamed),
            await world.post("ann", path, **whole),
            await world.post("ann", path, headers={"prefer": "respond-async"}),
        ]
        for number, answer in enumerate(answers):
            assert answer.status_code in (200, 202), answer.text
            headers = shown(answer)
            assert "3" == headers[name("requests", "limit")]
            assert str(2 - number) == headers[name("requests", "remaining")]
            assert "100000" == headers[name("tokens", "limit")]
            assert 0 < int(headers[name("tokens", "remaining")]) < 100_000
            form = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ" if anthropic else r"(1m)?\d+(\.\d+)?s"
            for kind in ("requests", "tokens"):
                assert re.fullmatch(form, headers[name(kind, "reset")])
        exposed = answers[0].headers["access-control-expose-headers"].lower().split(", ")
        seen = {header for header in answers[0].headers if "ratelimit" in header}
        assert len(seen) == 6
        assert seen <= set(exposed)
        refused = await world.post("ann", path)
        assert (429, "0") == (refused.status_code, shown(refused)[name("requests", "remaining")])
        assert 1 <= int(refused.headers["retry-after"]) <= 65


async def test_a_response_in_the_background_says_it_too(tmp_path):
    async with serve(tmp_path, "[limits.user]\nrequests_per_minute = 2\n") as world:
        answer = await world.post("ann", "/v1/responses", background=True)
        assert 200 == answer.status_code
        assert "1" == answer.headers["x-ratelimit-remaining-requests"]


@pytest.mark.parametrize("table", ["limits", "limits.tenant", "limits.key"])
@pytest.mark.parametrize("path", ["/v1/chat", "/v1/messages"])
async def test_headers_say_nothing_of_what_others_share(tmp_path, table: str, path: str):
    toml = f"[{table}]\nrequests_per_minute = 2\ntokens_per_minute = 100000\n"
    async with serve(tmp_path, toml) as world:
        answers = [await world.post("ann", path) for _ in range(3)]
        assert [200, 200, 429] == [answer.status_code for answer in answers]
        assert 1 <= int(answers[-1].headers["retry-after"]) <= 65
        for answer in answers:
            assert [] == [name for name in answer.headers if "ratelimit" in name]


async def test_headers_say_nothing_where_there_is_no_such_limit(tmp_path):
    async with serve(tmp_path, "[limits.user]\nusd_per_day = 3\nstreams = 9\n") as world:
        answer = await world.post("ann")
        assert 200 == answer.status_code
        assert [] == [name for name in answer.headers if "ratelimit" in name]
