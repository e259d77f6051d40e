"""Exhaustive search over the states of a model: all that can happen, in every order."""

from collections import deque
from collections.abc import Hashable, Iterable, Iterator
from typing import Generic, NamedTuple, Protocol, TypeVar

State = TypeVar("State", bound=Hashable)

Steps = Iterable[tuple[str, State]]


class Model(Protocol[State]):
    """What can happen, and what must hold."""

    def start(self) -> State: ...

    def steps(self, state: State) -> Steps[State]:
        """Yield what may happen next, each with a name and the state after it."""

    def broken(self, state: State) -> str:
        """Return the invariant that a state breaks, "" if none."""

    def is_over(self, state: State) -> bool:
        """Return whether nothing has to follow: from every state such a one can be reached."""


class Broken(NamedTuple):
    """An invariant that does not hold, and the shortest way to break it."""

    invariant: str
    way: list[str]


class Found(NamedTuple, Generic[State]):
    """All states that were reached, or up to the first one that breaks an invariant."""

    states: int
    broken: Broken | None


STUCK = "the end can still be reached"


def search(model: Model[State], *, most: int = 1_000_000) -> Found[State]:
    """Visit every state, by breadth, so that the first way found is a shortest one."""
    start = model.start()
    came: dict[State, tuple[State, str] | None] = {start: None}
    before: dict[State, list[State]] = {}
    waiting = deque([start])
    while waiting:
        state = waiting.popleft()
        if invariant := model.broken(state):
            return Found(len(came), Broken(invariant, [*_way(came, state)]))
        for name, after in model.steps(state):
            before.setdefault(after, []).append(state)
            if after not in came:
                came[after] = state, name
                waiting.append(after)
                assert len(came) <= most, "the model is too large to be searched"
    ends = _reach([state for state in came if model.is_over(state)], before)
    stuck = next((state for state in came if state not in ends), None)
    if stuck is not None:
        return Found(len(came), Broken(STUCK, [*_way(came, stuck)]))
    return Found(len(came), None)


def _reach(states: list[State], before: dict[State, list[State]]) -> set[State]:
    """Return the states from which some of these can be reached."""
    found, waiting = {*states}, [*states]
    while waiting:
        for state in before.get(waiting.pop(), ()):
            if state not in found:
                found.add(state)
                waiting.append(state)
    return found


def _way(came: dict[State, tuple[State, str] | None], state: State) -> Iterator[str]:
    names: list[str] = []
    while (step := came[state]) is not None:
        state, name = step
        names.append(name)
    return reversed(names)
