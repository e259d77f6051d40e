"""Translation of Chat Completions requests with fields outside the request type.

Frameworks send back more than they received, providers define their own fields, and some
features have several forms. Equivalent forms are rewritten, unknown top-level fields are
passed on as `extras`, all others are dropped and their paths recorded in `left_out`.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from ....errors import RequestError
from ...answering.custom_tools import build_function, encode_input
from ...reading.json_values import mapping, mappings, string
from ...reasoning_signatures import CLAUDE_REDACTED
from ...writing.extras import check_extras

FUNCTIONS: Final = "functions"
"""The label of a request with the deprecated `functions`."""
CUSTOM: Final = "custom_tools"
"""The label with the names of custom tools, as JSON."""

MAX_CUSTOM: Final = 4096
"""Characters of the JSON of all names of custom tools, which is stored with the stream."""
MAX_LEFT_OUT: Final = 50

_DROPPED: Final = frozenset(("client_metadata", "extra_headers"))
_SYSTEM: Final = frozenset(("role", "content", "name", "cache_control"))
_MESSAGES: Final[Mapping[str, frozenset[str]]] = {
    "system": _SYSTEM,
    "developer": _SYSTEM,
    "user": _SYSTEM,
    "tool": frozenset(("role", "content", "tool_call_id", "is_error", "cache_control")),
    "assistant": _SYSTEM
    | {"refusal", "tool_calls", "function_call", "reasoning_content", "reasoning"}
    | {"reasoning_details", "thinking_blocks", "annotations", "images", "audio", "parsed"},
}
_CACHEABLE: Final = frozenset(("type", "cache_control"))
_PARTS: Final[Mapping[str, frozenset[str]]] = {
    "text": _CACHEABLE | {"text"},
    "image_url": _CACHEABLE | {"image_url"},
    "input_audio": _CACHEABLE | {"input_audio"},
    "file": _CACHEABLE | {"file"},
    "refusal": frozenset(("type", "refusal")),
    "reasoning": frozenset(("type", "text", "signature", "encrypted", "format")),
    "opaque": frozenset(("type", "format", "data")),
}
_INNER: Final[Mapping[str, frozenset[str]]] = {
    "image_url": frozenset(("url", "detail")),
    "input_audio": frozenset(("data", "format")),
    "file": frozenset(("file_data", "file_id", "filename")),
}
_CALL: Final = frozenset(("id", "type", "function", "opaque", "extra_content", "index"))
_CALL_FUNCTION: Final = frozenset(("name", "arguments", "parsed_arguments"))
_TOOL: Final = _CACHEABLE | {"function"}
_FUNCTION: Final = frozenset(("name", "description", "parameters", "strict"))
_SCHEMA: Final = frozenset(("name", "schema", "description", "strict"))
_STREAM: Final = frozenset(("include_usage", "include_obfuscation"))

Fields = dict[str, Any]


class Foreign(NamedTuple):
    """A request in the fields of the request type, with other fields in `extras`."""

    fields: Fields
    extras: Fields
    left_out: tuple[str, ...]
    labels: dict[str, str]


def translate(body: Fields, *, known: Iterable[str]) -> Foreign:
    """Rewrite the fields of a request to the known ones.

    Raises:
        RequestError: `invalid_request`, a limit is exceeded.
    """
    return _Translation({*known}).run(body)


class _Translation:
    def __init__(self, known: set[str]) -> None:
        self._known = known
        self._left_out: dict[str, None] = {}
        self._labels: dict[str, str] = {}
        self._custom: list[str] = []

    def run(self, body: Fields) -> Foreign:
        fields: Fields = {}
        extras: Fields = {}
        deprecated: Fields = {}
        for name, value in body.items():
            if name in self._known:
                fields[name] = value
            elif name in ("functions", "function_call"):
                deprecated[name] = value
            elif name in _DROPPED:
                self._leave_out(name, value)
            elif value is not None:
                extras[name] = value
        check_extras(extras)
        if fields.get("stop") == []:
            del fields["stop"]
        self._translate_tools(fields, deprecated)
        if isinstance(fields.get("messages"), list):
            fields["messages"] = self._messages(fields["messages"])
        self._translate_options(fields)
        if self._custom:
            self._labels[CUSTOM] = msgspec.json.encode(self._custom).decode()
            if len(self._labels[CUSTOM]) > MAX_CUSTOM:
                message = f"tools: the names of custom tools exceed {MAX_CUSTOM} characters"
                raise RequestError("invalid_request", message)
        return Foreign(fields, extras, left_out=tuple(self._left_out), labels=self._labels)

    def _leave_out(self, path: str, value: object) -> None:
        """Record the path of a dropped field, unless its value is empty."""
        if isinstance(value, dict):
            value = [inner for inner in value.values() if inner is not None]
        if value not in (None, "", []) and len(self._left_out) < MAX_LEFT_OUT:
            self._left_out.setdefault(path[:120])

    def _select(self, value: Any, known: frozenset[str], *, path: str) -> Any:
        """Return an object without the unknown fields; record these."""
        if not isinstance(value, dict) or value.keys() <= known:
            return value
        for name in value.keys() - known:
            self._leave_out(f"{path}.{name}", value[name])
        return {name: value[name] for name in value if name in known}

    # Tools.

    def _translate_tools(self, fields: Fields, deprecated: Fields) -> None:
        if isinstance(fields.get("tools"), list):
            fields["tools"] = [self._tool(tool) for tool in fields["tools"]]
        functions = deprecated.get("functions")
        if functions and not fields.get("tools"):
            self._labels[FUNCTIONS] = "1"
            fields["tools"] = _as_tools(functions)
            if fields.get("parallel_tool_calls") is None:
                fields["parallel_tool_calls"] = False  # `function_call` allows one call
            choice = deprecated.get("function_call")
            named = isinstance(choice, dict)
            choice = {"type": "function", "function": choice} if named else choice
            if fields.get("tool_choice") is None:
                fields["tool_choice"] = choice
        self._translate_choice(fields)

    def _tool(self, tool: Any) -> Any:
        match tool:
            case {"type": "custom", "custom": {"name": str(name)} as custom}:
                self._custom.append(name)
                self._select(
                    custom, frozenset(("name", "description", "format")), path="tools[].custom"
                )
                rest = self._select(tool, _CACHEABLE | {"custom"}, path="tools[]")
                rest = {key: value for key, value in rest.items() if key == "cache_control"}
                return {"type": "function", "function": _as_function(name, custom), **rest}
            case {"function": dict(function)}:
                if "cache_control" in function:  # LiteLLM accepts it at either level
                    tool = {"cache_control": function["cache_control"], **tool}
                    function = {k: v for k, v in function.items() if k != "cache_control"}
                function = self._select(function, _FUNCTION, path="tools[].function")
                return self._select({**tool, "function": function}, _TOOL, path="tools[]")
            case _:
                return tool

    def _translate_choice(self, fields: Fields) -> None:
        match fields.get("tool_choice"):
            case {"type": "custom", "custom": {"name": str(name)}}:
                fields["tool_choice"] = {"type": "function", "function": {"name": name}}
            case {"type": "allowed_tools", "allowed_tools": {"tools": list(tools), **allowed}}:
                fields["tool_choice"] = "required" if allowed.get("mode") == "required" else "auto"
                fields["allowed_tools"] = [_name_of(tool) for tool in tools]
            case {"function": dict(function), **rest}:
                function = self._select(function, frozenset(("name",)), path="tool_choice.function")
                choice = {**rest, "function": function}
                fields["tool_choice"] = self._select(choice, _TOOL, path="tool_choice")

    # The conversation.

    def _messages(self, messages: list[Any]) -> list[Any]:
        found: list[Any] = []
        calls = _FunctionCalls()
        for message in messages:
            if not isinstance(message, dict):
                found.append(message)
                continue
            message = calls.take(message, found)
            known = _MESSAGES.get(string(message.get("role")))
            if known is not None:
                message = self._select(message, known, path="messages[]")
            content = message.get("content")
            if isinstance(content, list):
                message = {**message, "content": [self._part(part) for part in content]}
            if isinstance(message.get("tool_calls"), list):
                message = {**message, "tool_calls": [self._call(c) for c in message["tool_calls"]]}
            found.append(message)
        return found

    def _part(self, part: Any) -> Any:
        path = "messages[].content[]"
        match part:
            case {"type": "input_text" | "output_text", "text": str()}:
                part = {**part, "type": "text"}
            case {"type": "image_url", "image_url": str(url)}:
                part = {**part, "image_url": {"url": url}}
            case {"type": "thinking", "thinking": str() | list() as thought}:
                texts = [thought] if isinstance(thought, str) else _texts(thought)
                text = "".join(texts)
                signature = {"signature": part["signature"]} if part.get("signature") else {}
                return {"type": "reasoning", "text": text, **signature}
            case {"type": "redacted_thinking", "data": str(data)}:
                return {"type": "opaque", "format": CLAUDE_REDACTED, "data": data}
        kind = string(part.get("type")) if isinstance(part, dict) else ""
        if kind not in _PARTS:
            return part
        part = self._select(part, _PARTS[kind], path=path)
        if kind in _INNER and isinstance(part.get(kind), dict):
            inner = self._select(part[kind], _INNER[kind], path=f"{path}.{kind}")
            part = {**part, kind: inner}
        return part

    def _call(self, call: Any) -> Any:
        path = "messages[].tool_calls[]"
        match call:
            case {"type": "custom", "custom": {"name": str(name), "input": str(text)}}:
                rest = {key: value for key, value in call.items() if key != "custom"}
                function: Fields = {"name": name, "arguments": encode_input(text)}
                return self._select(
                    {**rest, "type": "function", "function": function}, _CALL, path=path
                )
            case {"function": dict(function)}:
                function = self._select(function, _CALL_FUNCTION, path=f"{path}.function")
                return self._select({**call, "function": function}, _CALL, path=path)
            case _:
                return call

    def _translate_options(self, fields: Fields) -> None:
        if "stream_options" in fields:
            options = fields["stream_options"]
            fields["stream_options"] = self._select(options, _STREAM, path="stream_options")
        match fields.get("response_format"):
            case {"type": "json_schema", "json_schema": dict(schema)} as form:
                form = self._select(
                    form, frozenset(("type", "json_schema")), path="response_format"
                )
                schema = self._select(schema, _SCHEMA, path="response_format.json_schema")
                fields["response_format"] = {**form, "json_schema": schema}
            case {"type": "text" | "json_object"} as form:
                form = self._select(form, frozenset(("type",)), path="response_format")
                fields["response_format"] = form


class _FunctionCalls:
    """Assigns ids to the calls and results of the deprecated `function_call` form."""

    def __init__(self) -> None:
        self._count = 0
        self._open: dict[str, deque[str]] = {}
        """The ids of calls without results, by function name."""

    def take(self, message: Fields, before: list[Any]) -> Fields:
        """Return a message in the `tool_calls` form; insert the call of an orphaned result
        before it.
        """
        match message:
            case {"role": "assistant", "function_call": {"name": str(name), **call}}:
                message = {k: v for k, v in message.items() if k != "function_call"}
                if not message.get("tool_calls"):
                    message["tool_calls"] = [self._call(name, call.get("arguments"))]
            case {"role": "function", "name": str(name)}:
                if not self._open.get(name):
                    before.append({"role": "assistant", "tool_calls": [self._call(name, "{}")]})
                rest = {k: v for k, v in message.items() if k not in ("role", "name")}
                content = "" if rest.get("content") is None else rest["content"]
                call_id = self._open[name].popleft()
                return {**rest, "role": "tool", "tool_call_id": call_id, "content": content}
        return message

    def _call(self, name: str, arguments: Any) -> Fields:
        call_id = f"call_{self._count}"
        self._count += 1
        self._open.setdefault(name, deque()).append(call_id)
        function = {"name": name, "arguments": "" if arguments is None else arguments}
        return {"id": call_id, "type": "function", "function": function}


def _as_tools(functions: Any) -> Any:
    if not isinstance(functions, list):
        return functions
    return [{"type": "function", "function": function} for function in functions]


def _as_function(name: str, custom: Fields) -> Fields:
    form = mapping(custom.get("format"))
    grammar = mapping(form.get("grammar"))
    function = build_function(
        name,
        string(custom.get("description")),
        syntax=string(grammar.get("syntax")),
        grammar=string(grammar.get("definition")),
    )
    fields: Fields = msgspec.to_builtins(function)
    return fields


def _texts(parts: list[Any]) -> list[str]:
    """Return the texts of parts, Mistral's form of thinking."""
    return [string(part.get("text")) for part in mappings(parts)]


def _name_of(tool: Any) -> Any:
    match tool:
        case {"function": {"name": name}} | {"custom": {"name": name}} | {"name": name}:
            return name
        case _:
            return tool
