"""Conversion of the tools of a Responses request to functions for other providers.

Tools come from `tools` and from items that add more of them, such as the results of a tool
search. Tools that OpenAI runs have no function; their types are listed to report that they
are omitted.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from ....bounds import MAX_TOOLS
from ....errors import RequestError
from ....requests import Function, Tool, convert_body
from ...answering.custom_tools import build_function
from ...reading.json_values import string
from .tool_mapping import CALLS, MAX_LABEL, ClientTool, Names

_MAX_KIND: Final = 60
"""Characters of a reported type."""

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


class OfferedTools:
    """Converts tools to functions, in order."""

    def __init__(self, definition: list[dict[str, Any]]) -> None:
        self.tools: dict[str, Tool] = {}
        """By provider name."""
        self.hosted: list[str] = []
        """The types of tools without a function."""
        self.ignored: dict[str, None] = {}
        """The paths of members of functions that other providers lack."""
        plain = (tool for tool in definition if tool.get("type", "function") == "function")
        self.names = Names({string(tool.get("name")) for tool in plain})
        for number, tool in enumerate(definition):
            self.add(tool, path=f"tools[{number}]")

    def add(self, definition: dict[str, Any], *, path: str) -> None:
        """Convert a tool.

        Raises:
            RequestError: `invalid_request`, the tool is invalid, or there are too many.
        """
        match definition.get("type", "function"):
            case "namespace":
                space = convert_body(definition, _Namespace, path=path)
                for number, tool in enumerate(space.tools):
                    self._add(tool, space=space.name, path=f"{path}.tools[{number}]")
            case _:
                self._add(definition, space=None, path=path)

    def label(self) -> Mapping[str, str]:
        """Return the label that is needed to render the calls of the tools later.

        Raises:
            RequestError: `invalid_request`, the label is too long.
        """
        if not self.names.tools:
            return {}
        label = msgspec.json.encode(self.names.tools)
        if len(label) > MAX_LABEL:
            raise RequestError(
                "invalid_request",
                f"tools: the names of namespaces and custom tools have {len(label)} bytes;"
                f" send at most {MAX_LABEL}",
            )
        return {CALLS: label.decode()}

    def _add(self, definition: dict[str, Any], *, space: str | None, path: str) -> None:
        match definition.get("type", "function"):
            case "function":
                tool = convert_body(definition, FunctionTool, path=path)
                for name in sorted(definition.keys() - FunctionTool.__struct_fields__ - {"type"}):
                    if definition[name] is not None:
                        self.ignored[f"tools[].{name[:_MAX_KIND]}"] = None
                function = Function(
                    tool.name, tool.description, tool.parameters, strict=tool.strict
                )
                self._offer(ClientTool("function", tool.name, space), function, path=path)
            case "custom":
                custom = convert_body(definition, _CustomTool, path=path)
                form = custom.format or _Format()
                function = build_function(
                    custom.name, custom.description, syntax=form.syntax, grammar=form.definition
                )
                self._offer(ClientTool("custom", custom.name, space), function, path=path)
            case "tool_search":
                search = convert_body(definition, _Search, path=path)
                if search.execution != "client":
                    # All tools are already offered: a search would find nothing new.
                    return
                client_tool = ClientTool("tool_search", "tool_search")
                schema = search.parameters or _SEARCH
                function = Function("tool_search", search.description, schema)
                self._offer(client_tool, function, path=path)
            case kind:
                self.hosted.append(str(kind)[:_MAX_KIND])

    def _offer(self, client_tool: ClientTool, function: Function, *, path: str) -> None:
        name = self.names.name_of(client_tool)
        self.tools[name] = Tool(msgspec.structs.replace(function, name=name))
        if len(self.tools) > MAX_TOOLS:
            raise RequestError(
                "invalid_request", f"{path}: more than {MAX_TOOLS} tools; send fewer"
            )
