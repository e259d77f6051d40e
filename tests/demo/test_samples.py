import json
from typing import Any

import pytest

from app.demo.sample_calls import MAX_TEXT, MAX_VALUES, sample_json

pytestmark = pytest.mark.pure


def sample(schema: Any) -> Any:
    wrapped = {
        **{"type": "object", "properties": {"it": schema}, "required": ["it"]},
        "$defs": {"flag": {"type": "boolean"}},
    }
    return json.loads(sample_json(wrapped, "the words", "Nara"))["it"]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "string"}, "the words"),
        ({}, "the words"),
        ({"type": "string", "format": "date"}, "the words"),
        ({"type": "string", "enum": ["a", "b"]}, "a"),
        ({"enum": [7]}, 7),
        ({"enum": "odd"}, "the words"),
        ({"const": None}, None),
        ({"type": "integer", "default": 5, "multipleOf": 2}, 3),
        ({"type": "string", "pattern": "^x$", "maxLength": 3}, "the words"),
        ({"type": "integer"}, 3),
        ({"type": "number"}, 2.5),
        ({"type": "boolean"}, True),
        ({"type": "null"}, None),
        ({"type": ["boolean", "null"]}, True),
        ({"type": []}, "the words"),
        ({"type": ["null"]}, None),
        ({"type": "array", "items": {"type": "integer"}}, [3]),
        ({"type": "array"}, ["the words"]),
        ({"type": "object"}, {}),
        ({"properties": {"city": {"type": "string"}}, "required": ["city"]}, {"city": "Nara"}),
        ({"properties": {"city": {"type": "string"}}}, {}),
        ({"anyOf": [{"type": "boolean"}, {"type": "null"}]}, True),
        ({"$ref": "#/$defs/flag"}, True),
        ({"$ref": "#/nowhere/at/all"}, "the words"),
        (True, "the words"),
    ],
)
def test_a_sample_fits_its_schema(schema, value):
    assert sample(schema) == value


@pytest.mark.parametrize("schema", [{}, {"type": "array"}, {"properties": []}, {"enum": [1]}])
def test_arguments_are_an_object_whatever_the_schema(schema):
    assert sample_json(schema, "words", "Nara") == "{}"


def test_a_schema_that_refers_to_itself_many_times_stays_small():
    properties: dict[str, Any] = {f"p{i}": {"$ref": "#/$defs/own"} for i in range(20)}

    schema: dict[str, Any] = {"type": "object", "properties": properties}
    schema["$defs"] = {"own": schema}
    text = sample_json(schema, "words", "Nara", optional=True)

    assert text.count(":") < 2 * MAX_VALUES


DEEP: dict[str, Any] = {"type": "string"}
for _ in range(200):
    DEEP = {"type": "object", "properties": {"a": DEEP}, "required": ["a"]}

SELF = {"$ref": "#/$defs/own"}
OF_ITSELF: dict[str, Any] = {
    "$defs": {"own": {"properties": {"a": SELF, "b": SELF}, "required": ["a", "b"]}}
}
HOSTILE: dict[str, dict[str, Any]] = {
    "requires itself": {**OF_ITSELF, "properties": {"a": SELF}, "required": ["a"]},
    "refers to itself": {"$defs": {"own": SELF}, "properties": {"a": SELF}, "required": ["a"]},
    "lists of itself": {
        "$defs": {"own": {"type": "array", "items": SELF}},
        "properties": {"a": {"type": "array", "items": SELF, "minItems": 10**9}},
        "required": ["a"],
    },
    "deep": DEEP,
    "wide": {
        "properties": {f"p{i}": {"type": "string"} for i in range(50_000)},
        "required": [f"p{i}" for i in range(50_000)],
    },
    "long texts": {
        "properties": {f"p{i}": {"$ref": "#/$defs/long"} for i in range(200)},
        "required": [f"p{i}" for i in range(200)],
        "$defs": {"long": {"const": ["x" * 1000] * 1000}},
    },
    "odd bounds": {
        "properties": {
            "a": {"type": "integer", "minimum": 1e308, "multipleOf": 0},
            "b": {"type": "integer", "minimum": 10**400},
            "c": {"type": "array", "minItems": -5, "maxItems": "x"},
            "d": {"type": "string", "maxLength": -1},
            "e": {"type": "number", "multipleOf": -1e-300, "maximum": True},
            "f": {"type": ["x", {}, None], "enum": {}},
            "g": {"type": "array", "maxItems": 0.5, "prefixItems": 3},
        },
        "required": ["a", "b", "c", "d", "e", "f", "g", 5, None],
        "minProperties": 1e9,
    },
    "names nothing": {"$ref": "#/%zz/~9/~", "required": "a", "properties": []},
}


@pytest.mark.parametrize("optional", [False, True])
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_schema_is_answered_with_a_small_object(name, optional):
    text = sample_json(HOSTILE[name], "words", "Nara", optional=optional)

    assert isinstance(json.loads(text), dict)
    assert len(text) <= MAX_TEXT
    assert text.count(":") <= 2 * MAX_VALUES
