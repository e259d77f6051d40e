"""The benchmark of resumes: short, for what it checks, not for how fast it is."""

import pytest

from app.dialects.client_formats import CLIENT_FORMATS
from bench import resume
from bench.measures import Plan

pytestmark = pytest.mark.proving


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(resume, "LENGTHS", (50, 300))
    monkeypatch.setattr(resume, "RESUMES", 3)
    monkeypatch.setattr(resume, "SETTLE_S", 0)


def test_each_format_and_length_is_measured(load, core, capsys):
    row = resume.run(load, core, Plan(rounds=1, parts=("memory", "sqlite")))

    assert [] == row.complaints
    figures = {name: values[0] for name, values in row.rounds.items()}
    assert 2 * len(CLIENT_FORMATS) * 2 * 3 == len(figures)
    assert all(value > 0 for name, value in figures.items() if not name.endswith("_cpu_ms"))
    assert f"| anthropic | 300 | {figures['memory_anthropic_300_p50_ms']:.1f} / " in (
        capsys.readouterr().out
    )
    assert 4 == len(resume.summarize(figures).splitlines())


def test_another_frame_than_the_missed_one_is_a_fault(load, core, monkeypatch):
    wait = resume._first_byte
    monkeypatch.setattr(
        resume, "_first_byte", lambda *place, last, missed: wait(*place, last=last, missed=last)
    )
    row = resume.run(load, core, Plan(rounds=1, parts=("memory",)))

    assert "instead of" in row.complaints[0]
