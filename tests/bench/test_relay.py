"""The benchmark on our relay: short, for what it finds, not for how fast it is."""

from dataclasses import replace

import pytest

from bench.measures import Plan, measure
from bench.relays import VARIANTS, own, peer, started
from tests.needs import program

pytestmark = pytest.mark.proving


def test_a_round_finds_no_fault_in_our_relay_however_it_is_set_up(load, core, monkeypatch):
    monkeypatch.setattr("bench.measures.DENSE_STREAMS", 20)
    program("redis-server")
    plan = Plan(rounds=1, seconds=0.5, request_seconds=0.2, parts=("requests", "light"))
    rows = measure([own("native", path="/v1/chat"), *map(peer, VARIANTS)], load, core, plan)
    rows += measure([own()], load, core, replace(plan, parts=("requests", "light", "dense")))

    for row in rows:
        assert [] == row.complaints
        assert {"request_us", "first_p99_ms", "light_p50_ms"} <= row.rounds.keys()
    assert {"dense_us", "added_p999_ms"} <= rows[-1].rounds.keys()


def test_further_readers_and_replays_get_every_token(load, core):
    with started(own(path="/v1/chat"), load.upstream_port, core) as target:
        once = {"streams": 4, "requests": 4, "tokens": 8, "warmup_requests": 0}
        read = load("work", target, **once, readers=3, rate=20, spread=0.1)
        replayed = load("replay", target, tokens=2000, requests=2)

    assert ("", "") == (read.complaint, replayed.complaint)
    # The load program looks at the number of every token that any of the readers gets.
    assert {"missing", "repeated"} <= read.errors.keys()
    assert {0} == set(read.errors.values())
    assert (4 * 8, 4 * 4 * 8) == (read.written, read.tokens)  # each stream has four readers
    assert 4000 == replayed.tokens


def test_readers_of_a_dead_upstream_are_told(load, core):
    relay = own(path="/v1/chat", idle_timeout_s="0.3")
    with started(relay, load.upstream_port, core) as target:
        results = {
            act: load("dead", target, act=act, streams=3, rate=200, spread=0)
            for act in ("die", "reset", "quiet")
        }

    assert {"die": 3, "reset": 3, "quiet": 3} == {act: r.told for act, r in results.items()}
    assert 290 <= results["quiet"].noticed_ms.p50 < 20_000  # by default it would be 60 s
