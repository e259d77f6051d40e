"""Sample values for a JSON Schema: arguments of a tool call, or a structured answer.

It reads `type`, `enum`, `const`, `properties`, `required`, `items`, references to `$defs` and the
first branch of `anyOf`. Other keywords are ignored, so the value may violate them.
"""

from typing import Any, Final

import msgspec

MAX_VALUES: Final = 100
"""Number of values, and so their depth: schemas may refer to themselves many times over."""
MAX_TEXT: Final = 8192
"""Length of the JSON text."""

_VALUES: Final = {"integer": 3, "number": 2.5, "boolean": True, "null": None}
_TEXT: Final = "demo"
"""Coding agents offer tools that write files and run commands: a word that does no harm."""
_SAFE_INTEGER: Final = 2**53


def sample_json(schema: dict[str, Any], *, optional: bool = False) -> str:
    """Return a JSON object with made-up values.

    It has the required properties, and with `optional` all of them; `{}` if it were too long.
    """
    value = _Sampler(schema, optional=optional).sample(schema)
    text = msgspec.json.encode(value).decode() if isinstance(value, dict) else "{}"
    return text if len(text) <= MAX_TEXT else "{}"


class _Sampler:
    def __init__(self, root: dict[str, Any], *, optional: bool) -> None:
        definitions = root.get("$defs")
        self._definitions = definitions if isinstance(definitions, dict) else {}
        self._optional = optional
        self._remaining = MAX_VALUES

    def sample(self, schema: Any) -> Any:
        """Return a value."""
        self._remaining -= 1
        if self._remaining < 0 or not isinstance(schema, dict):
            return _TEXT
        if isinstance(reference := schema.get("$ref"), str):
            return self.sample(self._definitions.get(reference.removeprefix("#/$defs/")))
        if isinstance(branches := schema.get("anyOf"), list) and branches:
            return self.sample(branches[0])
        choices = [schema["const"]] if "const" in schema else schema.get("enum")
        if isinstance(choices, list) and choices and _is_plain(choices[0]):
            return choices[0]
        kind = schema.get("type", "object" if "properties" in schema else "string")
        kind = kind[0] if isinstance(kind, list) and kind else kind
        if kind == "object":
            return self._object(schema)
        if kind == "array":
            return [self.sample(schema.get("items"))]
        return _VALUES.get(kind, _TEXT) if isinstance(kind, str) else _TEXT

    def _object(self, schema: dict[str, Any]) -> dict[str, Any]:
        properties, required = schema.get("properties"), schema.get("required")
        properties = properties if isinstance(properties, dict) else {}
        names = properties if self._optional else required if isinstance(required, list) else ()
        return {
            name: self.sample(properties.get(name))
            for name in names
            if isinstance(name, str) and self._remaining > 0
        }


def _is_plain(value: Any) -> bool:
    """Return whether a value is short, and safe to encode: integers may have any size."""
    if isinstance(value, str):
        return len(value) <= MAX_TEXT
    return value is None or (isinstance(value, int | float) and abs(value) < _SAFE_INTEGER)
