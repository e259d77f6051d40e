"""The benchmark of readers: short, for what it checks, not for how fast it is."""

from pathlib import Path

import pytest

from bench import readers
from bench.measures import Plan

pytestmark = pytest.mark.proving


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(readers, "READERS", (1, 7))
    monkeypatch.setattr(readers, "SECONDS", 0.5)
    monkeypatch.setattr(readers, "WARM_UP", 2)


def test_each_server_and_number_of_readers_is_measured(load, core, capsys):
    nchan = ("nchan",) if Path(readers.MODULE).exists() else ()
    row = readers.run(load, core, Plan(rounds=1, parts=(*nchan, "memory", "sqlite")))

    assert [] == row.complaints
    figures = {name: values[0] for name, values in row.rounds.items()}
    assert 2 * 2 * (2 + len(nchan)) == len(figures)
    assert all(value > 0 for value in figures.values())
    assert f"{figures['memory_7_us']:.1f}; " in capsys.readouterr().out


def test_a_server_that_sends_nothing_is_a_fault(load, core, monkeypatch):
    monkeypatch.setattr(readers, "_token", lambda number: b": nothing\n\n")
    monkeypatch.setattr(readers, "READERS", (1,))
    row = readers.run(load, core, Plan(rounds=1, parts=("memory",)))

    assert "10 events were not read" in row.complaints[0]
