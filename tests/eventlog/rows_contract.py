"""The contract of a log with waiting rows: settling adds one, and it stays until it is forgotten.

A test module of a log imports `*` from here too; see `contract`.
"""

import pytest

from app.errors import RelayError
from app.eventlog.waiting_rows import WaitingRows
from app.events import TextDelta
from app.ledger.accounts import Settlement
from tests.eventlog.accounts_contract import BEGUN, asking, closing, info, run


@pytest.fixture
def waiting(event_log) -> WaitingRows:
    """The rows of the log; it has them itself, unless its module has another fixture."""
    return event_log


async def test_rows_are_kept_until_they_are_forgotten(event_log, waiting):
    for number in range(5):
        spent = Settlement(1, 1, 1, row=b"row %d" % number)
        await run(event_log, f"st_{number}", asking(), spent)
    rows = await waiting.rows(limit=3)
    assert [(f"st_{n}", b"row %d" % n) for n in range(3)] == rows
    assert rows == await waiting.rows(limit=3)
    assert 5 == await waiting.count_rows()
    await waiting.forget_rows(["st_0", "st_2", "st_9"])
    assert ["st_1", "st_3", "st_4"] == [stream for stream, _ in await waiting.rows(limit=9)]
    assert 3 == await waiting.count_rows()


async def test_rows_outlast_their_streams(event_log, waiting, clock):
    await run(event_log, "st_1", asking())
    clock.now += 1000
    with pytest.raises(RelayError):
        await event_log.state("st_1")
    assert [("st_1", b"row")] == await waiting.rows(limit=9)


async def test_stream_that_never_began_has_no_row(event_log, waiting):
    await event_log.create(info("st_1", asking()))
    await event_log.delete("st_1")
    assert [] == await waiting.rows(limit=10)


async def test_stream_that_is_removed_while_it_runs_has_a_row(event_log, waiting, callbacks):
    callbacks.close = closing
    await event_log.create(info("st_1", asking()))
    await event_log.append("st_1", [BEGUN, TextDelta(0, "12345678")])
    await event_log.delete("st_1")
    assert [("st_1", b"st_1")] == await waiting.rows(limit=10)
