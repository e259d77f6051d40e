"""The contract of a log with waiting rows: settling adds one, and it stays until it is forgotten.

A test module of a log imports `*` from here too; see `contract`.
"""

import pytest

from app.errors import RelayError
from app.eventlog.waiting_rows import RECORDS, RowQueues
from app.events import TextDelta
from app.ledger.accounts import Settlement
from tests.eventlog.accounts_contract import BEGUN, asking, closing, info, run
from tests.waiting import until

HOOK, OTHER_HOOK = "webhook:a", "webhook:b"
QUEUES = (RECORDS, HOOK, OTHER_HOOK)
"""Of the logs of the contract."""


@pytest.fixture
def waiting(event_log) -> RowQueues:
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


async def test_each_consumer_has_its_own_rows(event_log, waiting):
    for number in range(3):
        spent = Settlement(1, 1, 1, row=b"row %d" % number)
        await run(event_log, f"st_{number}", asking(), spent)
    rows = [(f"st_{n}", b"row %d" % n) for n in range(3)]

    await waiting.forget_rows(["st_0"])
    await waiting.forget_rows(["st_1"], queue=HOOK)
    assert rows[1:] == await waiting.rows(limit=9)
    assert [rows[0], rows[2]] == sorted(await waiting.take_rows(HOOK, limit=9, for_s=60))
    assert rows == sorted(await waiting.take_rows(OTHER_HOOK, limit=9, for_s=60))
    counts = [await waiting.count_rows(), *[await waiting.count_rows(q) for q in QUEUES[1:]]]
    assert [2, 2, 3] == counts


async def test_oldest_rows_are_taken_first_and_only_once(event_log, waiting):
    for number in range(4):
        await run(event_log, f"st_{number}", asking())

    taken = [await waiting.take_rows(HOOK, limit=2, for_s=60) for _ in range(3)]
    assert [{"st_0", "st_1"}, {"st_2", "st_3"}, set()] == [{s for s, _ in some} for some in taken]
    assert 4 == await waiting.count_rows(HOOK)


async def test_row_that_its_taker_neither_forgets_nor_puts_back_is_due_again(event_log, waiting):
    await run(event_log, "st_1", asking())
    assert [("st_1", b"row")] == await waiting.take_rows(HOOK, limit=9, for_s=0.05)

    await until(lambda: waiting.take_rows(HOOK, limit=9, for_s=60))
    assert [] == await waiting.take_rows(HOOK, limit=9, for_s=60)


async def test_row_that_is_put_back_is_due_later_as_it_is_then(event_log, waiting):
    await run(event_log, "st_1", asking())
    await waiting.take_rows(HOOK, limit=9, for_s=60)
    await waiting.put_back_row(HOOK, "st_1", b"second", after_s=60)
    assert [] == await waiting.take_rows(HOOK, limit=9, for_s=60)
    await waiting.put_back_row(HOOK, "st_1", b"third", after_s=0)

    assert [("st_1", b"third")] == await waiting.take_rows(HOOK, limit=9, for_s=60)
    assert [("st_1", b"row")] == await waiting.rows(limit=9)


async def test_forgotten_row_cannot_be_put_back(event_log, waiting):
    await run(event_log, "st_1", asking())
    await waiting.take_rows(HOOK, limit=9, for_s=60)
    await waiting.forget_rows(["st_1"], queue=HOOK)
    await waiting.put_back_row(HOOK, "st_1", b"again", after_s=0)

    assert [] == await waiting.take_rows(HOOK, limit=9, for_s=60)
    assert 0 == await waiting.count_rows(HOOK)
