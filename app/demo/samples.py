"""A value that fits a JSON Schema: arguments for a tool, or a structured answer.

Not a validator and not complete: it honours what tool definitions are made of (types,
enums, defaults, required, nesting, references within the schema, bounds of numbers) and
passes over the rest.
"""

import math
from typing import Any, Final

import msgspec

MAX_DEPTH: Final = 6
MAX_VALUES: Final = 200
"""How far a value is filled in: schemas may refer to themselves, and many times over."""

MAX_TEXT: Final = 8192
"""The longest value: schemas may quote any text, and what a demo says is kept."""

_FORMATS: Final = {
    "date": "2026-01-31",
    "time": "09:30:00Z",
    "date-time": "2026-01-31T09:30:00Z",
    "email": "you@example.com",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}


def sample_json(schema: dict[str, Any], words: str, city: str) -> str:
    """Give an object as JSON text: `words` where a text is asked for, `city` where a place is."""
    value = _Sampler(schema, words, city).value(schema, "", 0)
    text = msgspec.json.encode(value if isinstance(value, dict) else {}).decode()
    return text if len(text) <= MAX_TEXT else "{}"


class _Sampler:
    def __init__(self, root: dict[str, Any], words: str, city: str) -> None:
        self._root = root
        self._words = words
        self._city = city
        self._left = MAX_VALUES

    def value(self, schema: Any, name: str, depth: int) -> Any:
        self._left -= 1
        schema = self._resolved(schema)
        for key in ("const", "default"):
            if key in schema:
                return schema[key]
        match schema.get("enum"):
            case [first, *_]:
                return first
        match _type(schema):
            case "object":
                return self._object(schema, depth)
            case "array":
                return self._array(schema, name, depth)
            case "integer" | "number" as kind:
                return _number(schema, whole=kind == "integer")
            case "boolean":
                return True
            case "null":
                return None
            case _:
                return self._string(schema, name)

    def _resolved(self, schema: Any) -> dict[str, Any]:
        """Follow `$ref` and take the first branch of a choice, a few steps at most."""
        for _ in range(MAX_DEPTH):
            if not isinstance(schema, dict):
                return {}
            if isinstance(schema.get("$ref"), str):
                schema = self._referred(schema["$ref"])
                continue
            branches = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
            if not isinstance(branches, list):
                return schema
            schema = branches[0]
        return {}

    def _referred(self, reference: str) -> Any:
        found: Any = self._root
        for key in reference.removeprefix("#").split("/")[1:]:
            found = found.get(key) if isinstance(found, dict) else None
        return found

    def _object(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        properties = schema.get("properties")
        if not isinstance(properties, dict) or self._is_full(depth):
            return {}
        return {name: self.value(inner, name, depth + 1) for name, inner in properties.items()}

    def _array(self, schema: dict[str, Any], name: str, depth: int) -> list[Any]:
        if self._is_full(depth):
            return []
        return [self.value(schema.get("items"), name, depth + 1)]

    def _is_full(self, depth: int) -> bool:
        return depth >= MAX_DEPTH or self._left <= 0

    def _string(self, schema: dict[str, Any], name: str) -> str:
        sample = _FORMATS.get(str(schema.get("format")))
        if sample is not None:
            return sample
        place = any(word in name.lower() for word in ("city", "location", "place"))
        text = self._city if place else self._words
        most = schema.get("maxLength")
        return text[:most] if isinstance(most, int) else text


def _type(schema: dict[str, Any]) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((one for one in kind if one != "null"), "null")
    if kind is None and "properties" in schema:
        return "object"
    return kind if isinstance(kind, str) else "string"


def _number(schema: dict[str, Any], *, whole: bool) -> float:
    value = 3 if whole else 2.5
    low, high = schema.get("minimum"), schema.get("maximum")
    if isinstance(low, int | float):
        value = max(value, math.ceil(low) if whole else low)
    if isinstance(high, int | float):
        value = min(value, math.floor(high) if whole else high)
    return value
