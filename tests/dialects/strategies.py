"""Strategies for JSON that is nearly what a format has: some fields right, some missing, some junk."""

import json
from typing import Any

from hypothesis import strategies as st

# Surrogate halves are wanted: JSON can carry them.
strings = st.text(st.characters(), max_size=4) | st.sampled_from(("\ud83d", "\ude00", "a", "ab"))
scalars = st.none() | st.booleans() | st.integers() | st.floats() | strings
junk: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(strings, inner, max_size=3),
    max_leaves=4,
)
indices = st.integers(0, 2)
ids = st.sampled_from(("", "a", "b"))
names = st.sampled_from(("", "f", "g"))


def some(*kinds: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """An object of one of the kinds with some of the fields, each as it should be or as junk."""
    optional = {name: value | junk for name, value in fields.items()}
    return st.fixed_dictionaries(
        {"type": st.sampled_from(kinds)} if kinds else {}, optional=optional
    )


def many(of: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(of, max_size=3)


def sse(*payloads: Any) -> bytes:
    return b"".join(b"data: %b\n\n" % json.dumps(payload).encode() for payload in payloads)
