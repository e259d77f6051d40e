"""Tools that Anthropic defines and the client runs, as functions for other models.

Claude knows their schemas, so requests have only their types. The schemas here follow Anthropic's
documentation of each tool. Tools that need a model trained for them, such as computer use, and
those that Anthropic runs are not included.
"""

from typing import Any, Final

from ....requests import Function, Tool

_TEXT: Final = {"type": "string"}
_LINES: Final = {
    "type": "array",
    "items": {"type": "integer"},
    "description": "The first and the last line to view, counted from 1; -1 is the end.",
}
_EDITING: Final[dict[str, Any]] = {
    "path": {"type": "string", "description": "The path of the file or folder."},
    "view_range": _LINES,
    "file_text": {"type": "string", "description": "For create: what the file holds."},
    "old_str": {"type": "string", "description": "For str_replace: what is replaced, once."},
    "new_str": {"type": "string", "description": "For str_replace: what takes its place."},
    "insert_line": {"type": "integer", "description": "For insert: the line after which."},
    "insert_text": {"type": "string", "description": "For insert: what is inserted."},
}


def _commands(*names: str, **more: Any) -> dict[str, Any]:
    command = {"type": "string", "enum": list(names)}
    return {
        "type": "object",
        "properties": {"command": command, **_EDITING, **more},
        "required": ["command"],
    }


_FUNCTIONS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "bash": (
        "Run a command in a shell that lasts, and return what it prints.",
        {
            "type": "object",
            "properties": {
                "command": {"type": "string", "description": "What to run."},
                "restart": {"type": "boolean", "description": "Whether to start the shell anew."},
            },
        },
    ),
    "text_editor": (
        "View, create and edit files.",
        _commands("view", "create", "str_replace", "insert"),
    ),
    "memory": (
        "Keep notes in files below /memories, and look them up.",
        _commands(
            "view",
            "create",
            "str_replace",
            "insert",
            "delete",
            "rename",
            old_path=_TEXT,
            new_path=_TEXT,
        ),
    ),
}


def find_client_tool(kind: str, name: str) -> Tool | None:
    """Return the function for a tool's type, such as "bash_20250124"; None for any other."""
    description, parameters = _FUNCTIONS.get(kind.rpartition("_")[0], (None, None))
    return Tool(Function(name, description, parameters)) if parameters else None
