"""What a client's tools are called towards other providers, and what their calls become again.

Chat Completions, Anthropic and Gemini know functions, each by one name. A tool in a namespace,
one that takes any text, the search for tools and the client's shell are offered to them as
functions, and the calls of these come back to the client in its own words. What that needs is
kept in a label of the stream.
"""

import hashlib
import re
from typing import Any, Final, Literal

import msgspec

from ...reading.json_values import string
from ...writing.conversation import parse_object

CALLS: Final = "response.tools"
"""The label with the tools that are no plain functions, by the names that providers know."""
MAX_LABEL: Final = 64 * 1024
"""Bytes of it."""
MAX_NAME: Final = 64
"""Characters of a function's name that all providers take."""
INPUT: Final = "input"
"""The parameter of a function that stands for a tool which takes any text."""

_FOREIGN: Final = re.compile(r"[^A-Za-z0-9_-]")

Form = Literal["function", "custom", "tool_search", "local_shell"]

ITEMS: Final[dict[Form, tuple[str, str]]] = {
    "function": ("function_call", "fc"),
    "custom": ("custom_tool_call", "ctc"),
    "tool_search": ("tool_search_call", "tsc"),
    "local_shell": ("local_shell_call", "lsh"),
}
"""The type of the item that a call is, and the letters of its id."""


class Called(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool by the client's own name and form."""

    form: Form = "function"
    name: str = ""
    """In its namespace, or where it is another than providers know."""
    namespace: str | None = None


class Names:
    """Gives each tool of a request a name of its own, of letters that all providers take."""

    def __init__(self, taken: set[str]) -> None:
        self.called: dict[str, Called] = {}
        """The tools that are no plain functions, by these names."""
        self._taken = taken
        self._names: dict[Called, str] = {}

    def name_of(self, called: Called) -> str:
        """Return the name by which providers know a tool: the same each time."""
        if called.form == "function" and called.namespace is None:
            return called.name
        known = self._names.get(called)
        if known is not None:
            return known
        space = called.namespace or ""
        whole = called.name if not space else f"{space.removesuffix('__')}__{called.name}"
        name, tries = _FOREIGN.sub("_", whole), 0
        strange = not name or len(name) > MAX_NAME or name != whole
        while strange or name in self._taken:
            digest = hashlib.sha256(f"{tries}\0{space}\0{called.name}".encode()).hexdigest()[:8]
            name, tries, strange = f"{name[: MAX_NAME - 9]}_{digest}", tries + 1, False
        self._taken.add(name)
        self._names[called] = name
        self.called[name] = called
        return name


def parse_label(labels: dict[str, str] | None) -> dict[str, Called]:
    """Read the label again."""
    label = (labels or {}).get(CALLS)
    return msgspec.json.decode(label, type=dict[str, Called]) if label else {}


def begin_call(called: Called, *, id: str, name: str) -> dict[str, Any]:
    """Return the fields of the item of a call of which nothing has been said yet."""
    fields: dict[str, Any] = {"status": "in_progress", "call_id": id}
    match called.form:
        case "tool_search":
            return {**fields, "execution": "client", "arguments": {}}
        case "local_shell":
            return {**fields, "action": {"type": "exec", "command": [], "env": {}}}
        case form:
            fields |= {"name": called.name or name}
            if called.namespace is not None:
                fields["namespace"] = called.namespace
            return {**fields, ("input" if form == "custom" else "arguments"): ""}


def read_arguments(form: Form, text: str) -> dict[str, Any]:
    """Return the fields that say in the item what a function was called with."""
    match form:
        case "function":
            return {"arguments": text}
        case "custom":
            return {"input": text}
        case "tool_search":
            return {"arguments": parse_object(text) or {}}
        case _:
            return {"action": _read_action(text)}


def _read_action(text: str) -> dict[str, Any]:
    given = parse_object(text) or {}
    command = given.get("command")
    words = command if isinstance(command, list) else [command]
    env = given.get("env")
    action: dict[str, Any] = {
        "type": "exec",
        "command": [word for word in words if isinstance(word, str)],
        "env": {name: string(value) for name, value in env.items()}
        if isinstance(env, dict)
        else {},
    }
    for name, kind in (("timeout_ms", int), ("user", str), ("working_directory", str)):
        if isinstance(given.get(name), kind) and not isinstance(given[name], bool):
            action[name] = given[name]
    return action
