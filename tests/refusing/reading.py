"""Readers of requests and JSON Schemas, for providers that refuse."""

from collections.abc import Iterator, Sequence
from typing import Any


def list_of(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def object_of(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def is_blank(value: Any) -> bool:
    return not isinstance(value, str) or not value.strip()


def has_duplicates(values: Sequence[str]) -> bool:
    return len(values) != len(set(values))


def schemas_in(schema: Any, path: str = "schema") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every schema of a schema with its path, and nothing that only looks like one."""
    if not isinstance(schema, dict):
        return
    yield path, schema
    for name in ("properties", "$defs", "definitions", "patternProperties"):
        for key, value in object_of(schema.get(name)).items():
            yield from schemas_in(value, f"{path}.{name}.{key}")
    for name in ("items", "additionalProperties", "not", "if", "then", "else", "contains"):
        yield from schemas_in(schema.get(name), f"{path}.{name}")
    for name in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for number, value in enumerate(list_of(schema.get(name))):
            yield from schemas_in(value, f"{path}.{name}[{number}]")


def is_object(schema: dict[str, Any]) -> bool:
    kind = schema.get("type")
    return kind == "object" or (isinstance(kind, list) and "object" in kind)
