"""`GET /v1/admin/summary` and `/admin`, as clients of one process."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest

from app.admin import service as desks
from app.admin.snapshot import MAX_LAST, MAX_MESSAGE
from app.api import application
from app.identity.keys import digest
from app.testing.upstream import (
    DONE,
    FINISH,
    Hold,
    Step,
    Upstream,
    head,
    reply,
    send,
    serve_upstream,
    text,
)
from tests.clock import Clock
from tests.serving import HELLO, Relay, serve_relay
from tests.waiting import until

M = "openai/m"
SPENT = 'data: {"choices":[],"usage":{"prompt_tokens":70,"completion_tokens":30}}\n\n'
ENDS: list[Step] = [head(), send(text("a") + FINISH + SPENT + DONE)]
RUNS: list[Step] = [head(), send(text("abcdefgh") + text("abcdefgh")), Hold()]

CONFIG = f"""
[[price]]
target = "openai/*"
input = 1
output = 2

[tenant.acme]
usd_per_month = 100
streams = 7

[[key]]
name = "boss"
sha256 = "{digest("ssk_boss")}"
roles = ["admin"]

[[key]]
name = "app"
sha256 = "{digest("ssk_app")}"
tenant = "acme"
user = "ann"
limits = {{ usd_per_day = 1.5, requests_per_minute = 50 }}
"""


class World(NamedTuple):
    relay: Relay
    upstream: Upstream

    async def ask(
        self, who: str, path: str, body: Any = None, *, method: str = "", **headers: str
    ) -> httpx2.Response:
        shown = {"authorization": f"Bearer ssk_{who}"} if who else {}
        return await self.relay.client.request(
            method or ("GET" if body is None else "POST"),
            path,
            json=body,
            headers={**shown, **headers},
        )

    async def look(self) -> Any:
        answer = await self.ask("boss", "/v1/admin/summary")
        assert (200, "no-store") == (answer.status_code, answer.headers["cache-control"])
        return answer.json()

    async def until(self, wanted: Callable[[Any], bool]) -> Any:
        found: Any = None

        async def looked() -> bool:
            nonlocal found
            return wanted(found := await self.look())

        await until(looked)
        return found

    async def start(self, **fields: Any) -> httpx2.Response:
        body = {**HELLO, "model": M, **fields}
        return await self.ask("app", "/v1/chat", body, prefer="respond-async")


@asynccontextmanager
async def serve(tmp_path: Path, config: str = CONFIG, **settings: Any) -> AsyncIterator[World]:
    file = tmp_path / "seseragi.toml"
    file.write_text(config)
    async with (
        serve_upstream() as upstream,
        serve_relay(upstream, config=str(file), default_model=M, **settings) as relay,
    ):
        yield World(relay, upstream)


@pytest.fixture(autouse=True)
def always_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desks, "FRESH_S", 0.0)


async def test_streams_and_money_are_what_the_client_knows(tmp_path):
    async with serve(tmp_path) as world:
        world.upstream.script = RUNS
        started = time.time()
        stream = (await world.start()).json()["id"]
        url = f"/v1/streams/{stream}/events"
        shown = {"authorization": "Bearer ssk_app"}
        async with world.relay.client.stream("GET", url, headers=shown) as reading:
            assert 200 == reading.status_code
            found = await world.until(lambda s: s["live"][0]["first_event_s"])
            (live,) = found["live"]
            assert (stream, M, M, 1) == tuple(
                live[name] for name in ("id", "route", "target", "attempt")
            )
            assert ("acme", "app", "ann", "acme:user:ann") == tuple(
                live[name] for name in ("tenant", "key", "user", "owner")
            )
            assert {stream: 1} == found["readers"]
            assert 1 == found["processes"][0]["readers"]
            assert 5 == live["events"]
            assert started - 1 < live["started_at"] < time.time() + 1
            assert 0 < live["gap_s"] < 20
            assert live["gap_s"] == pytest.approx(live["longest_gap_s"], abs=1)
        assert 1 == found["processes"][0]["streams"]

        await world.ask("boss", f"/v1/streams/{stream}/cancel", {})
        world.upstream.script = ENDS
        assert "stream.end" in (await world.ask("app", "/v1/chat", {**HELLO, "model": M})).text
        found = await world.until(lambda s: len(s["recent"]) == 2)
        newest, oldest = found["recent"]
        assert ("completed", 30, "0.00013") == tuple(
            newest[name] for name in ("status", "output_tokens", "cost")
        )
        assert ("cancelled", stream) == (oldest["status"], oldest["id"])
        usage = (await world.ask("boss", "/v1/usage?tenant=acme")).json()

    assert [] == found["live"]
    relay, acme, app, boss = found["money"]["accounts"]
    assert [{"kind": "relay"}, {"kind": "tenant", "tenant": "acme"}] == [
        relay["account"],
        acme["account"],
    ]
    assert ["app", "boss"] == [one["account"]["key"] for one in (app, boss)]
    assert {name: usage[name] for name in ("today", "month", "streams")} == {
        name: acme[name] for name in ("today", "month", "streams")
    }
    assert {"streams": 7, "usd_per_month": "100"} == {
        name: limit["limit"] for name, limit in acme["limits"].items()
    }
    assert "1.5" == app["limits"]["usd_per_day"]["limit"]
    assert (50, 48) == tuple(
        app["limits"]["requests_per_minute"][name] for name in ("limit", "remaining")
    )
    assert {} == relay["limits"]
    assert (0, True) == (found["money"]["more"], found["money"]["known"])


async def test_refusals_and_failures_of_the_hour_are_counted(tmp_path):
    async with serve(tmp_path, attempts=1) as world:
        names = [f"nowhere-{number}" * 400 for number in range(MAX_LAST + 5)]
        for name in names:
            assert 404 == (await world.start(model=name)).status_code
        said = json.dumps({"error": {"message": "sorry " * 400}})
        world.upstream.script = reply("400 Bad Request", said)
        assert 400 == (await world.ask("app", "/v1/chat", {**HELLO, "model": M})).status_code
        found = await world.until(lambda s: s["counts"]["failed"])

    (refused,), (failed,) = found["counts"]["refused"].items(), found["counts"]["failed"].items()
    assert ("model_not_found", len(names)) == (refused[0], sum(refused[1].values()))
    assert ("upstream_invalid_request", 1) == (failed[0], sum(failed[1].values()))
    assert all(found["at"] // 60 - int(minute) in (0, 1, 2) for minute in refused[1])
    newest, *others = found["last"]
    assert MAX_LAST == len(found["last"])
    assert ("failed", M) == (newest["kind"], newest["model"])
    assert newest["stream"].startswith("st_")
    assert newest["message"].startswith("upstream 'openai'")
    assert "sorry" in newest["message"]
    assert all(len(row["message"]) <= MAX_MESSAGE for row in found["last"])
    assert {("refused", None, "acme:user:ann")} == {
        (row["kind"], row["model"], row["owner"]) for row in others
    }
    (target,) = (target for target in found["targets"] if target["target"] == M)
    assert target["last_error"]["code"] == "upstream_invalid_request"


async def test_look_of_an_operator_leaves_the_life_of_a_stream_alone(tmp_path, monkeypatch):
    clock = Clock(monkeypatch)
    silent: dict[str, Any] = {
        "idle_timeout_s": 5000,
        "event_gap_timeout_s": 5000,
        "total_timeout_s": 5000,
    }
    async with serve(tmp_path, linger_s=600, **silent) as world:
        world.upstream.script = RUNS
        watched, read = [(await world.start()).json()["id"] for _ in range(2)]
        await world.until(lambda s: all(one["first_event_s"] for one in s["live"]))

        async def look_on(who: str, stream: str, query: str = "") -> None:
            path = f"/v1/streams/{stream}/events{query}"
            shown = {"authorization": f"Bearer ssk_{who}"}
            async with world.relay.client.stream("GET", path, headers=shown) as reading:
                assert 200 == reading.status_code
                async for chunk in reading.aiter_bytes():
                    if b"abcdefgh" in chunk:
                        return

        async def states() -> list[str]:
            asked = [world.ask("app", f"/v1/streams/{stream}") for stream in (watched, read)]
            return [(await answer).json()["status"] for answer in asked]

        refused = await world.ask("app", f"/v1/streams/{watched}/events?uncounted")
        assert 403 == refused.status_code
        await clock.pass_(400)
        for form in ("native", "openai_chat", "openai_responses", "anthropic", "ui", "ag_ui"):
            await look_on("boss", watched, f"?uncounted&format={form}")
        await look_on("boss", read)  # which counts
        found = await world.look()
        assert watched in {one["id"] for one in found["live"]}
        assert watched not in found["readers"]
        assert ["running", "running"] == await states()
        await until(lambda: not world.relay.hub.load().readers)
        await clock.pass_(300)
        await until(lambda: world.relay.hub.load().streams == 1)
        assert ["cancelled", "running"] == await states()
        await clock.pass_(400)
        await until(lambda: not world.relay.hub.load().streams)


async def test_only_the_oldest_streams_are_told_of(tmp_path, monkeypatch):
    monkeypatch.setattr(desks, "MAX_STREAMS", 3)
    async with serve(tmp_path) as world:
        world.upstream.script = RUNS
        streams = [(await world.start()).json()["id"] for _ in range(5)]
        found = await world.look()
    assert 5 == found["processes"][0]["streams"]
    assert streams[:3] == [stream["id"] for stream in found["live"]]


async def test_many_who_look_cost_one_look(tmp_path, monkeypatch):
    monkeypatch.setattr(desks, "FRESH_S", 600.0)
    async with serve(tmp_path) as world:
        first = await world.ask("boss", "/v1/admin/summary")
        others = await asyncio.gather(*(world.ask("boss", "/v1/admin/summary") for _ in range(20)))
    assert {first.content} == {other.content for other in others}


async def test_who_may_look(tmp_path):
    async with serve(tmp_path) as world:
        for who, status in (("", 401), ("nobody", 401), ("app", 403)):
            assert status == (await world.ask(who, "/v1/admin/summary")).status_code


FORWARDED: tuple[dict[str, str], ...] = (
    {},  # as a bare `proxy_pass` does, and Caddy, HAProxy and Vite unless they are told to
    {"x-real-ip": "203.0.113.7"},
    {"x-forwarded-for": "203.0.113.7"},
    {"x-forwarded-for": "unknown"},
    {"host": "localhost", "x-forwarded-for": "127.0.0.1"},
)


@pytest.mark.parametrize("auth", [None, "none"])
async def test_without_keys_operators_need_the_one_for_this_run(tmp_path, monkeypatch, auth):
    (tmp_path / "admin.html").write_text("<!doctype html><title>admin</title>")
    monkeypatch.setattr(application, "static_folder", lambda: tmp_path)
    async with serve_relay(**({} if auth is None else {"auth": auth})) as relay:
        page = await relay.client.get("/admin")
        assert (200, "text/html; charset=utf-8") == (page.status_code, page.headers["content-type"])
        assert "script-src 'self';" in page.headers["content-security-policy"]
        begun = await relay.client.post("/v1/chat", json=HELLO, headers={"prefer": "respond-async"})
        asked: list[tuple[str, Any, int]] = [
            ("/v1/admin/summary", None, 200),
            (f"/v1/streams/{begun.json()['id']}/events?uncounted", None, 200),
        ]
        wrong = {"authorization": "Bearer ssk_wrong"}
        for path, body, status in asked:
            method = "GET" if body is None else "POST"
            for headers in (*FORWARDED, wrong):
                reply = await relay.client.request(method, path, json=body, headers=headers)
                assert 401 == reply.status_code
                assert "operator's key" in reply.json()["detail"]
                assert "Bearer" in reply.headers["www-authenticate"]
            reply = await relay.client.request(method, path, json=body, headers=relay.operator)
            assert status == reply.status_code


async def test_without_admin_there_is_nothing(tmp_path):
    async with serve(tmp_path, admin=False) as world:
        for path in ("/v1/admin/summary", "/admin"):
            assert 404 == (await world.ask("boss", path)).status_code


async def test_records_and_log_are_named(tmp_path):
    place = f"sqlite:///{tmp_path}/records.db"
    async with serve(tmp_path, records=place, log=f"sqlite:///{tmp_path}/log.db") as world:
        found = await world.look()
    assert ("sqlite", 0) == (found["records"], found["rows_waiting"])
    assert "sqlite" == found["log"]
