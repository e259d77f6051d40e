"""A day in virtual time: nothing grows, and what would is found."""

from typing import Any

import pytest

from app.eventlog.memory import MemoryLog
from app.eventlog.redis import orphans
from app.eventlog.sqlite.database import Database
from tests.simulation.day import LOGS, grown, run_day

pytestmark = pytest.mark.proving

FEW = {"streams": 96, "hours": 24}
SHORT = {"streams": 120, "hours": 10}


@pytest.mark.parametrize("log", LOGS)
def test_nothing_grows_in_a_day(log: str) -> None:
    day = run_day(log, **FEW)

    assert [] == grown(day, **FEW)
    assert day.created > 0.8 * FEW["streams"]


@pytest.mark.parametrize(
    ("log", "place", "name", "leak", "grows"),
    [
        (
            "memory",
            MemoryLog,
            "_forget_names",
            lambda *_: None,
            "entries of eventlog.memory.MemoryLog._named",
        ),
        ("sqlite", Database, "purge", lambda _: False, "rows of infos"),
        ("redis", orphans, "REMEMBERED_S", 40 * 86_400, "keys seseragi:*:meta"),
    ],
)
def test_what_is_never_removed_is_found(
    log: str, place: Any, name: str, leak: Any, grows: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place, name, leak)

    found = grown(run_day(log, **SHORT), **SHORT)

    assert [one for one in found if one.startswith(f"{grows}: ")]
