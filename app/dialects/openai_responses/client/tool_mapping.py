"""Mapping between clients' tools and the functions that other providers support.

Chat Completions, Anthropic and Gemini support functions with one name each. Tools in a
namespace, custom tools and tool search are sent to them as functions, and their calls are
converted back. A label of the stream stores the mapping.
"""

import hashlib
import re
from typing import Any, Final, Literal

import msgspec

from ...reading.json_values import compact_object

CALLS: Final = "response.tools"
"""The label with the tools other than plain functions, by provider name."""
MAX_LABEL: Final = 64 * 1024
"""Bytes of the label."""
MAX_NAME: Final = 64
"""Characters of a function's name that all providers accept."""

_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]")

Form = Literal["function", "custom", "tool_search"]

ITEMS: Final[dict[Form, tuple[str, str]]] = {
    "function": ("function_call", "fc"),
    "custom": ("custom_tool_call", "ctc"),
    "tool_search": ("tool_search_call", "tsc"),
}
"""The type of a call's item, and the prefix of its id."""


class ClientTool(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool by the client's name and form."""

    form: Form = "function"
    name: str = ""
    """In its namespace, or if it differs from the provider name."""
    namespace: str | None = None


class Names:
    """Assigns each tool of a request a unique name that all providers accept."""

    def __init__(self, taken: set[str]) -> None:
        self.tools: dict[str, ClientTool] = {}
        """The tools other than plain functions, by provider name."""
        self._taken = taken
        self._names: dict[ClientTool, str] = {}

    def name_of(self, tool: ClientTool) -> str:
        """Return the provider name of a tool, stable within a request."""
        if tool.form == "function" and tool.namespace is None:
            return tool.name
        known = self._names.get(tool)
        if known is not None:
            return known
        space = tool.namespace or ""
        whole = tool.name if not space else f"{space.removesuffix('__')}__{tool.name}"
        name, tries = _NOT_IN_NAMES.sub("_", whole), 0
        altered = not name or len(name) > MAX_NAME or name != whole
        while altered or name in self._taken:
            digest = hashlib.sha256(f"{tries}\0{space}\0{tool.name}".encode()).hexdigest()[:8]
            name, tries, altered = f"{name[: MAX_NAME - 9]}_{digest}", tries + 1, False
        self._taken.add(name)
        self._names[tool] = name
        self.tools[name] = tool
        return name


def parse_label(labels: dict[str, str] | None) -> dict[str, ClientTool]:
    """Decode the label."""
    label = (labels or {}).get(CALLS)
    return msgspec.json.decode(label, type=dict[str, ClientTool]) if label else {}


def begin_call(tool: ClientTool, *, id: str, name: str) -> dict[str, Any]:
    """Return the fields of the item of a started call."""
    fields: dict[str, Any] = {"status": "in_progress", "call_id": id}
    match tool.form:
        case "tool_search":
            return {**fields, "execution": "client", "arguments": {}}
        case form:
            fields |= {"name": tool.name or name}
            if tool.namespace is not None:
                fields["namespace"] = tool.namespace
            return {**fields, ("input" if form == "custom" else "arguments"): ""}


def read_arguments(form: Form, text: str) -> dict[str, Any]:
    """Return the item's fields for the arguments of a function call."""
    match form:
        case "function":
            return {"arguments": text}
        case "custom":
            return {"input": text}
        case _:
            return {"arguments": compact_object(text) or {}}
