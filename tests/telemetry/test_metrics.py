"""`/metrics`: what is counted is what clients saw, and no label is what they typed."""

import contextlib
import os
import re
import signal
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from app.composition import build_upstreams
from app.errors import CODES, RelayError
from app.eventlog.stream_ended import StreamEnded
from app.eventlog.stream_info import StreamInfo
from app.events import ErrorInfo, StreamEnd, TokenCounts
from app.identity.principal import Principal
from app.ledger.config import LedgerConfig, LimitsConfig, PriceConfig, UsageLimits
from app.settings import load_settings
from app.telemetry import metrics, shared_counters
from app.telemetry.activity import Load
from app.telemetry.families import FAMILIES
from app.telemetry.metrics import LabelNames, Metrics
from app.telemetry.observer import Refused
from app.telemetry.shared_counters import LONGEST, SharedCounters
from app.testing.upstream import DONE, FINISH, Hold, head, send, serve_upstream, text
from tests import waiting
from tests.clock import Clock
from tests.commands.test_command import ask, running
from tests.identities import bearer, known
from tests.serving import HELLO, Relay, chat, serve_relay

ROOT = Path(__file__).parents[2]
TABLE = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
HI = [head(), send(text("hi") + FINISH + DONE)]

ADMIN = Principal("", "", "a", roles=frozenset(["admin"]))
WHOSE = ("relay", "tenant:shop")

Series = tuple[str, frozenset[tuple[str, str]]]


def parse(shown: str) -> dict[Series, float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(shown)
        for sample in family.samples
    }


async def scrape(relay: Relay, **headers: str) -> dict[Series, float]:
    reply = await relay.client.get("/metrics", headers=headers)
    assert 200 == reply.status_code, reply.text
    return parse(reply.text)


def total(found: Mapping[Series, float], metric: str, **labels: str) -> float:
    """Add up the series of a metric that have these labels."""
    return sum(
        value
        for (name, those), value in found.items()
        if name == metric and labels.items() <= dict(those).items()
    )


IDLE = Load(
    streams=0,
    readers=0,
    draining=False,
    log_healthy=True,
    log_streams=0,
    log_bytes=0,
    request_bytes=0,
    breakers=[],
)


def build(**environ: str) -> Metrics:
    """Metrics of a relay that nobody asks."""
    settings = load_settings({"SESERAGI_DEMO": "true", **environ})
    names = LabelNames(build_upstreams(settings, None))
    return Metrics(names, process=os.getpid())


async def shown(measured: Metrics) -> dict[Series, float]:
    return parse((await measured.render()).decode())


def ended(record: StreamInfo, end: StreamEnd, **more: Any) -> StreamEnded:
    usual: Any = {"events": 1, "started_at": 0.0, "ended_at": 1.0, "duration_s": 1.0}
    return StreamEnded(info=record, end=end, **{**usual, **more})


async def test_counters_are_what_the_client_saw():
    async with serve_upstream() as upstream, serve_relay(upstream, attempts=2) as relay:
        upstream.script = HI
        streams = []
        for _ in range(3):
            async with relay.client.stream("POST", "/v1/chat", json=HELLO) as reply:
                await reply.aread()
                streams.append(reply.headers["stream-id"])
        openai = {"model": "openai/m", **HELLO, "stream": True}
        assert 200 == (await relay.client.post("/v1/chat/completions", json=openai)).status_code
        resumed = await relay.client.get(f"/v1/streams/{streams[0]}/events?after=2")
        assert 200 == resumed.status_code
        for said in ("one", "another"):
            body = {**HELLO, "model": said}
            refused = await relay.client.post(
                "/v1/chat", json=body, headers={"idempotency-key": "k"}
            )
        upstream.script = [head("503 Busy"), send("{}")]
        failed = await relay.client.post("/v1/chat", json=HELLO)
        upstream.script = [head(), send(text("so far")), Hold()]
        async with relay.client.stream("POST", "/v1/chat", json=HELLO) as reply:
            running = await scrape(relay)
            stopped = await relay.client.post(f"/v1/streams/{reply.headers['stream-id']}/cancel")
            await reply.aread()
        lost = await relay.client.get("/nowhere")
        found = await scrape(relay)

    assert [503, 202, 422, 404] == [r.status_code for r in (failed, stopped, refused, lost)]
    ends = "seseragi_streams_ended_total"
    assert 5 == total(found, ends, status="completed", code="none", route="openai")
    assert 1 == total(found, ends, status="failed", code=failed.json()["code"])
    assert 1 == total(found, ends, status="cancelled")
    assert 7 == total(found, ends)
    started = "seseragi_streams_started_total"
    assert 6 == total(found, started, route="openai", client_format="native")
    assert 1 == total(found, started, route="openai", client_format="openai_chat")
    assert 1 == total(found, "seseragi_refusals_total", code="idempotency_mismatch")
    assert 1 == total(found, "seseragi_refusals_total")
    assert 1 == total(found, "seseragi_retries_total")
    assert 0 == total(found, "seseragi_fallbacks_total")
    attempts = "seseragi_attempts_total"
    assert 2 == total(found, attempts, outcome="upstream_overloaded")
    assert 5 == total(found, attempts, outcome="completed")
    assert 8 == total(found, attempts)
    assert 1 == total(found, "seseragi_resumes_total")
    assert 6 == total(found, "seseragi_time_to_first_event_seconds_count", route="openai")
    assert 7 == total(found, "seseragi_stream_duration_seconds_count", route="openai")
    assert 6 == total(found, "seseragi_longest_gap_seconds_count")
    assert 1 == total(running, "seseragi_streams_running") == total(running, "seseragi_readers")
    assert 0 == total(found, "seseragi_streams_running") == total(found, "seseragi_readers")
    answers = "seseragi_http_requests_total"
    assert 5 == total(found, answers, endpoint="/v1/chat", method="POST", status="200")
    assert 1 == total(found, answers, endpoint="/v1/chat", status="503")
    assert 1 == total(found, answers, endpoint="/v1/streams/{stream}/cancel", status="202")
    assert 1 == total(found, answers, endpoint="none", status="404")
    assert 1 == total(found, answers, endpoint="/metrics")  # this one's is not yet


async def test_routes_targets_tokens_and_money():
    measured = build()
    record = StreamInfo("st_1", route="demo", client_format="native")
    usage = TokenCounts(10, 20, cached_input_tokens=3, reasoning_tokens=0)
    times = {"first_event_s": 0.3, "duration_s": 40.0, "longest_gap_s": 0.2}
    end = StreamEnd("completed", "stop", usage, cost="0.0125")
    for _ in range(2):
        measured.ended(ended(record, end, target="demo/demo", **times))
    found = await shown(measured)

    for kind, count in (("input", 20), ("output", 40), ("cached_input", 6), ("reasoning", 0)):
        assert count == total(found, "seseragi_tokens_total", target="demo/demo", kind=kind)
    assert 0.025 == total(found, "seseragi_cost_usd_total", route="demo", target="demo/demo")
    assert 0 == total(found, "seseragi_streams_unpriced_total")
    buckets = "seseragi_stream_duration_seconds_bucket"
    assert [0, 2, 2] == [total(found, buckets, le=le) for le in ("30.0", "60.0", "+Inf")]
    assert 80 == total(found, "seseragi_stream_duration_seconds_sum")


async def test_scanner_makes_no_series(monkeypatch):
    """Models, paths, methods, formats and users that nobody has named in the settings."""
    mine = {"all": Principal("", "", "m", roles=frozenset(["metrics"]))}
    who = {f"u{n}": Principal(f"t{n}", f"u{n}", f"k{n}") for n in range(10)}

    async def walk(relay: Relay, start: int) -> None:
        async def ask(number: int) -> None:
            odd = f'x{number}\u2028\x1b[31m"}}\n'
            name = bearer(f"u{number % 10}")
            for model in (odd, f"openai/{odd}", f"demo/{odd}", f"openai/m{number}"):
                await relay.client.post("/v1/chat", json={**HELLO, "model": model}, headers=name)
            for path in (f"/{number}", f"/v1/streams/st_{number}/events", f"/v1/models/m{number}"):
                await relay.client.get(path, headers=name)
            await relay.client.request(f"M{number}", f"/v1/chat/{number}", headers=name)
            await relay.client.get(
                "/metrics", headers={"accept": odd.encode().decode("latin-1", "replace")[:1]}
            )

        for number in range(start, start + 10):
            await ask(number)
        await idle(relay)

    async with (
        serve_upstream() as upstream,
        serve_relay(upstream, authenticator=known(**mine, **who)) as relay,
    ):
        upstream.script = HI
        await scrape(relay, **bearer("all"))
        await Clock(monkeypatch).pass_(metrics.BEAT_S)  # the loop's lag has its series
        await walk(relay, 0)
        before = set(await scrape(relay, **bearer("all")))
        await walk(relay, 1000)
        found = await scrape(relay, **bearer("all"))

    assert before == set(found)
    assert 80 == total(found, "seseragi_streams_ended_total", route="openai", status="completed")
    shown_names = repr(sorted(map(repr, found)))
    assert [] == re.findall(r"x1\d|u\d+|m1\d+\b|M\d|2028|x1b", shown_names)


async def test_what_older_settings_and_newer_relays_say_makes_no_series():
    measured = build(OPENAI_API_KEY="k")
    before = len(await shown(measured))
    counts = []
    for number in range(3):
        name = f"gone-{number}"
        record = StreamInfo("st_1", route=f"{name}/m", client_format=name)
        error = ErrorInfo(name, "no", retryable=False)
        unknown: Any = name
        measured.started(record)
        end = StreamEnd(unknown, "error", None, error)
        measured.ended(ended(record, end, target=f"{name}/{name}"))
        measured.answered(None, name, 9999)
        measured.logged(name)
        counts.append(len(await shown(measured)))

    assert before < counts[0] == counts[1] == counts[2]
    assert "gone-" not in repr(await shown(measured))


async def test_table_of_the_document_is_what_is_served():
    rows = [row.split("|") for row in TABLE.splitlines() if row.startswith("| `seseragi_")]
    documented = {
        name.strip(" `"): frozenset(re.findall(r"`(\w+)`", labels)) for _, name, labels, *_ in rows
    }
    served = {
        f"{one.name}_total" if one.kind == "counter" else one.name: frozenset(one.labels)
        for one in FAMILIES
    }
    names = LabelNames(build_upstreams(load_settings({}), None))
    measured = Metrics(names, process=os.getpid(), rows_waiting=lambda: 3)
    for family in FAMILIES:
        if family.kind == "histogram":
            measured._observe(family, 1, *family.labels)
        else:
            measured._add(family, *family.labels)
    found = {
        re.sub("_(bucket|sum|count)$", "", name): frozenset(dict(labels)) - {"le"}
        for name, labels in (await shown(measured))
    }

    assert documented == found
    assert served.items() <= found.items()
    assert all("{" not in family.help for family in FAMILIES)
    assert max(family.size for family in FAMILIES) <= LONGEST  # a series without room has them


async def test_metrics_are_for_their_role():
    mine = {
        "me": Principal("t", "me", "k"),
        "maker": Principal("t", "", "c", roles=frozenset(["client_secrets"])),
        "prometheus": Principal("", "", "p", roles=frozenset(["metrics"]), models=()),
        "admin": Principal("", "", "a", roles=frozenset(["admin"])),
    }
    async with serve_relay(authenticator=known(**mine)) as relay:
        told = {
            name: (await relay.client.get("/metrics", headers=bearer(name))).status_code
            for name in (*mine, "nobody")
        }
        refusal = await relay.client.get("/metrics", headers=bearer("me"))
        others = await relay.client.get("/v1/usage?key=k", headers=bearer("prometheus"))

    assert {"me": 403, "maker": 403, "prometheus": 200, "admin": 200, "nobody": 401} == told
    assert "'metrics' or 'admin'" in refusal.json()["detail"]
    assert 403 == others.status_code


async def test_setting_takes_the_metrics_away():
    async with serve_relay(metrics="false", demo_pace=0) as relay:
        await chat(relay, model="demo")
        assert 404 == (await relay.client.get("/metrics")).status_code


async def test_format_is_that_of_prometheus_whatever_is_accepted():
    async with serve_relay() as relay:
        for accept in ("application/openmetrics-text;version=1.0.0,*/*;q=0.1", "*" * 9000):
            plain = await relay.client.get("/metrics", headers={"accept": accept})
        assert 200 == (await relay.client.head("/metrics")).status_code

    assert "text/plain; version=0.0.4; charset=utf-8" == plain.headers["content-type"]
    assert "no-store" == plain.headers["cache-control"]
    assert 1 == total(parse(plain.text), "seseragi_log_healthy")


async def test_breakers_are_told_of_configured_targets_alone():
    async with (
        serve_upstream() as upstream,
        serve_relay(upstream, default_model="openai/m") as relay,
    ):
        upstream.script = [head("500 Broken"), send("{}")]
        for _ in range(4):
            await relay.client.post("/v1/chat", json={**HELLO, "model": "openai/m"})
            await relay.client.post("/v1/chat", json={**HELLO, "model": "openai/typed"})
        found = await scrape(relay)

    state = {
        dict(labels)["state"]: value
        for (name, labels), value in found.items()
        if name == "seseragi_breakers" and dict(labels)["target"] == "openai/m"
    }
    assert {"open": 1, "closed": 0, "half-open": 0} == state
    assert "typed" not in repr(found)


async def test_accounts_with_limits_are_told_and_no_user():
    ledger = LedgerConfig(
        limits=LimitsConfig(
            relay=UsageLimits(usd_per_month=1),
            user=UsageLimits(usd_per_day=1),
            tenants={"shop": UsageLimits(usd_per_day=0.5)},
        ),
        prices=(PriceConfig(target="openai/*", input=0, output=0, request=0.4),),
    )
    me = known(me=Principal("shop", "alice", "k"), admin=ADMIN)
    async with (
        serve_upstream() as upstream,
        serve_relay(upstream, ledger=ledger, authenticator=me) as relay,
    ):
        upstream.script = HI
        asked = await relay.client.post("/v1/chat", json=HELLO, headers=bearer("me"))
        assert 200 == asked.status_code
        found = await scrape(relay, **bearer("admin"))

    told = {
        (
            name.removeprefix("seseragi_account_"),
            *(dict(labels)[n] for n in ("account", "period")),
        ): value
        for (name, labels), value in found.items()
        if name.startswith("seseragi_account_")
    }
    assert told == {
        **{("usd", whose, period): 0.4 for whose in WHOSE for period in ("day", "month")},
        ("usd_limit", "relay", "month"): 1,
        ("usd_limit", "tenant:shop", "day"): 0.5,
    }
    assert "alice" not in repr(found)


async def test_nothing_is_counted_for_a_token():
    """And what a stream costs are few calls: 7 us where a request takes 650."""

    async def count(tokens: int) -> int:
        seen = 0

        def profile(frame: FrameType, event: str, _: object) -> None:
            nonlocal seen
            name = frame.f_code.co_filename
            if event == "call" and name in (metrics.__file__, shared_counters.__file__):
                seen += 1

        async with serve_upstream() as upstream, serve_relay(upstream) as relay:
            upstream.script = [head(), *[send(text("a"))] * tokens, send(FINISH + DONE)]
            await chat(relay)  # the series begin
            await idle(relay)
            sys.setprofile(profile)
            try:
                await chat(relay)
                await idle(relay)
            finally:
                sys.setprofile(None)
        return seen

    few, many = await count(2), await count(100)

    assert few == many
    assert 10 < few < 60


MISTAKES = [
    ("POST", "/v1/chat", {"messages": 7}, "invalid_request"),
    ("POST", "/v1/messages", {**HELLO, "max_tokens": 9, "model": "nope/m"}, "model_not_found"),
    ("POST", "/v1/embeddings", {"model": "demo"}, "invalid_request"),
    ("GET", "/v1/streams/st_unknown/events", None, "not_found"),
]


@pytest.mark.parametrize(("method", "path", "body", "code"), MISTAKES)
async def test_request_that_ends_in_an_error_is_a_refusal(method, path, body, code):
    async with serve_relay(demo=True, passthrough=False) as relay:
        reply = await relay.client.request(method, path, json=body)
        found = await scrape(relay)

    assert reply.is_client_error
    assert 1 == total(found, "seseragi_refusals_total", code=code)
    assert 1 == total(found, "seseragi_refusals_total")


async def idle(relay: Relay) -> None:
    """Wait until nothing is left to be done for what was asked."""
    await waiting.until(
        lambda: not relay.server.server_state.tasks and not relay.hub.load().streams
    )


async def test_loop_that_is_late_is_told(monkeypatch):
    clock, measured = Clock(monkeypatch), build()
    measured.open(lambda: IDLE)

    async def beats() -> tuple[float, float]:
        """Return how many were in time, and how many late."""
        found = await shown(measured)
        count = total(found, "seseragi_event_loop_lag_seconds_count")
        in_time = total(found, "seseragi_event_loop_lag_seconds_bucket", le="0.1")
        return in_time, count - in_time

    await clock.pass_(metrics.BEAT_S)
    assert (1, 0) == await beats()
    await clock.pass_(metrics.BEAT_S + 0.3)
    assert (1, 1) == await beats()
    measured.close()


async def test_full_area_counts_on_what_it_has():
    area = SharedCounters(names_bytes=2600)
    settings = load_settings({})
    measured = Metrics(LabelNames(build_upstreams(settings, None)), [area], process=os.getpid())
    for code in CODES:
        measured.refused(
            Refused(owner="", request_id="r", model=None, error=RelayError(code, "no"))
        )
        measured.answered(f"/{code}", "GET", 200)
    found = await shown(measured)

    assert 1 == total(found, "seseragi_refusals_total", code="invalid_request")
    assert 0 < total(found, "seseragi_http_requests_total") < len(CODES)


async def test_areas_of_workers_add_up_and_forget_what_the_dead_held():
    settings = load_settings({})
    names = LabelNames(build_upstreams(settings, None))
    shared = [SharedCounters(), SharedCounters(), SharedCounters()]
    one, two = (Metrics(names, shared, own, process=os.getpid()) for own in (0, 1))
    for measured, times in ((one, 2), (two, 3)):
        await shown(measured)  # which publishes what it has to say of itself
        for _ in range(times):
            measured.answered("/v1/chat", "POST", 200)
    both = await shown(one)
    shared[1].leave()
    alone = await shown(one)
    again = Metrics(names, shared, 1, process=os.getpid())
    await shown(again)
    again.answered("/v1/chat", "POST", 200)

    def sums(found: Mapping[Series, float]) -> list[float]:
        return [
            total(found, "seseragi_http_requests_total"),
            total(found, "seseragi_workers"),
            sum(name == "seseragi_process_open_fds" for name, _ in found),
        ]

    assert [5, 2, 2] == sums(both)
    assert [5, 1, 1] == sums(alone)
    assert [6, 2, 2] == sums(await shown(one)) == sums(await shown(again))


def get(url: str) -> dict[Series, float]:
    with urllib.request.urlopen(f"{url}/metrics") as reply:
        return parse(reply.read().decode())


def until(
    url: str, metric: str, value: float, *, least: bool = False, **labels: str
) -> dict[Series, float]:
    """Ask until the series of a metric add up to a value, or to that at least."""
    found: dict[Series, float] = {}

    def comes_true() -> bool:
        found.clear()
        found.update(get(url))
        sums = total(found, metric, **labels)
        return sums == value or (least and sums > value)

    waiting.wait_until(comes_true, limit_s=30)
    return found


SLOWLY = [
    *(sys.executable, "-c"),
    "from app import __main__\nfrom app.server import workers\nworkers.FIRST_PAUSE_S = 8\n__main__.main()",
]
"""The command, with so long a pause before a worker is started again that it cannot be missed."""


@pytest.mark.proving
def test_several_workers_give_one_answer_over_kills(tmp_path):
    log = f"sqlite:///{tmp_path}/log.db"
    message = b'"messages":[{"role":"user","content":"hi"}]'
    body, short = b'{"model":"demo-pause",%b}' % message, b'{"max_tokens":9,%b}' % message
    started, ended = "seseragi_streams_started_total", "seseragi_streams_ended_total"
    arguments = ("--workers", "2", "--log", log)
    with running(*arguments, cwd=tmp_path, command=SLOWLY) as (process, url):
        until(url, "seseragi_workers", 2)
        replies = [ask(url, body) for _ in range(6)]
        until(url, "seseragi_streams_running", 6)
        for reply in replies[:3]:
            reply.close()
        for reply in replies:
            path = f"{url}/v1/streams/{reply.headers['stream-id']}/cancel"
            urllib.request.urlopen(urllib.request.Request(path, method="POST")).close()
        for reply in replies[3:]:
            assert b"stream.end" in reply.read()
        assert [6.0] * 10 == [total(get(url), started) for _ in range(10)]
        until(url, "seseragi_stream_duration_seconds_count", 6)
        before = until(url, ended, 6)
        warnings = total(before, "seseragi_log_lines_total", level="warning")
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(children[0]), signal.SIGKILL)
        after = until(url, "seseragi_workers", 1)
        assert 1 == sum(name == "seseragi_process_open_fds" for name, _ in after)
        for metric in (started, ended, "seseragi_stream_duration_seconds_count"):
            assert 6 == total(before, metric) == total(after, metric)
        # The parent's.
        until(url, "seseragi_log_lines_total", warnings + 1, level="warning", least=True)
        for _ in range(2):
            ask(url, short).close()
        until(url, "seseragi_workers", 2)
        assert {8.0} == {total(until(url, started, 8), started) for _ in range(5)}
        process.send_signal(signal.SIGTERM)
        assert 0 == process.wait(60)


@pytest.mark.proving
def test_streams_that_the_start_ends_are_counted(tmp_path):
    log = f"sqlite:///{tmp_path}/log.db"
    body = b'{"model":"demo-long","messages":[{"role":"user","content":"hi"}]}'
    with running("--workers", "2", "--log", log, cwd=tmp_path) as (process, url):
        reply = ask(url, body)
        reply.read(300)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.kill()
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(child), signal.SIGKILL)
    with running("--workers", "2", "--log", log, cwd=tmp_path) as (process, url):
        until(url, "seseragi_streams_orphaned_total", 1)
        until(url, "seseragi_streams_ended_total", 1, code="producer_lost")
