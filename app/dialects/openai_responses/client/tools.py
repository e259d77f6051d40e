"""The tools of a Responses request, as the functions that other providers are offered.

They stand in `tools`, and in items of the conversation that bring more of them: what a search
for tools found. Tools that OpenAI itself runs are no functions: they are named, for whoever
tells the client that they are left out.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from ....bounds import MAX_TOOLS
from ....errors import RequestError
from ....requests import Function, Tool, convert_body
from ...reading.json_values import string
from .tool_calls import CALLS, INPUT, MAX_LABEL, Called, Names

_MAX_KIND: Final = 60
"""Characters of a type that are told."""

_FREE: Final = "What it takes is any text, and not JSON. Give that text as the string `input`."

_SHELL: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "command": {
            "type": "array",
            "items": {"type": "string"},
            "description": "The program and its arguments.",
        },
        "working_directory": {"type": "string"},
        "timeout_ms": {"type": "integer"},
        "env": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    "required": ["command"],
}
_SEARCH: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}},
    "required": ["query"],
}

Name = Annotated[str, Meta(min_length=1, max_length=255)]


class FunctionTool(msgspec.Struct, frozen=True):
    name: Annotated[str, Meta(min_length=1)]
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class _Format(msgspec.Struct, frozen=True):
    type: str | None = None
    syntax: str | None = None
    definition: str | None = None


class _CustomTool(msgspec.Struct, frozen=True):
    name: Name
    description: str | None = None
    format: _Format | None = None


class _Namespace(msgspec.Struct, frozen=True):
    name: Name
    tools: list[dict[str, Any]]
    description: str | None = None


class _Search(msgspec.Struct, frozen=True):
    execution: str | None = None
    description: str | None = None
    parameters: dict[str, Any] | None = None


class Offered:
    """Converts tools to functions, in their order."""

    def __init__(self, given: list[dict[str, Any]]) -> None:
        self.tools: dict[str, Tool] = {}
        """By the names that providers know."""
        self.hosted: list[str] = []
        """The types of those that are no functions."""
        plain = (tool for tool in given if tool.get("type", "function") == "function")
        self.names = Names({string(tool.get("name")) for tool in plain})
        for number, tool in enumerate(given):
            self.add(tool, place=f"tools[{number}]")

    def add(self, given: dict[str, Any], *, place: str) -> None:
        """Take a tool.

        Raises:
            RequestError: `invalid_request`, it does not fit its type, or there are too many.
        """
        match given.get("type", "function"):
            case "namespace":
                space = convert_body(given, _Namespace, place=place)
                for number, tool in enumerate(space.tools):
                    self._add(tool, space=space.name, place=f"{place}.tools[{number}]")
            case _:
                self._add(given, space=None, place=place)

    def label(self) -> Mapping[str, str]:
        """Return what is needed of the tools to render their calls later.

        Raises:
            RequestError: `invalid_request`, it is too much.
        """
        if not self.names.called:
            return {}
        label = msgspec.json.encode(self.names.called)
        if len(label) > MAX_LABEL:
            raise RequestError(
                "invalid_request",
                f"tools: the names of namespaces and custom tools are {len(label)} bytes in all;"
                f" send at most {MAX_LABEL}",
            )
        return {CALLS: label.decode()}

    def _add(self, given: dict[str, Any], *, space: str | None, place: str) -> None:
        match given.get("type", "function"):
            case "function":
                tool = convert_body(given, FunctionTool, place=place)
                self._offer(Called("function", tool.name, space), tool, place=place)
            case "custom":
                custom = convert_body(given, _CustomTool, place=place)
                self._offer(Called("custom", custom.name, space), _free(custom), place=place)
            case "tool_search":
                search = convert_body(given, _Search, place=place)
                if search.execution != "client":
                    # All tools are offered at once: there is nothing to be searched for.
                    return
                called = Called("tool_search", "tool_search")
                schema = search.parameters or _SEARCH
                tool = FunctionTool("tool_search", search.description, schema)
                self._offer(called, tool, place=place)
            case "local_shell":
                tool = FunctionTool("local_shell", "Runs a command on the user's machine.", _SHELL)
                self._offer(Called("local_shell", "local_shell"), tool, place=place)
            case kind:
                self.hosted.append(str(kind)[:_MAX_KIND])

    def _offer(self, called: Called, tool: FunctionTool, *, place: str) -> None:
        name = self.names.name_of(called)
        function = Function(name, tool.description, tool.parameters, tool.strict)
        self.tools[name] = Tool(function)
        if len(self.tools) > MAX_TOOLS:
            raise RequestError(
                "invalid_request", f"{place}: there are more than {MAX_TOOLS} tools in all"
            )


def _free(tool: _CustomTool) -> FunctionTool:
    """Return the function that stands for a tool which takes any text."""
    said = [tool.description] if tool.description else []
    said.append(_FREE)
    form = tool.format
    if form is not None and form.definition:
        said.append(f"It has to be of this grammar ({form.syntax or 'lark'}):\n{form.definition}")
    schema = {
        "type": "object",
        "properties": {INPUT: {"type": "string"}},
        "required": [INPUT],
        "additionalProperties": False,
    }
    return FunctionTool(tool.name, "\n\n".join(said), schema)
