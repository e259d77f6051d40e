import json
from typing import Any

import pytest

from app.demo.samples import MAX_VALUES, sample_json

pytestmark = pytest.mark.pure


def sample(schema: Any) -> Any:
    wrapped = {"type": "object", "properties": {"it": schema}, "required": ["it"]}
    return json.loads(sample_json(wrapped, "the words", "Nara"))["it"]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "string"}, "the words"),
        ({}, "the words"),
        ({"type": "string", "maxLength": 3}, "the"),
        ({"type": "string", "format": "date"}, "2026-01-31"),
        ({"type": "string", "format": ["odd"]}, "the words"),
        ({"type": "string", "enum": ["a", "b"]}, "a"),
        ({"enum": [7]}, 7),
        ({"enum": "odd"}, "the words"),
        ({"const": None}, None),
        ({"type": "integer", "default": 5}, 5),
        ({"type": "integer"}, 3),
        ({"type": "integer", "minimum": 10.5}, 11),
        ({"type": "integer", "maximum": 1}, 1),
        ({"type": "number"}, 2.5),
        ({"type": "number", "minimum": 9.5}, 9.5),
        ({"type": "boolean"}, True),
        ({"type": "null"}, None),
        ({"type": ["null", "boolean"]}, True),
        ({"type": ["null"]}, None),
        ({"type": "array", "items": {"type": "integer"}}, [3]),
        ({"type": "array"}, ["the words"]),
        ({"type": "object"}, {}),
        ({"properties": {"city": {"type": "string"}}, "required": ["city"]}, {"city": "Nara"}),
        ({"properties": {"city": {"type": "string"}}}, {}),
        ({"anyOf": [{"type": "boolean"}, {"type": "null"}]}, True),
        ({"$ref": "#/properties/it/x", "x": {"type": "boolean"}}, True),
        ({"$ref": "#/nowhere/at/all"}, "the words"),
        ({"$ref": "#/properties/it"}, "the words"),
        (True, "the words"),
    ],
)
def test_a_sample_fits_its_schema(schema, value):
    assert sample(schema) == value


@pytest.mark.parametrize("schema", [{}, {"type": "array"}, {"properties": []}, {"enum": [1]}])
def test_arguments_are_an_object_whatever_the_schema(schema):
    assert sample_json(schema, "words", "Nara") == "{}"


def test_a_schema_that_refers_to_itself_many_times_stays_small():
    properties: dict[str, Any] = {f"p{i}": {"$ref": "#"} for i in range(20)}
    properties["list"] = {"type": "array", "items": {"$ref": "#"}}

    schema = {"type": "object", "properties": properties}
    text = sample_json(schema, "words", "Nara", optional=True)

    assert text.count(":") < 2 * MAX_VALUES
    assert "[" in text
