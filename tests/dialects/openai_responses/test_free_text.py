"""The text in a function's arguments: exact, as it comes, in whatever pieces."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.dialects.openai_responses.client.free_text import FreeText

pytestmark = pytest.mark.pure


def read(*pieces: str) -> list[str]:
    text = FreeText()
    return [*map(text.feed, pieces), text.close()]


@given(st.text(), st.booleans(), st.lists(st.integers(0, 400)))
def test_it_is_the_text_in_whatever_pieces(text: str, plain: bool, cuts: list[int]) -> None:
    whole = json.dumps({"input": text}, ensure_ascii=plain)
    places = [0, *sorted({cut for cut in cuts if cut < len(whole)}), len(whole)]
    pieces = [whole[a:b] for a, b in pairwise(places)]

    assert text == "".join(read(*pieces))
    assert text == "".join(read(*whole))


def test_it_is_told_as_it_comes() -> None:
    pieces = ['{"inp', 'ut": "a', "b\\", "nc\\u26", "42 \\ud83d", '\\ude00"', "}"]

    assert ["", "a", "b", "\nc", "♂ ", "😀", "", ""] == read(*pieces)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("", ""),
        ("{}", ""),
        ('{"input": "line\nline\ttab"}', "line\nline\ttab"),
        (' {\n "input" :\n "a" , "more": 1}', "a"),
        ('{"input": "\\q \\u12zz \\ud800"}', "\\q \\u12zz \ufffd"),
        ('{"input": "it was cut \\u26', "it was cut \\u26"),
        ('{"patch": "a"}', "a"),
        ('{"a": "b", "input": "c"}', "c"),
        ('{"input": ["a"]}', '{"input": ["a"]}'),
        ('{"a": "b", "c": "d"}', '{"a": "b", "c": "d"}'),
        ("*** Begin Patch", "*** Begin Patch"),
        ("a" * 300, "a" * 300),
        ('{"patch": "' + "a" * 300 + '"}', "a" * 300),
    ],
)
def test_what_is_not_as_it_should_be_is_told_as_what_it_means(given: str, text: str) -> None:
    assert text == "".join(read(given))
    assert text == "".join(read(*given))
