"""The tools that a demo calls, and sample values: their arguments, and structured answers.

Only read-only tools are called, guessed from their names: coding agents offer tools that write
files and run commands, and the demo's arguments are made up. Of a JSON Schema, samples follow
`type`, `enum`, `const`, `properties`, `required`, `items`, references to `$defs` and the first
branch of `anyOf`. Other keywords are ignored, so the value may violate them.
"""

import re
from typing import Any, Final

import msgspec

from .request import DemoRequest, Tool
from .texts import TOOLS

MOST: Final = 2
"""Tools called at once."""


_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def chosen(request: DemoRequest) -> list[Tool]:
    """Return the tools to call now; none if the answer is text."""
    tools = request.tools or []
    choice = request.tool_choice
    if isinstance(choice, Tool):
        named = [tool for tool in tools if tool.function.name == choice.function.name]
        return [] if request.results else named[:1]
    if choice == "none" or not tools:
        return []
    forced = choice == "required"
    if request.results:
        final = [tool for tool in tools if tool.function.name.lower() in TOOLS.final]
        return final[:1] if forced else []
    if not forced and request.model != "demo-tools":
        return []
    most = 1 if request.parallel_tool_calls is False else MOST
    harmless = [tool for tool in tools if _words_of(tool.function.name).isdisjoint(TOOLS.changing)]
    reading = [t for t in harmless if not _words_of(t.function.name).isdisjoint(TOOLS.reading)]
    return (reading or harmless)[:most] or (tools[:1] if forced else [])


def _words_of(name: str) -> frozenset[str]:
    """Return the words of a tool's name, without the MCP server's before it."""
    base_name = name.rpartition("__")[2] or name
    return frozenset(word.lower() for word in _WORD.findall(base_name))


MAX_DEPTH: Final = 8
"""Depth of the value: schemas may contain themselves."""
MAX_VALUES: Final = 200
"""Number of values: schemas may refer to themselves many times over."""
MAX_TEXT: Final = 8192
"""Length of the JSON text."""

_SAFE_INTEGER: Final = 2**53
_NAMED: Final = {
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
        definitions = root.get("$defs")
        self._definitions = definitions if isinstance(definitions, dict) else {}
        self._words = words
        self._texts = {"city": city, "location": city, **_NAMED}
        self._optional = optional
        self._remaining = MAX_VALUES

    def sample(self, schema: Any, name: str, depth: int) -> Any:
        """Return a value; `name` is that of its property."""
        self._remaining -= 1
        if self._remaining < 0 or depth > MAX_DEPTH:
            return None
        if not isinstance(schema, dict):
            schema = {}
        if isinstance(reference := schema.get("$ref"), str):
            found = self._definitions.get(reference.removeprefix("#/$defs/"))
            return self.sample(found, name, depth + 1)
        if isinstance(branches := schema.get("anyOf"), list) and branches:
            return self.sample(branches[0], name, depth + 1)
        choices = [schema["const"]] if "const" in schema else schema.get("enum")
        if isinstance(choices, list) and choices and _is_plain(choices[0]):
            return choices[0]
        kind = schema.get("type", "object" if "properties" in schema else "string")
        match kind[0] if isinstance(kind, list) and kind else kind:
            case "object":
                return self._object(schema, depth)
            case "array":
                return [self.sample(schema.get("items"), name, depth + 1)]
            case "integer":
                return 3
            case "number":
                return 2.5
            case "boolean":
                return True
            case "null":
                return None
        lower = name[:80].lower()
        return next((self._texts[word] for word in self._texts if word in lower), self._words)

    def _object(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        properties, required = schema.get("properties"), schema.get("required")
        properties = properties if isinstance(properties, dict) else {}
        names = properties if self._optional else required if isinstance(required, list) else ()
        return {
            name: self.sample(properties.get(name), name, depth + 1)
            for name in names
            if isinstance(name, str) and self._remaining > 0
        }


def _is_plain(value: Any) -> bool:
    """Return whether a value is short, and safe to encode: integers may have any size."""
    if isinstance(value, str):
        return len(value) <= MAX_TEXT
    return value is None or (isinstance(value, int | float) and abs(value) < _SAFE_INTEGER)
