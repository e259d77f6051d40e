"""JSON that comes in pieces is judged as if it were decoded after each of them."""

import itertools
import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.dialects.reading.json_values import MAX_DEPTH, decode
from app.dialects.reading.partial_json import Growing

pytestmark = pytest.mark.pure

WHOLE = (
    '{"a":[1,"b\\"\\\\",{}],"c":"]}"}',
    '"a\\\\"',
    "12",
    "true",
    " [ ] ",
    '["\\ud83d"]',
    '{"é":""}',
)


def is_json(text: str) -> bool:
    try:
        decode(text)
    except ValueError:
        return False
    return True


def check(pieces: list[str]) -> None:
    growing, so_far = Growing(), list[str]()
    for piece in pieces:
        so_far.append(piece)
        if piece:
            assert is_json("".join(so_far)) == growing.is_whole(so_far), so_far


@pytest.mark.parametrize("text", WHOLE)
@pytest.mark.parametrize("rest", ["", " ", "\n", "x", "{}", "]", '"', "\\"])
def test_every_cut_is_judged_alike(text: str, rest: str) -> None:
    check([*text, *rest])
    for at in range(len(text)):
        check([text[:at], text[at:], rest])


def test_any_pieces_are_judged_alike() -> None:
    dice = random.Random(7)
    parts = (*'[]{}""\\,:10- a', '\\"', '"a":', "null")
    for _ in range(2_000):
        check(dice.choices(parts, k=dice.randint(1, 12)))


def test_what_came_together_is_judged_together() -> None:
    growing = Growing()

    assert not growing.is_whole(["[1", ","])
    assert growing.is_whole(["[1", ",", "2", "]"])
    assert growing.is_whole(["[1", ",", "2", "]", " "])
    assert not growing.is_whole(["[1", ",", "2", "]", " ", "["])
    assert not growing.is_whole(["[1", ",", "2", "]", " ", "[", "]"])


def test_json_is_as_deep_as_it_can_be_written_again_and_no_deeper() -> None:
    deepest = "[" * MAX_DEPTH + '"' + "[" * 2000 + '"' + "]" * MAX_DEPTH

    assert decode(deepest)
    with pytest.raises(ValueError, match="nested too deeply"):
        decode(f"[{deepest}]")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=10,
)  # fmt: skip


@given(
    st.lists(VALUES, max_size=4) | st.dictionaries(st.text(max_size=4), VALUES, max_size=4),
    st.lists(st.integers(0, 60), max_size=8),
    st.booleans(),
)
def test_a_document_is_whole_at_its_end_and_nothing_but_space_follows(
    value: object, cuts: list[int], plain: bool
) -> None:
    """A snapshot of it that is called whole is not the beginning of another one."""
    text = json.dumps(value, ensure_ascii=plain)
    bounds = sorted({0, *(at for at in cuts if at < len(text)), len(text)})
    growing, so_far = Growing(), list[str]()
    for start, end in itertools.pairwise(bounds):
        so_far.append(text[start:end])
        assert (end == len(text)) == growing.is_closed(so_far), so_far
    assert growing.is_closed([*so_far, " \n"])
    assert not growing.is_whole([*so_far, " \n", "1"])
