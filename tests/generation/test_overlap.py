"""What is removed of a continuation, whatever its pieces."""

import pytest

from app.generation.overlap import Overlap

pytestmark = pytest.mark.pure

LONG = "The quick brown fox jumps over"
EXACT = [
    ("ha", "ha", "ha"),
    ("a\n", "\nb", "b"),
    ("a\n", "\n\nb", "\nb"),
    ("a ", "b", "b"),
    ("", " b", " b"),
    (LONG, LONG + " it", " it"),
    (LONG + "  ", LONG + " it", "it"),
    (LONG, LONG[:20] + "!", LONG[:20] + "!"),
    (LONG, "The", "The"),
]
ASKED = [
    ("the ma", "mat is", "t is"),
    ("the ma", "the mat is", "t is"),
    ("the ma", "t is", "t is"),
    ("the mat", " is", " is"),
    ("the mat", "\n\nthe mat is", " is"),
    ("ban", "ana", "ana"),
    ("a banana", "nanas", "nanas"),
    ("今日は猫", "猫がいる", "がいる"),
    (LONG, LONG + " it", " it"),
    (LONG, "fox jumps over it", " it"),
    ("x" * 500, "x" * 500 + "y", "x" * 300 + "y"),
    ("", "Hello", "Hello"),
    ("one. ", "Two", "Two"),
    ("one", "   ", "   "),
]


@pytest.mark.parametrize(
    ("exact", "text", "sent", "wanted"),
    [(True, *case) for case in EXACT] + [(False, *case) for case in ASKED],
)
def test_a_continuation_repeats_nothing(exact, text, sent, wanted):
    for size in (1, 2, 3, 7, 1000):
        overlap = Overlap(text, exact=exact)
        pieces = [sent[at : at + size] for at in range(0, len(sent), size)]
        found = "".join(map(overlap.feed, pieces)) + ("" if overlap.done else overlap.close())
        if len(text) < 500:
            assert (found, overlap.removed) == (wanted, len(sent) - len(wanted))
        else:
            assert sent.endswith(found)


def test_a_repetition_costs_linear_time():
    text = "ab" * 30_000
    overlap = Overlap(text, exact=False)
    for _ in range(200_000):
        overlap.feed("a")
    assert overlap.done
