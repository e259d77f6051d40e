"""A body that is one JSON array: its elements, however it is cut."""

import json

from app.dialects.upstream_formats import UPSTREAM_FORMATS
from app.framing.json_array import ELEMENT, END, JsonArray
from tests.fuzz.target import (
    CUTS,
    Target,
    check_cuts,
    check_linear,
    check_memory,
    decode,
    in_pieces,
    split,
)

LIMIT = 40


def check(data: bytes) -> None:
    choice, rest = split(data)
    body = b"[" + rest
    found, _, failure = check_cuts(lambda: JsonArray(max_size=2**20), body, choice)
    assert not failure
    assert {one.event for one in found} <= {ELEMENT, END}
    assert all(one.event == ELEMENT for one in found[:-1]), "the end is last"
    try:
        expected = json.loads(body)
    except (ValueError, RecursionError):
        expected = None
    if expected is not None and all(isinstance(one, dict | list) for one in expected):
        # Numbers of any size, and whatever Python's parser accepts beyond the standard.
        assert found[-1].event == END
        assert repr(expected) == repr([json.loads(one.data) for one in found[:-1]])
    check_cuts(lambda: JsonArray(max_size=LIMIT), body, choice)
    check_memory(JsonArray(max_size=LIMIT), body, limit=LIMIT, choice=choice)
    new = UPSTREAM_FORMATS["gemini"].decoder
    check_cuts(lambda: new(max_line=2**20, max_event=2**20), rest, choice)
    size = CUTS[choice >> 5]
    check_linear(lambda grown: decode(JsonArray(max_size=2**20), in_pieces(grown, size)), body)


TARGET = Target(
    check,
    seeds=(
        b'\x00{"a": 1},\r\n{"b": "]"}]',
        b'\x3f[], {"a": {"b": ["\\"}"]}}\n] more',
        b'\x01\n {"a": "\xf0\x9f\x98\x80"}, 1, "x"',
        b'\x02{"a": "\\\\"},{"b": "\\\\\\""}]',
    ),
    tokens=(b"{", b"}", b"[", b"]", b'"', b"\\", b",", b"\n", b" ", b'{"a":1}', b'"\\"', b"\xff"),
)
