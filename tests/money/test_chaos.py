"""The books are right whatever becomes of streams and relays; `chaos.py` is the long run of it."""

import pytest

from tests.money.chaos import Storm

PROVING = pytest.mark.proving


@pytest.mark.parametrize(
    "log", ["memory", *(pytest.param(log, marks=PROVING) for log in ("workers", "redis"))]
)
async def test_books_agree_with_the_provider_whatever_happens(log, tmp_path):
    storm = Storm(log, tmp_path, streams=40, seed=1, at_once=30, pause=6)
    await storm.run()

    assert [] == storm.verdict.faults, str(storm.verdict)
    assert storm.verdict.streams


@PROVING
async def test_database_that_goes_and_comes_has_one_row_for_each_stream(tmp_path):
    storm = Storm(
        "redis-aof",
        tmp_path,
        streams=40,
        seed=2,
        at_once=20,
        pause=6,
        fsync="always",
        skew=1.3,
        postgres=True,
    )
    await storm.run()

    assert [] == storm.verdict.faults, str(storm.verdict)
    assert storm.verdict.streams
