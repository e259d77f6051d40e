"""Arguments at JSON paths become one JSON text, whose pieces stand as they come."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.dialects.gemini.upstream.partial_arguments import PartialArguments, parse_path

pytestmark = pytest.mark.pure


def write(*values: dict[str, Any]) -> str:
    partial = PartialArguments()
    return partial.begin() + "".join(map(partial.feed, values)) + partial.close()


def at(path: str, **value: Any) -> dict[str, Any]:
    return {"jsonPath": path, **value}


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([], "{}"),
        ([at("$.a", stringValue="x")], '{"a":"x"}'),
        ([at("$.a", stringValue="")], '{"a":""}'),
        ([at("$.a", stringValue="x", willContinue=True), at("$.a")], '{"a":"x"}'),
        ([at("$.a", stringValue="x"), at("$.a", stringValue="y")], '{"a":"xy"}'),
        ([at("$.a", numberValue=1), at("$.b", numberValue=0.5)], '{"a":1,"b":0.5}'),
        ([at("$.a", boolValue=False), at("$.b", nullValue=None)], '{"a":false,"b":null}'),
        ([at("$.a.b.c", numberValue=1), at("$.a.d", numberValue=2)], '{"a":{"b":{"c":1},"d":2}}'),
        ([at("$.a[0]", numberValue=1), at("$.a[1]", numberValue=2)], '{"a":[1,2]}'),
        ([at("$.a[0][0]", numberValue=1), at("$.a[1].b", numberValue=2)], '{"a":[[1],{"b":2}]}'),
        ([at("$['a.b']", numberValue=1), at('$["c\\"d"]', numberValue=2)], '{"a.b":1,"c\\"d":2}'),
        ([at("$.a", stringValue='"\\\n\u2028京')], '{"a":"\\"\\\\\\n\u2028京"}'),
        ([at("$.a", stringValue="\ud83d"), at("$.a", stringValue="\ude00")], '{"a":"\\ud83d\\ude00"}'),
    ],
)  # fmt: skip
def test_values_at_paths_are_one_text(values: list[dict[str, Any]], text: str) -> None:
    assert write(*values) == text
    assert isinstance(json.loads(text), dict)


@pytest.mark.parametrize(
    "values",
    [
        [at("", stringValue="x")],
        [at("$", stringValue="x")],
        [at("a", stringValue="x")],
        [at("$.a[*]", stringValue="x")],
        [at("$..a", stringValue="x")],
        [at("$[0]", stringValue="x")],
        [{"stringValue": "x"}],
        [at("$.a")],
        [at("$.a", numberValue="1")],
        [at("$.a", numberValue=True)],
        [at("$.a", novelValue=1)],
        [at("$.a", numberValue=1), at("$.a", numberValue=2)],
        [at("$.a", numberValue=1), at("$.a.b", numberValue=2)],
        [at("$.a.b", numberValue=1), at("$.a[0]", numberValue=2)],
        [at("$.a.b", numberValue=1), at("$.c", numberValue=2), at("$.a.d", numberValue=3)],
        [at("$.a[1]", numberValue=1)],
        [at("$.a[0]", numberValue=1), at("$.a[2]", numberValue=2)],
    ],
)
def test_values_that_cannot_be_placed_are_refused(values: list[dict[str, Any]]) -> None:
    with pytest.raises(ValueError, match=r"path|gap|type"):
        write(*values)


def test_a_path_is_read_to_its_end() -> None:
    assert parse_path("$.a[12]['b c'][\"d'\"].é") == ["a", 12, "b c", "d'", "é"]


names = st.text(min_size=1, max_size=3)
leaves = st.text(max_size=4) | st.integers() | st.booleans() | st.none()
trees: st.SearchStrategy[Any] = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3)
        | st.dictionaries(names, inner, min_size=1, max_size=3)
    ),
    max_leaves=8,
)


def take_apart(value: Any, path: str) -> list[dict[str, Any]]:
    """Return the values of a tree as Vertex AI sends them, strings a character at a time."""
    match value:
        case dict():
            quoted = {k: k.replace("\\", "\\\\").replace("'", "\\'") for k in value}
            return [p for k, v in value.items() for p in take_apart(v, f"{path}['{quoted[k]}']")]
        case list():
            return [p for n, v in enumerate(value) for p in take_apart(v, f"{path}[{n}]")]
        case str():
            pieces = [at(path, stringValue=c, willContinue=True) for c in value]
            return [*pieces, at(path, stringValue="")]
        case bool():
            return [at(path, boolValue=value)]
        case None:
            return [at(path, nullValue="NULL_VALUE")]
        case _:
            return [at(path, numberValue=value)]


@given(st.dictionaries(names, trees, max_size=4))
def test_any_arguments_are_put_together_again(arguments: dict[str, Any]) -> None:
    assert json.loads(write(*take_apart(arguments, "$"))) == arguments
