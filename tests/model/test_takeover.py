"""Nothing goes wrong with a stream over Redis, in any order of what may happen, by these rules."""

from collections.abc import Iterator

import pytest

from tests.model.search import STUCK, search
from tests.model.takeover import RULES, Size, State, Takeover

SMALL = Size(claims=2, sent=1, stops=False)
"""With one claim after the first, and an end by yet another process: some 10,000 states."""

USUAL = Size(claims=2, sent=2)


def test_all_invariants_hold_and_each_stream_can_end() -> None:
    found = search(Takeover(SMALL))

    assert found.broken is None, found.broken
    assert found.states > 9_000  # or hardly anything happens


@pytest.mark.proving
@pytest.mark.parametrize("size", [Size(2, 1), Size(2, 2, stops=False)])
def test_all_invariants_hold_with_more_commands_on_their_way_and_stops(size: Size) -> None:
    found = search(Takeover(size))

    assert found.broken is None, found.broken


BROKEN = {
    "fence": "after a claim nothing of an earlier one",
    "epoch": "after a claim nothing of an earlier one",
    "lease": "who keeps its lease keeps its stream",
    "unchanged": "who goes on has read all before",
    "wait": "an id names one content",
    "skip": "numbers grow",
    "settle": "settled once, with the end",
    "stop": "no call after a stop",
    "answer": "one call for each claim",
}


@pytest.mark.parametrize("rule", RULES)
def test_without_any_rule_something_goes_wrong(rule: str) -> None:
    broken = search(Takeover(USUAL, without=rule)).broken

    assert broken is not None
    assert BROKEN[rule] == broken.invariant, broken.way
    assert len(broken.way) < 15


def test_a_late_write_is_refused_by_the_fence_and_not_by_the_lease() -> None:
    """A look at the lease in APPEND is no substitute for the fence, since a claim renews the lease."""
    model = Takeover(USUAL, without="fence", lease_at_append=True)
    broken = search(model).broken

    assert broken is not None
    assert "after a claim nothing of an earlier one" == broken.invariant
    assert any(step.endswith("is killed") or "TAKE" in step for step in broken.way)


class Counter:
    """A model of two steps, of which one leads to where nothing goes on."""

    def start(self) -> int:
        return 0

    def steps(self, state: int) -> Iterator[tuple[str, int]]:
        if state == 0:
            yield "right", 1
            yield "wrong", 2

    def is_over(self, state: int) -> bool:
        return state == 1

    def broken(self, state: int) -> str:
        return ""


def test_a_state_without_a_way_to_the_end_is_found() -> None:
    found = search(Counter())

    assert found.broken is not None
    assert (STUCK, ["wrong"]) == found.broken


def test_the_model_begins_with_one_owner() -> None:
    state: State = Takeover(SMALL).start()

    assert [1, 0] == [replica.claim for replica in state.replicas]
