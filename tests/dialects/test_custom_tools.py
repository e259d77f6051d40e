"""The text in the arguments of a function that replaces a custom tool."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.dialects.answering.custom_tools import decode_input, encode_input

pytestmark = pytest.mark.pure


@given(st.text())
def test_an_input_is_read_as_it_was_written(text: str) -> None:
    assert text == decode_input(encode_input(text))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("", ""),
        ("{}", ""),
        ('{"input": "line\nline\ttab"}', "line\nline\ttab"),
        (' {\n "input" :\n "a" , "more": 1}', "a"),
        ('{"input": "\\ud800"}', "\ufffd"),
        ('{"input": "it was cut', '{"input": "it was cut'),
        ('{"patch": "a"}', "a"),
        ('{"a": "b", "input": "c"}', "c"),
        ('{"input": ["a"]}', '{"input": ["a"]}'),
        ('{"a": "b", "c": "d"}', '{"a": "b", "c": "d"}'),
        ("*** Begin Patch", "*** Begin Patch"),
        ("[1]", "[1]"),
        ("[" * 20_000, "[" * 20_000),
    ],
)
def test_malformed_arguments_are_read_as_they_are_meant(arguments: str, text: str) -> None:
    assert text == decode_input(arguments)
