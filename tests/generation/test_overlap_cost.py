"""A repetition costs in proportion to its length, in pieces of one character too."""

from collections.abc import Callable

import pytest

from app.generation.overlap import Overlap
from tests.dialects.cost import check_time

SIZE = 2**15
LINE = "The quick brown fox jumps over the lazy dog, again and again.\n"
SHAPES: dict[str, Callable[[int], tuple[str, str]]] = {
    "the whole text": lambda size: ((LINE * size)[:size],) * 2,
    "its first half": lambda size: ((LINE * size)[:size], (LINE * size)[: size // 2] + "!" * size),
    "white space": lambda size: (LINE, " " * size),
    "white space at its end": lambda size: (LINE + " " * size, " " * size),
    "one character": lambda size: ("x" * size, "x" * size),
    "something else": lambda size: (LINE * size, "!" * size),
}

pytestmark = pytest.mark.proving


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("name", SHAPES)
def test_a_repetition_is_linear(name: str, exact: bool) -> None:
    def make(size: int) -> Callable[[], None]:
        text, sent = SHAPES[name](size)

        def feed() -> None:
            overlap = Overlap(text, exact=exact, echoes=exact)
            for character in sent:
                overlap.feed(character)
            overlap.close()

        return feed

    check_time(make, SIZE)
