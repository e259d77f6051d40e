"""Encoder of partial function call arguments, values at JSON paths, as growing JSON text.

Vertex AI sends them on request [vertex--partial-args-two-calls]. The values arrive in text
order, so that each can be written immediately: a path closes the objects and lists that it
leaves, and opens those that it enters.
"""

import json
import re
from dataclasses import dataclass, field
from typing import Any

from ...reading.json_values import MAX_DEPTH, string

_Key = str | int

_SEGMENT = re.compile(
    r"\.(?P<name>[^.\[\]'\"]+)"
    r"|\[(?P<index>[0-9]{1,9})\]"
    r"|\['(?P<single>(?:[^'\\]|\\.)*+)'\]"
    r'|\["(?P<double>(?:[^"\\]|\\.)*+)"\]'
)


@dataclass(slots=True)
class _Open:
    """An unclosed object or list."""

    is_list: bool
    keys: set[_Key] = field(default_factory=set)
    last: _Key = ""

    @property
    def bracket(self) -> str:
        return "]" if self.is_list else "}"


class PartialArguments:
    """Encodes one call's arguments: the joined results of `feed` and `close`."""

    def __init__(self) -> None:
        self._open = [_Open(is_list=False)]
        self._string: list[_Key] | None = None
        """The path of a string that may continue."""

    def begin(self) -> str:
        return "{"

    def feed(self, partial: dict[str, Any]) -> str:
        """Append a value or a piece of a string; return the text that it adds.

        Raises:
            ValueError: its path is invalid, or precedes the current position.
        """
        path = parse_path(string(partial.get("jsonPath")))
        if path == self._string:
            return _inside(string(partial.get("stringValue")))
        text, value = self._move(path), _value(partial)
        if isinstance(value, str):
            self._string = path
            return f'{text}"{_inside(value)}'
        return text + json.dumps(value)

    def close(self) -> str:
        """Return the text that closes all open containers."""
        return self._end_string() + self._leave(0) + "}"

    def _move(self, path: list[_Key]) -> str:
        """Return the text between the last value and the one at `path`."""
        depth = 0
        while depth < min(len(path), len(self._open)) - 1 and self._open[depth].last == path[depth]:
            depth += 1
        pieces = [self._end_string(), self._leave(depth), self._enter(path[depth])]
        for key in path[depth + 1 :]:
            self._open.append(_Open(is_list=isinstance(key, int)))
            pieces += ("[" if isinstance(key, int) else "{", self._enter(key))
        return "".join(pieces)

    def _end_string(self) -> str:
        ended, self._string = self._string is not None, None
        return '"' if ended else ""

    def _leave(self, depth: int) -> str:
        """Close the containers deeper than `depth`."""
        closed = self._open[depth + 1 :]
        del self._open[depth + 1 :]
        return "".join(container.bracket for container in reversed(closed))

    def _enter(self, key: _Key) -> str:
        """Begin a member of the innermost object or list."""
        container = self._open[-1]
        if container.is_list != isinstance(key, int) or key in container.keys:
            raise ValueError("the path of a value does not match the preceding ones")
        if container.is_list and key != len(container.keys):
            raise ValueError("a list has a gap")
        comma = "," if container.keys else ""
        container.keys.add(key)
        container.last = key
        return comma if container.is_list else f'{comma}"{_inside(str(key))}":'


def parse_path(text: str) -> list[_Key]:
    """Parse a JSON path to one value, such as $.a[0]['b'].

    Raises:
        ValueError: the path has other syntax, or is too deep.
    """
    at, path = 1, list[_Key]()
    while text[:1] == "$" and at < len(text) and (match := _SEGMENT.match(text, at)):
        at = match.end()
        name, index, single, double = match.group("name", "index", "single", "double")
        if index is not None:
            path.append(int(index))
        elif name is not None:
            path.append(name)
        else:
            path.append(re.sub(r"\\(.)", r"\1", single if double is None else double))
    if not path or at < len(text) or len(path) >= MAX_DEPTH:
        raise ValueError("a value has an invalid path")
    return path


def _value(partial: dict[str, Any]) -> str | float | bool | None:
    match partial:
        case {"stringValue": str(value)} | {"boolValue": bool(value)}:
            return value
        case {"numberValue": int(value) | float(value)} if not isinstance(value, bool):
            return value
        case {"nullValue": _}:
            return None
    raise ValueError("a value has an unknown type")


def _inside(text: str) -> str:
    """Return the JSON encoding of a string without its quotes."""
    # An unpaired surrogate is escaped, since its other half may follow.
    whole = not re.search("[\ud800-\udfff]", text)
    return json.dumps(text, ensure_ascii=not whole)[1:-1]
