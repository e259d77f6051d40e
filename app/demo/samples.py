"""Sample values for a JSON Schema: arguments of a tool call, or a structured answer.

It reads types, `enum`, `const`, `required`, `minimum`, `maximum` and `format`, follows `$ref` and
takes the first branch of `anyOf` and `oneOf` that is not null. Other keywords are ignored, so
the value may violate them.
"""

import math
from typing import Any, Final

import msgspec

MAX_DEPTH: Final = 8
"""Depth of the value: schemas may contain themselves."""
MAX_VALUES: Final = 200
"""Number of values: schemas may refer to themselves many times over."""
MAX_STEPS: Final = 8
"""References and choices that are followed for one value."""
MAX_TEXT: Final = 8192
"""Length of the JSON text."""

_SAFE_INTEGER: Final = 2**53
_FORMATS: Final = {
    "date": "2026-01-31",
    "time": "09:30:00Z",
    "date-time": "2026-01-31T09:30:00Z",
    "email": "you@example.com",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}
_NAMED: Final = {
    "city": "{city}",
    "location": "{city}",
    "url": "https://example.com/",
    "dir": ".",
    "path": "README.md",
    "file": "README.md",
    "pattern": "README",
    "command": "echo hello",
}
"""Texts by a word in the name of a property, with which real tools work."""


def sample_json(schema: dict[str, Any], words: str, city: str, *, optional: bool = False) -> str:
    """Return a JSON object, with `words` as its texts and `city` as its places.

    It has the required properties, and with `optional` all of them; `{}` if it were too long.
    """
    value = _Sampler(schema, words, city, optional=optional).sample(schema, "", 0)
    text = msgspec.json.encode(value).decode() if isinstance(value, dict) else "{}"
    return text if len(text) <= MAX_TEXT else "{}"


class _Sampler:
    def __init__(self, root: dict[str, Any], words: str, city: str, *, optional: bool) -> None:
        self._root = root
        self._words = words
        self._city = city
        self._optional = optional
        self._left = MAX_VALUES

    def sample(self, schema: Any, name: str, depth: int) -> Any:
        """Return a value; `name` is that of its property."""
        self._left -= 1
        schema = self._resolve(schema)
        choices = schema.get("enum")
        fixed = [schema["const"]] if "const" in schema else choices
        if isinstance(fixed, list) and fixed and _is_plain(fixed[0]):
            return fixed[0]
        match _type_of(schema):
            case "object":
                return self._object(schema, depth)
            case "array":
                fits = depth < MAX_DEPTH and self._left > 0
                return [self.sample(schema.get("items"), name, depth + 1)] if fits else []
            case "integer":
                return _clamp(3, schema, whole=True)
            case "number":
                return _clamp(2.5, schema, whole=False)
            case "boolean":
                return True
            case "null":
                return None
        sample = _FORMATS.get(str(schema.get("format"))[:40])
        if sample is None:
            lower = name[:80].lower()
            sample = next((_NAMED[word] for word in _NAMED if word in lower), self._words)
        return self._city if sample == "{city}" else sample

    def _resolve(self, schema: Any) -> dict[str, Any]:
        """Follow references and choices."""
        for _ in range(MAX_STEPS):
            if not isinstance(schema, dict):
                break
            branches = schema.get("anyOf") or schema.get("oneOf")
            if isinstance(schema.get("$ref"), str):
                schema = self._referred(schema["$ref"])
            elif isinstance(branches, list):
                plain = (one for one in branches[:MAX_STEPS] if isinstance(one, dict))
                schema = next((one for one in plain if one.get("type") != "null"), None)
            else:
                return schema
        return {}

    def _referred(self, reference: str) -> Any:
        found: Any = self._root
        for key in reference[:1000].removeprefix("#").split("/")[1:]:
            found = found.get(key) if isinstance(found, dict) else None
        return found

    def _object(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        properties = schema.get("properties")
        properties = properties if isinstance(properties, dict) else {}
        required = schema.get("required")
        names = properties if self._optional else required if isinstance(required, list) else ()
        made: dict[str, Any] = {}
        for name in names:
            if self._left <= 0 or depth >= MAX_DEPTH:
                break
            if isinstance(name, str):
                made[name] = self.sample(properties.get(name), name, depth + 1)
        return made


def _type_of(schema: dict[str, Any]) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((one for one in kind[:MAX_STEPS] if one != "null"), "null")
    if isinstance(kind, str):
        return kind
    return "object" if "properties" in schema else "array" if "items" in schema else "string"


def _is_plain(value: Any) -> bool:
    """Return whether a value is short, and safe to encode: integers may have any size."""
    if isinstance(value, str):
        return len(value) <= MAX_TEXT
    return value is None or (isinstance(value, int | float) and abs(value) < _SAFE_INTEGER)


def _clamp(value: float, schema: dict[str, Any], *, whole: bool) -> float:
    low, high = schema.get("minimum"), schema.get("maximum")
    if isinstance(low, int | float) and _is_plain(low):
        value = max(value, math.ceil(low) if whole else low)
    if isinstance(high, int | float) and _is_plain(high):
        value = min(value, math.floor(high) if whole else high)
    return value
