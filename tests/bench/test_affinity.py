"""The simulation of prompt caches."""

import pytest

from bench import affinity
from bench.__main__ import main

pytestmark = pytest.mark.pure


def test_affinity_saves_what_the_table_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == main(["affinity"])

    rows = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()[2:]]
    assert [str(count) for count in affinity.TARGETS] == [row[0] for row in rows]
    for targets, *shares in rows:
        random, kept, saved = (int(share.rstrip("%")) / 100 for share in shares)
        assert abs(random - 1 / int(targets)) < 0.03
        assert kept > 0.95
        assert saved > 0.4
