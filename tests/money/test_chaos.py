"""The books are right whatever becomes of streams and relays; `chaos.py` is the long run of it."""

import pytest

from tests.money.chaos import Storm

pytestmark = pytest.mark.proving

LOGS = ("memory", "workers", "redis")


@pytest.mark.parametrize("log", LOGS)
async def test_books_agree_with_the_provider_whatever_happens(log, tmp_path):
    storm = Storm(log, tmp_path, streams=40, seed=1, at_once=30, pause_s=1)
    await storm.run()

    assert [] == storm.verdict.faults, str(storm.verdict)
    assert storm.verdict.streams


async def test_database_that_goes_and_comes_has_one_row_for_each_stream(tmp_path):
    """The rows are those of the records; the accounts are those that an admin is told of."""
    storm = Storm(
        "redis-aof",
        tmp_path,
        streams=40,
        seed=2,
        at_once=20,
        pause_s=1,
        fsync="always",
        skew=1.3,
        records=True,
        asks=True,
    )
    await storm.run()

    assert [] == storm.verdict.faults, str(storm.verdict)
    assert storm.verdict.streams
