"""Schemas that Claude and Bedrock enforce: clients of OpenAI send more than their grammars know."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from app.dialects.writing.enforced_schemas import fit_schemas
from app.requests import ChatRequest
from tests.dialects.rendering import HI, function, parse, rendered

pytestmark = pytest.mark.pure

FORMATS = ("anthropic", "vertex_anthropic", "bedrock_anthropic", "bedrock_converse")
REFUSED = {
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "not"),
    *("minLength", "maxLength", "pattern", "maxItems", "uniqueItems", "contains", "oneOf"),
    *("minProperties", "maxProperties", "patternProperties", "propertyNames", "if", "examples"),
}
TEXT = {"type": "string"}
CLOSED = {"type": "object", "additionalProperties": False}


def of(name: dict[str, Any]) -> dict[str, Any]:
    return {**CLOSED, "properties": {"name": name}, "required": ["name"]}


def find_refused(schema: Any, at: str = "schema") -> Iterator[str]:
    """Find what the provider's grammar does not know, as its 400 names it."""
    if not isinstance(schema, dict):
        return
    yield from (f"{at}.{name}" for name in REFUSED & schema.keys())
    if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
        yield f"{at}: additionalProperties is not false"
    if schema.get("minItems", 0) not in (0, 1):
        yield f"{at}.minItems"
    if schema.get("format", "uuid") not in ("date-time", "uuid", "email"):
        yield f"{at}.format"
    for name in ("properties", "$defs", "definitions"):
        for key, one in schema.get(name, {}).items():
            yield from find_refused(one, f"{at}.{name}.{key}")
    for name in ("items", "anyOf", "allOf"):
        below = schema.get(name, [])
        for one in below if isinstance(below, list) else [below]:
            yield from find_refused(one, f"{at}.{name}")


def asked(how: str, schema: dict[str, Any]) -> dict[str, Any]:
    if how == "tool":
        return {"tools": [function("f", parameters=schema, strict=True)]}
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    return {"response_format": form}


def sent(dialect: str, how: str, schema: dict[str, Any]) -> tuple[Any, list[str]]:
    """Return the schema that a provider gets, and the changes that the client is told."""
    body, changes = rendered(dialect, asked(how, schema), model="anthropic.claude-opus-4-6")
    if dialect != "bedrock_converse":
        found = body["tools"][0]["input_schema"] if how == "tool" else None
        return found or body["output_config"]["format"]["schema"], [*changes]
    if how == "tool":
        return body["toolConfig"]["tools"][0]["toolSpec"]["inputSchema"]["json"], [*changes]
    structure = body["outputConfig"]["textFormat"]["structure"]
    return json.loads(structure["jsonSchema"]["schema"]), [*changes]


SCHEMAS = {
    "numbers": of({"type": "integer", "minimum": 0, "exclusiveMaximum": 10, "multipleOf": 2}),
    "texts": of({**TEXT, "minLength": 1, "maxLength": 20, "pattern": "^a", "format": "regex"}),
    "lists": of({"type": "array", "items": {**TEXT, "minLength": 1}, "maxItems": 5, "minItems": 2}),
    "open object": {"type": "object", "properties": {"name": TEXT}},
    "open object below": of({"type": ["object", "null"], "properties": {"a": {"type": "object"}}}),
    "map": of({"type": "object", "additionalProperties": {"type": "integer"}}),
    "definitions": {
        **of({"$ref": "#/$defs/A", "title": "A"}),
        "$defs": {"A": {"type": "object", "properties": {"n": {"type": "number", "maximum": 1}}}},
    },
    "unions": of({"oneOf": [{**TEXT, "maxLength": 1}, {"anyOf": [{"allOf": [{"not": {}}]}]}]}),
    "both unions": of({"oneOf": [TEXT], "anyOf": [{**TEXT, "maxLength": 1}]}),
    "properties with names of keywords": of({"properties": {"minimum": {"minimum": 1}}}),
}


@pytest.mark.parametrize("dialect", FORMATS)
@pytest.mark.parametrize("how", ["tool", "format"])
@pytest.mark.parametrize("name", SCHEMAS)
def test_an_enforced_schema_has_nothing_that_the_provider_refuses(
    name: str, how: str, dialect: str
) -> None:
    assert [*find_refused(SCHEMAS[name])], "the provider would take it as it is"

    found, changes = sent(dialect, how, SCHEMAS[name])

    assert [*find_refused(found)] == []
    assert len(changes) == 1
    assert how == "format" or found["type"] == "object"


@pytest.mark.parametrize("dialect", FORMATS)
def test_a_schema_of_the_subset_is_sent_as_it_is(dialect: str) -> None:
    subset = of(
        {
            "anyOf": [
                {"type": "array", "items": {"$ref": "#/$defs/A"}, "minItems": 1},
                {"type": ["string", "null"], "format": "date-time", "default": None},
                {"enum": ["a", 1, None]},
                {"const": "b", "title": "B", "description": "the second"},
            ]
        }
    )
    subset |= {"$defs": {"A": {"allOf": [of(TEXT)]}}, "$schema": "s", "$id": "i"}

    assert sent(dialect, "tool", subset) == (subset, [])
    assert sent(dialect, "format", subset) == (subset, [])


@pytest.mark.parametrize("dialect", FORMATS)
def test_the_model_reads_in_descriptions_what_is_not_enforced(dialect: str) -> None:
    number = {"type": "number", "minimum": 1, "description": "An age"}
    items = {"type": "array", "minItems": 2, "uniqueItems": False, "enum": [{"a": 1}]}

    found, changes = sent(dialect, "format", {"properties": {"a": number, "b": items}})

    assert found == {
        "properties": {
            "a": {"type": "number", "description": "An age\n\n{minimum: 1}"},
            "b": {"type": "array", "description": '{minItems: 2, enum: [{"a":1}]}'},
        },
        "additionalProperties": False,
    }
    assert changes == [
        "enforces only a part of JSON Schema: moved enum, minItems, minimum into descriptions; "
        "set additionalProperties to false"
    ]


def test_the_root_may_be_a_reference() -> None:
    root = {"$ref": "#/definitions/A", "title": "T", "definitions": {"A": {"type": "object"}}}

    found, _ = sent("anthropic", "format", root)

    assert found == {"$ref": "#/definitions/A", "definitions": {"A": CLOSED}}


def test_a_change_of_meaning_is_named() -> None:
    reference = {"$ref": "#/$defs/A", "description": "d"}

    _, changes = sent("anthropic", "format", of({"oneOf": [reference]}))

    assert changes == [
        "enforces only a part of JSON Schema: dropped description beside $ref; sent oneOf as anyOf"
    ]


@pytest.mark.parametrize("strict", [None, False])
@pytest.mark.parametrize("dialect", FORMATS)
def test_the_schema_of_a_plain_tool_is_sent_as_it_is(dialect: str, strict: bool | None) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 0}}}
    plain = {"tools": [function("f", parameters=schema, strict=strict), function("g", strict=True)]}

    body, _ = rendered(dialect, plain)

    assert json.dumps(schema) in json.dumps(body)


def test_the_request_itself_is_not_changed() -> None:
    request = parse(asked("format", SCHEMAS["lists"]))

    fit_schemas(request)

    assert request == parse(asked("format", SCHEMAS["lists"]))


def nest(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"minimum": 1}
    for _ in range(depth):
        schema = {"items": schema}
    return schema


def test_the_deepest_schema_of_a_request_is_fitted() -> None:
    request = parse({"messages": HI, **asked("format", nest(490))})

    fitted, changes = fit_schemas(request)

    assert "minimum: 1" in str(fitted.response_format)
    assert changes


def test_the_cost_is_linear() -> None:
    def measure(count: int) -> float:
        wide = {f"p{n}": {"minimum": n, "not": {"enum": [n]}, "oneOf": [{}]} for n in range(count)}
        request: ChatRequest = parse(asked("format", {"properties": wide}))
        begun = time.process_time()
        fit_schemas(request)
        return time.process_time() - begun

    small = min(measure(1000) for _ in range(5))

    assert min(measure(8000) for _ in range(3)) < 8 * 3 * small


def test_keywords_that_a_client_invents_make_no_long_notice() -> None:
    schema = {f"{'x' * 1000}{number}": 1 for number in range(1000)}

    _, changes = fit_schemas(parse(asked("format", schema)))

    assert len(changes[0]) < 1000
