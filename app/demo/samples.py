"""A value that fits a JSON Schema: arguments for a tool, or a structured answer.

Not a validator and not complete: it honours what tool definitions are made of (types, enums,
constants, defaults, required properties, nesting, references within the schema, choices,
bounds of numbers, texts and lists, formats, easy patterns) and passes over the rest.

A schema is never copied: what applies to a value is the list of the schemas that its
references, its `allOf` and its choice lead to. So the work is bounded by what is made.
"""

import math
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from .patterns import matching

MAX_DEPTH: Final = 6
"""How deep a value goes in what may be left out."""

MAX_REQUIRED_DEPTH: Final = 40
"""How deep it goes in what is required: a schema may require itself."""

MAX_VALUES: Final = 200
"""How far a value is filled in: schemas may refer to themselves, and many times over."""

MAX_PARTS: Final = 32
"""How many schemas may say something of one value."""

MAX_LOOKED_AT: Final = 64
"""How many names, choices or values of one list are looked at."""

MAX_TEXT: Final = 8192
"""The longest value: schemas may quote any text, and what a demo says is kept."""

_FORMATS: Final = {
    "date": "2026-01-31",
    "time": "09:30:00Z",
    "date-time": "2026-01-31T09:30:00Z",
    "duration": "PT30M",
    "email": "you@example.com",
    "idn-email": "you@example.com",
    "hostname": "example.com",
    "idn-hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.com/",
    "iri": "https://example.com/",
    "url": "https://example.com/",
    "uri-reference": "https://example.com/",
    "iri-reference": "https://example.com/",
    "uri-template": "https://example.com/{id}",
    "json-pointer": "/a",
    "relative-json-pointer": "0",
    "regex": "a",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "byte": "c2VzZXJhZ2k=",
}

_NAMED: Final = (
    (("city", "location", "place"), "{city}"),
    (("url", "uri", "link"), "https://example.com/"),
    (("directory", "folder", "dir", "cwd"), "."),
    (("path", "file", "filename"), "README.md"),
    (("pattern", "glob", "regex"), "README"),
    (("command", "cmd"), "echo hello"),
)
"""What stands for a text by a word in its name: what a tool can do something with."""

_KINDS: Final[dict[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "null": (type(None),),
}

Parts = list[dict[str, Any]]
"""All the schemas that say something of one value."""


def sample_json(schema: dict[str, Any], words: str, city: str, *, optional: bool = False) -> str:
    """Return an object as JSON text: `words` where a text is asked for, `city` where a place is.

    It has the required properties, and with `optional` all of them.
    """
    sampler = _Sampler(schema, words, city, optional=optional)
    value = sampler.value(schema, "", 0)
    if not isinstance(value, dict) or sampler.is_too_long:
        return "{}"
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= MAX_TEXT else "{}"


class _Sampler:
    def __init__(self, root: dict[str, Any], words: str, city: str, *, optional: bool) -> None:
        self._root = root
        self._words = words
        self._city = city
        self._optional = optional
        self._left = MAX_VALUES
        self._text_left = MAX_TEXT

    @property
    def is_too_long(self) -> bool:
        return self._text_left < 0

    def value(self, schema: Any, name: str, depth: int, *, ordinal: int = 0) -> Any:
        """Make a value; those of one list, with different ordinals, differ where they can."""
        self._left -= 1
        parts = self._parts(schema)
        found, given = self._given(parts, ordinal)
        if found:
            return given
        match _kind(parts):
            case "object":
                return self._object(parts, depth, ordinal)
            case "array":
                return self._array(parts, name, depth)
            case "integer" | "number" as kind:
                return _number(parts, whole=kind == "integer", ordinal=ordinal)
            case "boolean":
                return ordinal % 2 == 0
            case "null":
                return None
            case _:
                return self._string(parts, name, ordinal)

    def _parts(self, schema: Any) -> Parts:
        """Follow references, take all of `allOf` and the first good branch of a choice."""
        parts: Parts = []
        waiting = [schema]
        steps = 0
        while waiting and len(parts) < MAX_PARTS and steps < 2 * MAX_PARTS:
            steps += 1
            one = waiting.pop()
            if not isinstance(one, dict):
                continue
            parts.append(one)
            if isinstance(one.get("$ref"), str):
                waiting.append(self._referred(one["$ref"]))
            for key in ("anyOf", "oneOf"):
                if isinstance(one.get(key), list) and one[key]:
                    waiting.append(self._branch(one[key]))
            if isinstance(one.get("allOf"), list):
                waiting.extend(reversed(one["allOf"][:MAX_PARTS]))
        return parts

    def _branch(self, branches: list[Any]) -> Any:
        """Choose the first branch that is more than null."""
        for branch in islice(branches, MAX_LOOKED_AT):
            if isinstance(branch, dict) and branch.get("type") != "null":
                return branch
        return branches[0]

    def _referred(self, reference: str) -> Any:
        found: Any = self._root
        for key in unquote(reference[:1000]).removeprefix("#").split("/")[1:]:
            key = key.replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and key.isdecimal() and len(key) < 6:
                found = found[int(key)] if int(key) < len(found) else None
            else:
                found = found.get(key) if isinstance(found, dict) else None
        return found

    def _given(self, parts: Parts, ordinal: int) -> tuple[bool, Any]:
        """Take a value that the schema names itself: whether there is one, and which."""
        for part in parts:
            if "const" in part:
                return True, self._kept(part["const"])
        for part in parts:
            match part.get("enum"):
                case [_, *_] as values:
                    fitting = [one for one in values[:MAX_LOOKED_AT] if _fits(parts, one)]
                    chosen = fitting or values[:1]
                    return True, self._kept(chosen[ordinal % len(chosen)])
        for part in parts:
            if "default" in part and ordinal == 0 and _fits(parts, part["default"]):
                return True, self._kept(part["default"])
        return False, None

    def _kept(self, value: Any) -> Any:
        """Count what a value of the schema's own takes, and leave it out if that is too much."""
        waiting = [value]
        while waiting and self._text_left >= 0:
            one = waiting.pop()
            self._text_left -= 2 + (len(one) if isinstance(one, str) else 0)
            if isinstance(one, dict):
                waiting.extend(islice(one.keys(), MAX_TEXT))
                waiting.extend(islice(one.values(), MAX_TEXT))
            elif isinstance(one, list):
                waiting.extend(one[:MAX_TEXT])
        return value if self._text_left >= 0 else None

    def _object(self, parts: Parts, depth: int, ordinal: int) -> dict[str, Any]:
        made: dict[str, Any] = {}
        least = _bound(parts, "minProperties", highest=True) or 0
        fills = self._optional and depth < MAX_DEPTH

        def wanted() -> Iterator[str]:
            yield from _required(parts)
            for part in parts:
                properties = part.get("properties")
                for name in properties if isinstance(properties, dict) else ():
                    if not fills and len(made) >= least:
                        return
                    yield name
            for number in range(1, MAX_LOOKED_AT):
                if len(made) >= least:
                    return
                yield f"name{number}"

        for name in wanted():
            if self._left <= 0 or depth >= MAX_REQUIRED_DEPTH:
                break
            if name not in made:
                schema = _property(parts, name)
                made[name] = self.value(schema, name, depth + 1, ordinal=ordinal)
        return made

    def _array(self, parts: Parts, name: str, depth: int) -> list[Any]:
        least = _bound(parts, "minItems", highest=True) or 0
        most = _bound(parts, "maxItems", highest=False)
        first = _first(parts, "prefixItems", list, _first(parts, "items", list, []))
        first = first[:MAX_LOOKED_AT]
        distinct = any(part.get("uniqueItems") is True for part in parts)
        rest = _first(parts, "items", dict, None)
        count = max(least, len(first), 1) if depth < MAX_DEPTH else least
        if most is not None:
            count = min(count, most)
        made: list[Any] = []
        while len(made) < count and self._left > 0 and depth < MAX_REQUIRED_DEPTH:
            at = len(made)
            schema = first[at] if at < len(first) else rest
            made.append(self.value(schema, name, depth + 1, ordinal=at if distinct else 0))
        return made

    def _string(self, parts: Parts, name: str, ordinal: int) -> str:
        least = min(int(_bound(parts, "minLength", highest=True) or 0), MAX_TEXT)
        most = _bound(parts, "maxLength", highest=False)
        text = self._text(parts, name, least) + (f" {ordinal + 1}" if ordinal else "")
        if len(text) < least:
            text = (text or "a").ljust(least, "a")
        if most is not None and len(text) > most:
            text = text[: max(0, int(most))]
        return str(self._kept(text) or "")

    def _text(self, parts: Parts, name: str, least: int) -> str:
        for part in parts:
            pattern = part.get("pattern")
            if isinstance(pattern, str) and (text := matching(pattern, least=least)) is not None:
                return text
        for part in parts:
            if (sample := _FORMATS.get(str(part.get("format"))[:40])) is not None:
                return sample
        for words, sample in _NAMED:
            if any(word in name[:80].lower() for word in words):
                return sample.replace("{city}", self._city)
        return self._words


def _at(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None


def _names_in(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        yield from (name for name in islice(value, 2 * MAX_VALUES) if isinstance(name, str))


def _required(parts: Parts) -> Iterator[str]:
    """Yield the names that are required, and those that they require."""
    for part in parts:
        for name in _names_in(part.get("required")):
            yield name
            yield from _names_in(_at(part.get("dependentRequired"), name))


def _first(parts: Parts, key: str, kind: type, default: Any) -> Any:
    return next((part[key] for part in parts if isinstance(part.get(key), kind)), default)


def _property(parts: Parts, name: str) -> Any:
    """Find the schema of a property; all of them, where several schemas have it."""
    found = [
        part["properties"][name]
        for part in parts
        if isinstance(part.get("properties"), dict) and name in part["properties"]
    ]
    if not found:
        return _first(parts, "additionalProperties", dict, None)
    return found[0] if len(found) == 1 else {"allOf": found}


def _bound(parts: Parts, key: str, *, highest: bool) -> float | None:
    """Return the strictest of a bound, as JSON has it: 3.0 is 3."""
    values = [part[key] for part in parts if _is_number(part.get(key))]
    if not values:
        return None
    value = max(values) if highest else min(values)
    return int(value) if float(value).is_integer() else value


def _is_number(value: Any) -> bool:
    """Return whether a value is a number that every reader of JSON can take."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**53


def _kind(parts: Parts) -> str:
    """Choose a type that all schemas allow, and null last."""
    allowed: list[str] | None = None
    for part in parts:
        kind = part.get("type")
        kinds = [kind] if isinstance(kind, str) else kind if isinstance(kind, list) else None
        if kinds is None:
            continue
        kinds = [one for one in kinds[:MAX_LOOKED_AT] if isinstance(one, str)]
        if "number" in kinds:
            kinds.append("integer")
        before = kinds if allowed is None else allowed
        allowed = [one for one in before if one in kinds] or before
    if allowed:
        return next((one for one in allowed if one != "null"), "null")
    for key, kind in (("properties", "object"), ("required", "object"), ("items", "array")):
        if any(key in part for part in parts):
            return kind
    if any(key in part for part in parts for key in ("minimum", "maximum", "multipleOf")):
        return "number"
    return "string"


def _fits(parts: Parts, value: Any) -> bool:
    """Return whether a value is of a type that is allowed, and within the bounds of its kind."""
    for part in parts:
        kind = part.get("type")
        kinds = [kind] if isinstance(kind, str) else kind if isinstance(kind, list) else []
        types = [_KINDS[one] for one in kinds[:8] if isinstance(one, str) and one in _KINDS]
        if types and not any(type(value) in some for some in types):
            return False
    if isinstance(value, str):
        least = _bound(parts, "minLength", highest=True)
        most = _bound(parts, "maxLength", highest=False)
        return (least is None or len(value) >= least) and (most is None or len(value) <= most)
    if _is_number(value):
        low, high = _range(parts, 0)
        return (low is None or value >= low) and (high is None or value <= high)
    if isinstance(value, dict):
        return all(name in value for part in parts for name in _names_in(part.get("required")))
    return True


def _range(parts: Parts, step: float) -> tuple[float | None, float | None]:
    """Return the least and the greatest number, `step` inside of a bound that is excluded."""
    low = _bound(parts, "minimum", highest=True)
    high = _bound(parts, "maximum", highest=False)
    above = _bound(parts, "exclusiveMinimum", highest=True)
    below = _bound(parts, "exclusiveMaximum", highest=False)
    if any(part.get("exclusiveMinimum") is True for part in parts) and low is not None:
        above = low  # as draft 4 says it
    if any(part.get("exclusiveMaximum") is True for part in parts) and high is not None:
        below = high
    if above is not None:
        low = above + step if low is None else max(low, above + step)
    if below is not None:
        high = below - step if high is None else min(high, below - step)
    return low, high


def _number(parts: Parts, *, whole: bool, ordinal: int = 0) -> float:
    multiple = _bound(parts, "multipleOf", highest=True) or 0
    step = multiple if multiple > 0 else 0
    if whole:
        step = max(1, step if float(step).is_integer() else 1)
    low, high = _range(parts, 1 if whole else 0)
    value = (3 if whole else 2.5) + ordinal
    if not whole:
        above, below = _range(parts, 1)
        if (low, high) != (above, below):  # a bound is excluded: go half of the way in
            low, high = _inside(low, high)
    if low is not None:
        value = max(value, math.ceil(low) if whole else low)
    if high is not None:
        value = min(value, math.floor(high) if whole else high)
    if step and (whole or multiple > 0):
        value = _multiple(value, step, low, high)
    return int(value) if whole else value


def _inside(low: float | None, high: float | None) -> tuple[float | None, float | None]:
    """Narrow the bounds so that they are not touched."""
    if low is not None and high is not None:
        third = (high - low) / 3
        return low + third, high - third
    return None if low is None else low + 1, None if high is None else high - 1


def _multiple(value: float, step: float, low: float | None, high: float | None) -> float:
    """Return a multiple near a value, within the bounds if there is one."""
    found = math.floor(value / step) * step
    if low is not None and found < low:
        found = math.ceil(low / step) * step
    if high is not None and found > high:
        found = math.floor(high / step) * step
    return found
