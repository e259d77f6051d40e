"""The benchmark of the Redis log: short, for what it counts, not for how fast it is."""

import pytest

from bench import redis
from bench.measures import Plan
from tests.needs import program

pytestmark = pytest.mark.proving


@pytest.fixture(autouse=True)
def small(monkeypatch):
    program("redis-server", "valkey-server")
    monkeypatch.setattr(redis, "DENSE_STREAMS", 20)
    monkeypatch.setattr(redis, "READ_STREAMS", 20)
    monkeypatch.setattr(redis, "KEPT_STREAMS", 20)
    monkeypatch.setattr(redis, "PACE", {"rate": 20, "spread": 0.1, "warmup": 0.1})


def test_cost_and_counts_of_a_token_are_found(load, core, capsys):
    plan = Plan(rounds=1, seconds=1, parts=("owner", "memory"))
    row = redis.run(load, core, plan)
    found = {name: values[0] for name, values in row.rounds.items()}

    assert [] == row.complaints
    # An XADD and, for the stream of each script, an HMGET and an HSET.
    assert 1 < found["commands"] < 6
    assert 0 < found["scripts"] <= 1
    assert 40 < found["event_bytes"] < 200
    assert 0 < found["stream_bytes"]
    assert "that over the log in memory: " in capsys.readouterr().out


def test_readers_at_another_relay_get_every_token(load, core):
    for _ in range(5):  # a relay that stands still while it is measured takes no time
        row = redis.run(load, core, Plan(rounds=1, seconds=0.5, parts=("elsewhere",)))
        assert [] == row.complaints
        if row.rounds["elsewhere_us"][0] > 0:
            break

    assert row.rounds["elsewhere_us"][0] > 0
