"""The soak of our relay: short, for what it finds."""

from dataclasses import replace

import pytest

from bench import soak
from bench.measures import Plan
from bench.soak import Held

pytestmark = pytest.mark.proving

HELD = Held(memory=50_000, files=10, tasks=2, objects=60_000, stored=500, rows=3)


def test_nothing_stays_of_streams_that_are_over(load, core, monkeypatch, capsys):
    monkeypatch.setattr(soak, "REMEMBERED_S", 1)
    monkeypatch.setattr(soak, "SPARE_S", {"memory": -1, "sqlite": 2})
    plan = Plan(parts=("memory", "sqlite"))
    row = soak.run(load, core, plan, streams=600, batches=4, retention_s=0.5)

    assert [] == row.complaints, capsys.readouterr().out
    figures = {name: values[0] for name, values in row.rounds.items()}
    assert (600, 0) == (figures["memory_streams"], figures["memory_rows_end"])
    assert figures["sqlite_stored_end"] > 0
    assert figures["sqlite_rows_end"] < 10
    assert ["| memory | 600 |", "| sqlite | 600 |"] == [
        line[:16] for line in soak.summarize(figures).splitlines()
    ]


def test_a_leak_is_named():
    after = Held(memory=80_000, files=12, tasks=3, objects=90_000, stored=9000, rows=200)

    assert [] == soak.leaks([HELD] * 5)
    assert [
        "memory grew from 50000 to 80000",
        "files grew from 10 to 12",
        "tasks grew from 2 to 3",
        "objects grew from 60000 to 90000",
        "stored grew from 500 to 9000",
        "rows grew from 3 to 200",
    ] == soak.leaks([HELD] * 4 + [after])


def test_what_settles_late_may_grow_a_little():
    assert [] == soak.leaks([HELD] * 4 + [replace(HELD, memory=53_000, objects=60_500, rows=9)])
