"""The load generator: what it counts is what came, and it notices every way to get it wrong."""

import json
import subprocess

import pytest

from bench.load import Load, Result, Target, Unavailable, build
from tests.bench.relays import END, answering

pytestmark = pytest.mark.proving

ONCE = {"streams": 1, "requests": 1, "tokens": 3, "warmup_requests": 0}


@pytest.fixture
def direct(load: Load) -> Target:
    """No relay: the clients speak to the upstream."""
    return Target(load.upstream_port, None)


def nothing_wrong(result: Result) -> bool:
    return result.complaint == ""


def test_every_token_of_every_stream_is_counted(load, direct):
    result = load("work", direct, streams=5, requests=40, tokens=30, warmup_requests=0, spread=0)

    assert nothing_wrong(result)
    assert (40, 1200, 1200) == (result.requests, result.tokens, result.written)


@pytest.mark.parametrize("options", [{"size": 300_000}, {"slice": 1}, {"size": 5000, "slice": 7}])
def test_tokens_of_any_size_and_cut_arrive_whole(load, direct, options):
    result = load("work", direct, **ONCE, **options)

    assert nothing_wrong(result)
    assert 3 == result.tokens


def test_paced_streams_keep_their_rate(load, direct):
    for _ in range(5):  # a machine that stands still for a moment keeps none, and catches up
        result = load("paced", direct, streams=20, rate=50, seconds=0.5, spread=0.1, warmup=0.1)
        assert nothing_wrong(result)
        if 400 <= result.tokens <= 600:
            break

    assert pytest.approx(500, rel=0.2) == result.tokens
    assert 0 < result.added_ms.p50 <= result.added_ms.p99 <= result.added_ms.max


def test_a_flood_is_faster_than_any_pace(load, direct):
    result = load("flood", direct, streams=4, seconds=0.2, spread=0, warmup=0.1)

    assert nothing_wrong(result)
    assert (
        result.tokens > 2000 * result.seconds
    )  # the paces of these tests are up to 1,000 a second


@pytest.mark.parametrize("act", ["die", "reset"])
def test_the_end_of_a_dead_upstream_is_noticed(load, direct, act):
    result = load("dead", direct, act=act, streams=5, rate=200, spread=0)

    assert (5, 5, 0) == (result.requests, result.cut, result.told)
    assert result.noticed_ms.n == 5


def test_the_most_streams_are_found_up_to_a_bound(load, direct):
    options = {"streams": 4, "max_streams": 10, "seconds": 0.2, "spread": 0.1, "warmup": 0.1}
    result = load("search", direct, **options, p99_ms=10_000)

    assert 10 == result.streams


def test_clients_may_leave_in_the_middle(load, direct):
    result = load("work", direct, **{**ONCE, "tokens": 1000}, rate=100, leave=2)

    assert nothing_wrong(result)
    # Usually 2; what falls due while the machine stands still is written at once, then read.
    assert 2 <= result.tokens < 1000


@pytest.mark.parametrize(
    ("error", "numbers", "how"),
    [
        ("missing", [0, 2], {}),
        ("repeated", [0, 1, 1, 2], {}),
        ("repeated", [0, 2, 1], {}),
        ("foreign", [0], {"other": 8192}),
        ("unended", [0, 1, 2], {"end": ""}),
    ],
)
def test_a_relay_that_lies_is_found_out(load, error, numbers, how):
    with answering(numbers, **how) as target:
        result = load("work", target, **ONCE)

    assert result.errors[error] >= 1
    assert error in result.complaint


def test_a_relay_that_tells_the_truth_is_believed(load):
    with answering([0, 1, 2], end=END) as target:
        assert nothing_wrong(load("work", target, **ONCE))


def test_a_relay_that_is_not_there_is_an_error_that_says_so(load):
    result = load("work", Target(1, None), **ONCE)

    assert "Connection refused" in result.complaint


def test_it_prints_one_json_object(load, direct):
    words = [load.program, "work", "--listen", str(direct.port), "--relay", str(direct.port)]
    words += ["--requests", "2", "--tokens", "1", "--spread", "0"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)

    assert {"tokens": 2, "requests": 2}.items() <= json.loads(done.stdout).items()


def test_a_missing_compiler_is_named_with_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr("bench.load.BUILT", tmp_path / "built")
    monkeypatch.setenv("CC", "no-such-compiler")

    with pytest.raises(Unavailable, match="apt-get install gcc"):
        build()
