"""Translation of Chat Completions requests with fields outside the request type.

Frameworks send back more than they received, providers define their own fields, and some
features have several forms. Equivalent forms are rewritten, unknown top-level fields are
passed on as `extras`, those of messages, parts, calls and tools as their `rest`. All others are
dropped, and their paths recorded in `left_out`.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import inspect

from ....errors import RequestError
from ....requests import Rest
from ...answering.custom_tools import build_function, encode_input
from ...reading.json_values import mapping, mappings, string
from ...reasoning_signatures import CLAUDE_REDACTED
from ...writing.chat_extras import check_extras

CUSTOM: Final = "custom_tools"
"""The label with the names of custom tools, as JSON."""

MAX_CUSTOM: Final = 4096
"""Characters of the JSON of all names of custom tools, which is stored with the stream."""
MAX_LEFT_OUT: Final = 50

_DROPPED: Final = frozenset(("client_metadata", "extra_headers", "functions", "function_call"))

Fields = dict[str, Any]


class TranslatedFields(NamedTuple):
    """A request in the fields of the request type, with other fields in `extras`."""

    fields: Fields
    extras: Fields
    members: tuple[str, ...]
    left_out: tuple[str, ...]
    labels: dict[str, str]


def translate(body: Fields, *, kinds: Mapping[str, inspect.Type]) -> TranslatedFields:
    """Rewrite the fields of a request to the known ones, of these types.

    Raises:
        RequestError: `invalid_request`, a limit is exceeded, or a field is deprecated.
    """
    if body.get("functions"):
        raise RequestError("invalid_request", "functions: deprecated by OpenAI; send tools")
    known = {name: value for name, value in body.items() if name in kinds}
    others = {name: value for name, value in body.items() if name not in kinds}
    custom = _rewrite_tools(known)
    if isinstance(known.get("messages"), list):
        known["messages"] = [_rewrite_message(message) for message in known["messages"]]
    if known.get("stop") == []:
        del known["stop"]
    selection = _Selection()
    fields = {name: selection.take(value, kinds[name], name)[0] for name, value in known.items()}
    extras = {}
    for name, value in others.items():
        if name in _DROPPED:
            selection.note(selection.left_out, name, value)
        elif value is not None:
            extras[name] = value
    check_extras(extras)
    labels = {CUSTOM: msgspec.json.encode(custom).decode()} if custom else {}
    if custom and len(labels[CUSTOM]) > MAX_CUSTOM:
        message = f"tools: the names of custom tools exceed {MAX_CUSTOM} characters"
        raise RequestError("invalid_request", message)
    return TranslatedFields(
        fields, extras, tuple(selection.members), tuple(selection.left_out), labels=labels
    )


class _Selection:
    """Separates the fields that a type lacks, and records their paths."""

    def __init__(self) -> None:
        self.members: dict[str, None] = {}
        """The paths of those in a `rest`."""
        self.left_out: dict[str, None] = {}

    def take(
        self, value: Any, kind: inspect.Type | None, path: str, *, keeps: bool = False
    ) -> tuple[Any, Fields]:
        """Return a value without unknown fields, and these, for the `rest` of an object above.

        A value of another type is unchanged. `keeps`: whether there is such an object.
        """
        match value, kind:
            case _, inspect.UnionType():
                return self.take(value, _choose(value, kind.types), path, keeps=keeps)
            case list(), inspect.ListType(item_type=item):
                return [self.take(one, item, f"{path}[]")[0] for one in value], {}
            case dict(), inspect.StructType(forbid_unknown_fields=True):
                kinds = {one.encode_name: one.type for one in kind.fields}
                keeps = kinds.pop("rest", None) is not None or keeps
                found, rest = {}, Rest()
                for name, inner in value.items():
                    if isinstance(inner, Rest):
                        rest |= inner
                    elif name in kinds:
                        where = f"{path}.{name}"
                        found[name], more = self.take(inner, kinds[name], where, keeps=keeps)
                        rest |= {name: more} if more else {}
                    elif name == kind.tag_field:
                        found[name] = inner
                    elif self.note(
                        self.members if keeps else self.left_out, f"{path}.{name}", inner
                    ):
                        rest[name] = inner
                if rest and any(one.encode_name == "rest" for one in kind.fields):
                    return {**found, "rest": rest}, {}
                return found, rest
            case _:
                return value, {}

    def note(self, paths: dict[str, None], path: str, value: object) -> bool:
        """Record the path of a field, unless its value is empty; return whether it is not."""
        if isinstance(value, dict) and value:
            value = [inner for inner in value.values() if inner is not None]
        if value in (None, "", []):
            return False
        if len(paths) < MAX_LEFT_OUT:
            paths.setdefault(path[:120])
        return True


def _choose(value: Any, kinds: tuple[inspect.Type, ...]) -> inspect.Type | None:
    """Return the type of a union that a value belongs to; None for a plain value."""
    if isinstance(value, list):
        return next((one for one in kinds if isinstance(one, inspect.ListType)), None)
    if not isinstance(value, dict):
        return None
    structs = [one for one in kinds if isinstance(one, inspect.StructType)]
    if len(structs) == 1:
        return structs[0]
    return next((one for one in structs if one.tag == value.get(one.tag_field or "")), None)


def _rewrite_tools(fields: Fields) -> list[str]:
    """Rewrite `tools` and `tool_choice`; return the names of the custom tools."""
    custom: list[str] = []
    if isinstance(fields.get("tools"), list):
        fields["tools"] = [_rewrite_tool(tool, custom) for tool in fields["tools"]]
    match fields.get("tool_choice"):
        case {"type": "custom", "custom": {"name": str(name)}}:
            fields["tool_choice"] = {"type": "function", "function": {"name": name}}
        case {"type": "allowed_tools", "allowed_tools": {"tools": list(tools), **allowed}}:
            fields["tool_choice"] = "required" if allowed.get("mode") == "required" else "auto"
            fields["allowed_tools"] = [_name_of(tool) for tool in tools] or None
            if not tools:
                fields["tool_choice"] = "none"
    return custom


def _rewrite_tool(tool: Any, custom: list[str]) -> Any:
    match tool:
        case {"type": "custom", "custom": {"name": str(name), **rest}, **others}:
            custom.append(name)
            original = Rest(custom={"name": name, **rest})
            form = mapping(rest.pop("format", None))
            grammar = mapping(form.get("grammar"))
            as_function = build_function(
                name,
                string(rest.get("description")),
                syntax=string(grammar.get("syntax")),
                grammar=string(grammar.get("definition")),
            )
            function = {**rest, **msgspec.to_builtins(as_function)}
            return {**others, "type": "function", "function": function, "rest": original}
        case {"function": {"cache_control": mark, **unmarked}}:  # LiteLLM's
            return {"cache_control": mark, **tool, "function": unmarked}
        case _:
            return tool


def _rewrite_message(message: Any) -> Any:
    if not isinstance(message, dict):
        return message
    message = {**message}
    for name, rewrite in (("content", _rewrite_part), ("tool_calls", _rewrite_call)):
        if isinstance(message.get(name), list):
            message[name] = [rewrite(one) for one in message[name]]
    return message


def _rewrite_part(part: Any) -> Any:
    match part:
        case {"type": "input_text" | "output_text", "text": str()}:
            return {**part, "type": "text"}
        case {"type": "image_url", "image_url": str(url)}:
            return {**part, "image_url": {"url": url}}
        case {"type": "thinking", "thinking": str() | list() as thought}:
            texts = [string(one.get("text")) for one in mappings(thought)]  # Mistral's form
            text = thought if isinstance(thought, str) else "".join(texts)
            signature = {"signature": part["signature"]} if part.get("signature") else {}
            return {"type": "reasoning", "text": text, **signature}
        case {"type": "redacted_thinking", "data": str(data)}:
            return {"type": "opaque", "format": CLAUDE_REDACTED, "data": data}
        case _:
            return part


def _rewrite_call(call: Any) -> Any:
    match call:
        case {"type": "custom", "custom": {"name": str(name), "input": str(text)}, **rest}:
            function = {"name": name, "arguments": encode_input(text)}
            original = Rest(custom=call["custom"])
            return {**rest, "type": "function", "function": function, "rest": original}
        case _:
            return call


def _name_of(tool: Any) -> Any:
    match tool:
        case {"function": {"name": name}} | {"custom": {"name": name}} | {"name": name}:
            return name
        case _:
            return tool
