"""What a Redis has of an earlier format is carried on; a later format is refused with a remedy."""

import pytest

from app.eventlog.contract import Claim, LogUnusable
from app.eventlog.redis import failures
from app.eventlog.redis.account_scripts import FORMAT, FORMAT_KEY
from app.eventlog.stream_info import scoped
from app.events import TextDelta
from tests.eventlog.accounts_contract import closing, state_of
from tests.eventlog.conftest import server, shared  # noqa: F401
from tests.eventlog.redis_logs import opened, read_to_end
from tests.upgrades.make import FORMATS, ROW, clock, end_of, load_redis

pytestmark = pytest.mark.proving

FIXTURES = sorted(FORMATS.glob("redis-*.jsonl"))


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda file: file.stem)
async def test_nothing_of_an_earlier_format_is_lost(server, fixture):  # noqa: F811
    await load_redis(server.url, fixture)
    async with opened(server.url, lease_s=0.6, wall=clock, close=closing) as event_log:
        assert Claim("st_done", "d") == await event_log.claimed(scoped("acme/ann", "k"))
        assert ("st_done", ROW) in await event_log.rows(limit=9)
        ended = await read_to_end(event_log, "st_done")
        assert (TextDelta(0, "hello"), "completed") == (ended[1], end_of(ended).status)
        ended = await read_to_end(event_log, "st_runs")
        assert (TextDelta(0, "hal"), "interrupted") == (ended[1], end_of(ended).status)
        state = await state_of(event_log, "user:acme:ann")
        assert 0 == state.running
    assert (2, 0) == (state.day.requests, state.day.held_nano_usd)
    assert 1500 < state.month.nano_usd == state.day.nano_usd


async def test_older_relay_says_what_to_do_about_a_newer_format(server):  # noqa: F811
    server.ask("SET", FORMAT_KEY, str(FORMAT + 1))
    with pytest.raises(LogUnusable) as caught:
        async with opened(server.url):
            pass
    assert str(caught.value) == (
        f"log: this Redis has format {FORMAT + 1}, this version reads {FORMAT}: a newer version of "
        "seseragi uses it; start that version, or use another database"
    )


async def test_newer_relay_marks_the_format_and_the_older_ones_go_on(server, monkeypatch):  # noqa: F811
    async with opened(server.url) as older:
        assert b"$1\r\n%d\r\n" % FORMAT == server.ask("GET", FORMAT_KEY)
        monkeypatch.setattr(failures, "FORMAT", FORMAT + 1)
        async with opened(server.url):
            assert b"$1\r\n%d\r\n" % (FORMAT + 1) == server.ask("GET", FORMAT_KEY)
            assert older.healthy()
