"""JSON Schemas that Claude and Bedrock enforce: those of structured output and strict tools.

The provider compiles them into a grammar, which knows a part of JSON Schema, and answers 400 to
any other keyword. As in Anthropic's SDKs, keywords that are not taken move into the description
of their schema, where the model reads them, and objects get `additionalProperties: false`.

Sources, read in November 2026:
- platform.claude.com/docs/en/build-with-claude/structured-outputs#json-schema-limitations, and
  `transform_schema` of anthropic 2.11.0 for Python, which does not send `pattern` either;
- docs.aws.amazon.com/bedrock/latest/userguide/structured-output.html, for all of Bedrock's models;
- `sanitizeJsonSchema` of @ai-sdk/anthropic 4.0.105, which sends `default`, `$id` and `$schema`;
- refusals: vercel/ai#13355 (2026-03-12), vercel/ai#14342, TabbyML/pochi#1501 (2026-04-29).
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from ...requests import ChatRequest, JsonSchemaFormat, Tool

_FORMATS: Final = frozenset(
    ("date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid")
)


def _takes_scalars(value: Any) -> bool:
    return isinstance(value, list) and not any(isinstance(one, dict | list) for one in value)


_TAKEN: Final[Mapping[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(("$id", "$schema", "title", "description", "default"), lambda _: True),
    **dict.fromkeys(("type", "required"), lambda _: True),
    "const": lambda value: not isinstance(value, dict | list),
    "enum": _takes_scalars,
    "format": lambda value: isinstance(value, str) and value in _FORMATS,
    "minItems": lambda value: value in (0, 1),
}
"""The keywords that are taken, each with the values that are."""

_NAMED: Final = ("properties", "$defs", "definitions")
"""The keywords with schemas by name."""

_LISTED: Final = ("items", "anyOf", "allOf", "oneOf")
"""The keywords with a schema, or a list of schemas."""

_BESIDE_REF: Final = frozenset(("$ref", "$defs", "definitions"))
"""The keywords of a schema with `$ref` that both SDKs send."""

_MAX_NAMED: Final = 20


class _Changes:
    """The changes to all schemas of a request."""

    def __init__(self) -> None:
        self.moved: set[str] = set()
        self.dropped: set[str] = set()
        self.others: set[str] = set()

    def list(self) -> list[str]:
        """Return them as the end of a sentence about the upstream, or nothing."""
        found = sorted(self.others)
        if self.dropped:
            found.insert(0, f"dropped {_name(self.dropped)} beside $ref")
        if self.moved:
            found.insert(0, f"moved {_name(self.moved)} into descriptions")
        return [f"enforces only a part of JSON Schema: {'; '.join(found)}"] if found else []


def fit_schemas(request: ChatRequest) -> tuple[ChatRequest, list[str]]:
    """Return a request whose enforced schemas have only what is taken, and the changes.

    The schemas of tools that are not strict are not enforced, and stay as they are.
    """
    fields: dict[str, Any] = {}
    changes = _Changes()
    wanted = request.response_format
    if isinstance(wanted, JsonSchemaFormat) and wanted.json_schema.schema is not None:
        schema = _fit(wanted.json_schema.schema, changes)
        json_schema = msgspec.structs.replace(wanted.json_schema, schema=schema)
        fields["response_format"] = msgspec.structs.replace(wanted, json_schema=json_schema)
    if request.tools and any(tool.function.strict for tool in request.tools):
        fields["tools"] = [_fit_tool(tool, changes) for tool in request.tools]
    found = changes.list()
    return (msgspec.structs.replace(request, **fields) if found else request), found


def _fit_tool(tool: Tool, changes: _Changes) -> Tool:
    function = tool.function
    if not function.strict:
        return tool
    schema = {"type": "object", **(function.parameters or {"properties": {}})}
    # The type of arguments is required, also beside a `$ref`.
    fitted = {"type": "object", **_fit(schema, changes)}
    function = msgspec.structs.replace(function, parameters=fitted)
    return msgspec.structs.replace(tool, function=function)


def _fit(schema: dict[str, Any], changes: _Changes) -> dict[str, Any]:
    """Return a schema with only what is taken."""
    root: dict[str, Any] = {}
    # Not recursive: a request may be nested more deeply than Python's stack.
    waiting: list[tuple[Any, Any, Any]] = [(schema, root, "")]
    while waiting:
        source, holder, place = waiting.pop()
        holder[place] = source
        if isinstance(source, dict):
            fitted, below = _fit_one(source, changes)
            holder[place] = fitted
            waiting += below
    found: dict[str, Any] = root[""]
    return found


def _fit_one(
    source: dict[str, Any], changes: _Changes
) -> tuple[dict[str, Any], list[tuple[Any, Any, Any]]]:
    """Return a schema without those below it, and these, each with its place."""
    fitted: dict[str, Any] = {}
    below: list[tuple[Any, Any, Any]] = []
    moved: dict[str, Any] = {}
    is_ref = isinstance(source.get("$ref"), str)
    for name, value in source.items():
        if is_ref and name not in _BESIDE_REF:
            changes.dropped |= {name} - {"type"}
        elif name in _NAMED and isinstance(value, dict):
            fitted[name] = dict(value)
            below += [(one, fitted[name], key) for key, one in value.items()]
        elif name in _LISTED and not (name == "oneOf" and "anyOf" in source):
            sent = "anyOf" if name == "oneOf" else name
            if sent != name:
                changes.others.add("sent oneOf as anyOf")
            if isinstance(value, list):
                fitted[sent] = [*value]
                below += [(one, fitted[sent], number) for number, one in enumerate(value)]
            else:
                fitted[sent] = value
                below.append((value, fitted, sent))
        elif name == "$ref" or ((takes := _TAKEN.get(name)) and takes(value)):
            fitted[name] = value
        elif name != "additionalProperties" and value is not None and value is not False:
            moved[name] = value
    if not is_ref and _is_object(source):
        fitted["additionalProperties"] = False
        if source.get("additionalProperties") is not False:
            changes.others.add("set additionalProperties to false")
    if moved:
        changes.moved.update(moved)
        texts = [f"{name}: {msgspec.json.encode(value).decode()}" for name, value in moved.items()]
        before = [source["description"]] if isinstance(source.get("description"), str) else []
        fitted["description"] = "\n\n".join([*before, f"{{{', '.join(texts)}}}"])
    return fitted, below


def _is_object(schema: dict[str, Any]) -> bool:
    kind = schema.get("type")
    named = "object" in kind if isinstance(kind, list) else kind == "object"
    return named or "properties" in schema or "additionalProperties" in schema


def _name(keywords: set[str]) -> str:
    """Return keywords as a text of bounded length: clients may invent some."""
    shown = [name[:40] for name in sorted(keywords)[:_MAX_NAMED]]
    more = len(keywords) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
