"""`GET /v1/usage`: what whoever asks has used, what is left, and that he is told no more."""

import json
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from app.identity.principal import Principal
from app.ledger.config import UsageLimits
from app.testing.upstream import DONE, FINISH, Hold, head, send, text
from tests.api.test_ownership_matrix import Spy
from tests.api.test_usage_limits import bearer, serve
from tests.serving import HELLO, serve_relay

SPENT = 'data: {"choices":[],"usage":{"prompt_tokens":70,"completion_tokens":30}}\n\n'
ENDS = [head(), send(text("a") + FINISH + SPENT + DONE)]

LIMITS = """
[limits]
usd_per_month = 1000
[limits.tenant]
usd_per_month = 0.0002
[limits.key]
requests_per_minute = 1000
[limits.user]
usd_per_day = 0.001
tokens_per_minute = 100000
streams = 4
"""


async def test_who_asks_is_told_of_his_own_account(tmp_path):
    async with serve(tmp_path, LIMITS, script=ENDS) as world:
        empty = await world.usage("ann")
        for who in ("ann", "ann", "bob"):
            assert 200 == (await world.post(who, stream=False, max_tokens=50)).status_code
        calls = len(world.upstream.calls)
        told = await world.usage("ann")

        now = datetime.fromisoformat(told["at"])
        assert abs(datetime.now(UTC) - now) < timedelta(seconds=20)
        midnight = now.replace(hour=0, minute=0, second=0)
        next_month = (midnight.replace(day=1) + timedelta(days=32)).replace(day=1)
        assert {"kind": "user", "tenant": "acme", "user": "ann"} == told["account"]
        counts = {"requests": 2, "input_tokens": 140, "output_tokens": 60, "unpriced": 0}
        spent = {**counts, "cost": "0.00006", "held": "0"}
        assert spent == {name: told["today"][name] for name in spent}
        assert spent == {name: told["month"][name] for name in spent}
        assert midnight == datetime.fromisoformat(told["today"]["began_at"])
        tomorrow = f"{midnight + timedelta(days=1):%Y-%m-%dT%H:%M:%SZ}"
        assert tomorrow == told["today"]["ends_at"]
        assert midnight.replace(day=1) == datetime.fromisoformat(told["month"]["began_at"])
        assert next_month == datetime.fromisoformat(told["month"]["ends_at"])
        limits = told["limits"]
        assert {"usd_per_day", "tokens_per_minute", "streams"} == set(limits)
        assert {"limit": "0.001", "remaining": "0.00094", "resets_at": tomorrow} == (
            limits["usd_per_day"]
        )
        assert {"limit": 4, "remaining": 4, "resets_at": None} == limits["streams"]
        tokens = limits["tokens_per_minute"]
        assert (100_000, 99_800) == (tokens["limit"], tokens["remaining"])
        # The organization's is nearest, of which he is told no more than that.
        assert {"kind": "tenant", "limit": "usd_per_month", "reached": False} == told["binding"]
        for others in ("0.0002", "1000", "0.00009", "bob"):
            assert others not in json.dumps({**told, "limits": None})
        assert "0" == empty["today"]["cost"]
        assert calls == len(world.upstream.calls)


async def test_what_runs_is_held_and_what_has_no_price_is_said(tmp_path):
    script = [head(), send(text("a")), Hold()]
    async with serve(tmp_path, LIMITS, script=script) as world:
        await world.begin("ann", max_tokens=100)
        told = await world.usage("ann")
        today = told["today"]
        assert ("0.0001", "0", 0) == (today["held"], today["cost"], today["requests"])
        assert 1 == told["streams"]
        assert 3 == told["limits"]["streams"]["remaining"]
    async with serve(tmp_path, script=ENDS, prices=()) as world:
        assert 200 == (await world.post("ann", stream=False)).status_code
        told = await world.usage("ann")
        today = told["today"]
        assert (1, "0", 70) == (today["unpriced"], today["cost"], today["input_tokens"])
        assert 1 == told["month"]["requests"]
        assert ({}, None) == (told["limits"], told["binding"])


async def test_an_admin_is_told_of_any_account(tmp_path):
    async with serve(tmp_path, LIMITS, script=ENDS) as world:
        world.keys["app"] = Principal("acme", key="app", key_limits=UsageLimits(streams=2))
        for who in ("ann", "app", "foreign"):
            assert 200 == (await world.post(who, stream=False, max_tokens=20)).status_code

        async def told(query: str = "") -> tuple[dict[str, str], int, list[str]]:
            found = await world.usage("root", query)
            return found["account"], found["today"]["requests"], sorted(found["limits"])

        assert ({"kind": "relay"}, 3, ["usd_per_month"]) == await told()
        acme = {"kind": "tenant", "tenant": "acme"}
        assert (acme, 2, ["usd_per_month"]) == await told("?tenant=acme")
        app = {"kind": "key", "key": "app"}
        assert (app, 2, ["requests_per_minute", "streams"]) == await told("?key=app")
        ann = {"kind": "user", "tenant": "acme", "user": "ann"}
        limits = ["streams", "tokens_per_minute", "usd_per_day"]
        assert (ann, 1, limits) == await told("?user=ann&tenant=acme")
        assert ({**ann, "tenant": ""}, 0, limits) == await told("?user=ann")
        assert 0 == (await told("?tenant=a%3Ab%2Fc"))[1]
        for query, status in (
            ("?key=app&user=ann", 400),
            ("?tenant=", 400),
            (f"?user={'x' * 257}", 400),
            ("?user=a&user=b", 400),
        ):
            answer = await world.relay.client.get(f"/v1/usage{query}", headers=bearer("root"))
            assert (status, "invalid_request") == (answer.status_code, answer.json()["code"])


@pytest.mark.parametrize(
    "query", ["?tenant=acme", "?user=ann&tenant=acme", "?key=app", "?user=bob"]
)
async def test_nobody_else_is(tmp_path, query: str):
    async with serve(tmp_path, LIMITS) as world:
        secret = await world.secret(user="ann")
        for who in ("ann", "app", "foreign", secret):
            answer = await world.relay.client.get(f"/v1/usage{query}", headers=bearer(who))
            assert (403, "forbidden") == (answer.status_code, answer.json()["code"])
        assert 401 == (await world.relay.client.get("/v1/usage")).status_code


async def test_where_nobody_says_who_he_is_it_is_the_relays(tmp_path):
    file = tmp_path / "seseragi.toml"
    file.write_text("[limits]\nrequests_per_minute = 2\n")
    async with serve_relay(config=file) as relay:
        for status in (200, 200, 429):
            asked = {"messages": HELLO["messages"], "stream": False, "max_tokens": 2}
            answer = await relay.client.post("/v1/chat", json=asked)
            assert status == answer.status_code
        assert "the relay's limit of 2 requests a minute is reached" == answer.json()["detail"]
        told = (await relay.client.get("/v1/usage")).json()
        assert ({"kind": "relay"}, 2) == (told["account"], told["today"]["requests"])
        assert {"kind": "relay", "limit": "requests_per_minute", "reached": True} == told["binding"]
        assert 403 == (await relay.client.get("/v1/usage?tenant=a")).status_code


async def test_it_costs_one_look_at_the_log(tmp_path):
    asked: list[str] = []
    log = f"sqlite:///{tmp_path}/log.db"  # which has the accounts
    async with serve(tmp_path, LIMITS, log=log, wrap_log=partial(Spy, asked=asked)) as world:
        asked.clear()
        await world.usage("ann")
        assert ["read_accounts"] == asked
