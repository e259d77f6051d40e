"""What a hook adds to an answer."""

import pytest

from bench import hooks
from bench.__main__ import main

pytestmark = pytest.mark.pure


def test_less_than_twice_the_held_characters_wait(capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == main(["hooks"])

    rows = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()[2:]]
    assert [int(row[0]) for row in rows] == list(hooks.HOLDS)
    assert all(int(most) < 2 * int(hold) for hold, _, _, most in rows)
