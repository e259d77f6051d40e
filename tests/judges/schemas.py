"""OpenAI's own schemas as a judge of what the relay sends in OpenAI's words."""

import functools
import json
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from tests.judges.folder import judge

EVENTS = "ResponseStreamEvent"


@functools.cache
def _schemas() -> dict[str, Any]:
    text = judge("schemas/openai.json").read_text(encoding="utf-8")
    found: dict[str, Any] = _modern(json.loads(text))["components"]["schemas"]
    # Not in every edition of the document; this is how its own errors are described.
    error = {"$ref": "#/components/schemas/Error"}
    whole = {"type": "object", "required": ["error"], "properties": {"error": error}}
    # OpenAI sends null until a response has ended, and Open Responses asks for it.
    found["ResponseUsage"] = {"anyOf": [found["ResponseUsage"], {"type": "null"}]}
    return {"ErrorResponse": whole, **found}


def _modern(value: Any) -> Any:
    """Rewrite what JSON Schema does not know: `nullable`, and `oneOf` with a discriminator."""
    if isinstance(value, list):
        return [_modern(one) for one in value]
    if not isinstance(value, dict):
        return value
    if value.get("nullable") is True:
        rest = {name: one for name, one in value.items() if name != "nullable"}
        return {"anyOf": [_modern(rest), {"type": "null"}]}
    found = {name: _modern(one) for name, one in value.items()}
    if "oneOf" in found and "discriminator" in found:
        found["anyOf"] = found.pop("oneOf")
    return found


@functools.cache
def _validator(name: str) -> Draft202012Validator:
    schemas = _schemas()
    assert name in schemas, f"the schemas have no {name}"
    root = {"$ref": f"#/components/schemas/{name}", "components": {"schemas": schemas}}
    return Draft202012Validator(root)


@functools.cache
def _events() -> dict[str, str]:
    """Return the schema of each event of a Responses stream, by the event's type."""
    schemas = _schemas()
    names = [row["$ref"].rpartition("/")[2] for row in schemas[EVENTS]["anyOf"]]
    return {schemas[name]["properties"]["type"]["enum"][0]: name for name in names}


def validate(name: str, value: Any) -> None:
    """Assert that a value is what the schema of that name says."""
    error = best_match(_validator(name).iter_errors(value))
    assert error is None, f"{name}: {error.json_path}: {error.message[:300]}"


def validate_event(event: dict[str, Any]) -> None:
    """Assert that an event of a Responses stream is one of those there are."""
    assert event["type"] in _events(), f"there is no event {event['type']!r}"
    validate(_events()[event["type"]], event)
