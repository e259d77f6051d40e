"""Every input in every state of a generation, against a grid that was written by hand."""

from typing import get_args

import pytest

from app.generation.lifecycle import ImpossibleInput, Input, Life, State

pytestmark = pytest.mark.pure

GRID = """
           started attempt hedge  won    continuation retry visible   end     stop    refused placed lost
reserved   begun   -       -      -      -            -     -         -       ending  ending  -      ended
begun      -       trying  -      -      continuing   -     -         -       ending  ending  -      -
trying     -       -       racing trying -            begun committed placing ending  ending  -      -
racing     -       -       -      trying -            -     -         -       ending  ending  -      -
committed  -       -       -      -      continuing   -     -         placing ending  ending  -      -
continuing -       -       -      -      continuing   -     committed placing ending  ending  -      -
ending     ending  -       -      ending -            -     ending    placing ending  ending  ended  ended
placing    -       -       -      -      -            -     -         -       placing ending  ended  ended
ended      -       -       -      -      -            -     -         -       ended   ended   -      -
"""


def after(state: State, what: Input) -> State:
    life = Life()
    life.state = state
    life.enter(what)
    return life.state


HEAD, *ROWS = [line.split() for line in GRID.strip().splitlines()]
PAIRS = [(row[0], what, state) for row in ROWS for what, state in zip(HEAD, row[1:], strict=True)]


def test_grid_has_every_pair_of_state_and_input():
    pairs = {(state, what) for state in get_args(State) for what in get_args(Input)}

    assert pairs == {(state, what) for state, what, _ in PAIRS}
    assert len(PAIRS) == len(pairs)


@pytest.mark.parametrize(("state", "what", "expected"), PAIRS)
def test_input_leads_to_the_next_state_or_is_a_bug(state, what, expected):
    if expected == "-":
        with pytest.raises(ImpossibleInput, match=f"'{what}' in state '{state}'"):
            after(state, what)
    else:
        assert expected == after(state, what)


def test_every_state_but_the_last_can_be_stopped_and_can_end():
    for state in get_args(State):
        stopped = after(state, "stop")
        ending = after(stopped, "end") if stopped == "ending" else stopped
        assert ending == "ended" or "ended" == after(ending, "placed")
