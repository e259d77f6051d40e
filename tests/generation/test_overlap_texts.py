"""How often a continuation loses text or keeps a repetition, over twelve kinds of answers.

The texts have more doubled words, cells and digits than most answers. What a model that goes on
writes can be the same as what one writes that repeats itself, so some are mistaken.
"""

import re
from collections.abc import Callable, Iterator

import pytest

from app.generation.overlap import Overlap
from tests.generation.overlap_texts import TEXTS

LENGTH = 120
"""Characters of a continuation that are fed."""
SPACES = ("", " ", "\n\n")


def _last_sentence(text: str) -> str:
    starts = [
        0,
        *(found.end() for found in re.finditer(r"[.!?]\s+|[。！？]\s*|\n+", text.rstrip())),
    ]
    return text[starts[-1] :]


HABITS: dict[str, tuple[Callable[[str], str], float]] = {
    "last word": (lambda text: text[re.search(r"\S*\s*$", text).start() :], 0.86),  # type: ignore[union-attr]
    "last sentence": (_last_sentence, 0.70),
    "last line": (lambda text: text[text.rstrip().rfind("\n") + 1 :], 3.0),
    "whole text": (lambda text: text, 0.5),
}
"""What a model repeats before it goes on, and at how many per cent of the cuts some of it may stay
or too much be removed. Removing each overlap that begins a word has 0.86, 0.71, 12.1 and 46.1.
"""


def _cuts(text: str, step: int) -> Iterator[tuple[str, str]]:
    for at in range(1, len(text) - 1, step):
        yield text[:at], text[at : at + LENGTH]


def _join(text: str, sent: str, size: int = 5) -> str:
    overlap = Overlap(text, exact=False)
    pieces = [sent[at : at + size] for at in range(0, len(sent), size)]
    return "".join(map(overlap.feed, pieces)) + overlap.close()


def _measure_going_on() -> tuple[float, dict[str, float]]:
    """Return the per cent of the cuts at which text is lost, of all texts and of each."""
    wrong = {
        kind: [_join(before, rest) != rest for before, rest in _cuts(text, 1)]
        for kind, text in TEXTS.items()
    }
    every = [one for ones in wrong.values() for one in ones]
    shares = {kind: 100 * sum(ones) / len(ones) for kind, ones in wrong.items()}
    return 100 * sum(every) / len(every), shares


@pytest.mark.pure
def test_a_model_that_goes_on_loses_text_at_less_than_one_cut_of_a_hundred():
    share, shares = _measure_going_on()
    assert share < 1, shares
    assert max(shares.values()) < 6, shares


@pytest.mark.proving
@pytest.mark.parametrize("habit", HABITS)
def test_what_a_model_repeats_is_removed_but_for_few_cuts(habit):
    repeat, limit = HABITS[habit]
    wrong = [
        _join(before, space + repeat(before) + rest) != rest
        for text in TEXTS.values()
        for before, rest in _cuts(text, 2)
        for space in SPACES
    ]
    assert 100 * sum(wrong) / len(wrong) <= limit


@pytest.mark.pure
@pytest.mark.parametrize("kind", TEXTS)
def test_the_size_of_the_pieces_does_not_matter(kind):
    for number, (before, rest) in enumerate(_cuts(TEXTS[kind], 29)):
        repeat, _ = [*HABITS.values()][number % len(HABITS)]
        for sent in (rest, SPACES[number % 3] + repeat(before) + rest):
            assert len({_join(before, sent, size) for size in (1, 2, 3, 17, 5000)}) == 1
