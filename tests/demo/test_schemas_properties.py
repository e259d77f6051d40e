"""What a demo puts into arguments fits the schema, for all schemas that say something usual."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from app.demo.patterns import matching
from app.demo.samples import MAX_TEXT, MAX_VALUES, sample_json

pytestmark = pytest.mark.pure

PATTERNS = [
    r"^[a-z]+$",
    r"^[A-Z]{2,4}-\d{3}$",
    r"^(?:red|green)$",
    r"\d+\.\d+",
    r"^#[0-9a-fA-F]{6}$",
    r"^\w+@\w+\.(com|org)$",
    r"^\+?[1-9]\d{1,14}$",
    r"^v?\d+(\.\d+){2}$",
    r"a|b",
    r"^.{3,}$",
    r"^[^|]+$",  # not easy: passed over, as any text that is given has no such sign
]
FORMATS = ["date", "time", "date-time", "email", "ipv4", "ipv6", "uuid", "regex"]
NAMES = st.sampled_from(["city", "file_path", "url", "query", "count", "x", "command", "b-c"])


@st.composite
def numbers(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from(["integer", "number"]))
    low = draw(st.integers(-50, 50))
    schema: dict[str, Any] = {"type": kind}
    if draw(st.booleans()):
        key = draw(st.sampled_from(["minimum", "exclusiveMinimum"]))
        schema[key] = draw(st.sampled_from([low, low + 0.5]))
    if draw(st.booleans()):
        key = draw(st.sampled_from(["maximum", "exclusiveMaximum"]))
        schema[key] = low + draw(st.integers(15, 30))
    if draw(st.booleans()):
        schema["multipleOf"] = draw(st.sampled_from([1, 2, 5]))
    return schema


@st.composite
def texts(draw: st.DrawFn) -> dict[str, Any]:
    match draw(st.integers(0, 2)):
        case 0:
            return {"type": "string", "format": draw(st.sampled_from(FORMATS))}
        case 1:
            return {"type": "string", "pattern": draw(st.sampled_from(PATTERNS))}
    least = draw(st.integers(0, 80))
    return {"type": "string", "minLength": least, "maxLength": least + draw(st.integers(0, 20))}


NAMED = st.one_of(
    st.builds(lambda values: {"enum": values}, st.lists(st.integers(), min_size=1, max_size=3)),
    st.builds(lambda value: {"const": value}, st.none() | st.booleans() | st.text(max_size=5)),
    st.builds(lambda value: {"type": ["string", "null"], "default": value}, st.text(max_size=5)),
    st.builds(lambda value: {"type": "integer", "default": value}, st.text() | st.integers(0, 9)),
)
PLAIN = st.one_of(
    numbers(),
    texts(),
    NAMED,
    st.sampled_from(
        [{"type": "boolean"}, {"type": "null"}, {}, True, {"type": ["null", "integer"]}]
    ),
)


@st.composite
def objects(draw: st.DrawFn, inner: st.SearchStrategy[Any]) -> dict[str, Any]:
    properties = draw(st.dictionaries(NAMES, inner, max_size=4))
    required = [name for name in properties if draw(st.booleans())]
    schema: dict[str, Any] = {"type": "object", "properties": properties, "required": required}
    if draw(st.booleans()):
        schema["additionalProperties"] = False
        schema["minProperties"] = draw(st.integers(0, len(properties)))
    return schema


@st.composite
def arrays(draw: st.DrawFn, inner: st.SearchStrategy[Any]) -> dict[str, Any]:
    least = draw(st.integers(0, 3))
    schema = {"type": "array", "items": draw(inner), "minItems": least}
    if draw(st.booleans()):
        schema["maxItems"] = least + draw(st.integers(0, 3))
    return schema


def choices(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.one_of(
        st.builds(lambda one: {"anyOf": [{"type": "null"}, one]}, inner),
        st.builds(lambda one: {"allOf": [one, {"description": "the same"}]}, inner),
        st.just({"$ref": "#/$defs/node"}),
    )


SCHEMAS = st.recursive(
    PLAIN, lambda inner: st.one_of(objects(inner), arrays(inner), choices(inner)), max_leaves=8
)
NODE = {
    "type": "object",
    "properties": {"value": {"type": "integer"}, "next": {"$ref": "#/$defs/node"}},
    "required": ["value"],
}


@given(st.dictionaries(NAMES, SCHEMAS, max_size=4), st.booleans(), st.booleans())
def test_arguments_fit_their_schema(properties, required, optional):
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(properties) if required else [],
        "$defs": {"node": NODE},
    }

    value = json.loads(sample_json(schema, "some words “of” 誰か", "Nara", optional=optional))

    checker = Draft202012Validator.FORMAT_CHECKER
    Draft202012Validator(schema, format_checker=checker).validate(value)
    assert optional or required or {} == value


@pytest.mark.parametrize("pattern", PATTERNS[:-1])
@pytest.mark.parametrize("least", [0, 4, 12])
def test_text_is_made_by_an_easy_pattern(pattern, least):
    text = matching(pattern, least=least)

    assert text is not None
    assert re.search(pattern, text)


def test_open_pattern_gives_as_long_a_text_as_is_asked_for():
    assert 12 == len(matching(r"^[a-z]+$", least=12) or "")
    assert "id-00000000" == matching(r"^id-\d{4,8}$", least=30)


@pytest.mark.parametrize(
    "pattern",
    [
        r"(?=x)x",
        r"(?<n>x)",
        r"\bx",
        r"(x)\1",
        r"[^a]",
        r"x{999}",
        r"(",
        r"[",
        "x{",
        "*",
        "\\",
        r"a$b",
        "(" * 256,
        "(" * 100 + "x{9}" + "){99}" * 20,
        "x" * 1000,
        "((x{200}){200}){200}",
    ],
)
def test_pattern_that_is_not_easy_is_passed_over(pattern):
    assert matching(pattern) is None


DEEP: dict[str, Any] = {"type": "string"}
for _ in range(200):
    DEEP = {"type": "object", "properties": {"a": DEEP}, "required": ["a"]}

HOSTILE: dict[str, dict[str, Any]] = {
    "requires itself": {"properties": {"a": {"$ref": "#"}}, "required": ["a"]},
    "requires itself twice": {
        "properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}},
        "required": ["a", "b"],
    },
    "refers to itself": {"properties": {"a": {"$ref": "#/properties/a"}}, "required": ["a"]},
    "is part of itself": {"allOf": [{"$ref": "#"}, {"$ref": "#"}], "required": ["a"]},
    "chooses itself": {"anyOf": [{"$ref": "#"}], "oneOf": [{"$ref": "#"}]},
    "lists of itself": {
        "properties": {"a": {"type": "array", "items": {"$ref": "#"}, "minItems": 10**9}},
        "required": ["a"],
    },
    "deep": DEEP,
    "wide": {
        "properties": {f"p{i}": {"type": "string"} for i in range(50_000)},
        "required": [f"p{i}" for i in range(50_000)],
    },
    "many values": {"properties": {"a": {"enum": list(range(100_000))}}, "required": ["a"]},
    "long texts": {
        "properties": {f"p{i}": {"$ref": "#/$defs/long"} for i in range(200)},
        "required": [f"p{i}" for i in range(200)],
        "$defs": {"long": {"const": ["x" * 1000] * 1000}},
    },
    "long text": {"properties": {"a": {"type": "string", "minLength": 10**12}}, "required": ["a"]},
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


class Counted(dict):
    """A schema that counts how often it is looked at."""

    looks = 0

    def get(self, key, default=None):
        Counted.looks += 1
        return super().get(key, default)


@pytest.mark.parametrize("width", [100, 10_000])
def test_work_is_bounded_whatever_the_schema_says(width):
    leaf = Counted(type="object", allOf=[], required=["a"], properties={"a": {"$ref": "#/$defs/x"}})
    leaf["allOf"] = [Counted(properties={"a": leaf}, required=["a"]) for _ in range(width)]
    schema = Counted({"$defs": {"x": leaf}, "$ref": "#/$defs/x"})
    Counted.looks = 0

    sample_json(schema, "words", "Nara", optional=True)

    assert Counted.looks < 500_000
