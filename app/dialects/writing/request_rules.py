"""What the providers of a format refuse in turns and names of tools, as data, and the fit to it.

Each row has its source; a builder fits its turns by them, and says so by its changes.
"""

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from ...requests import AssistantMessage, ChatRequest, ToolChoice

BEGIN: Final = "Begin."
"""The text of a turn of the user that a provider requires and the client did not send."""


class TurnRules(NamedTuple):
    """The requirements of a format on its turns, beyond those of `ExchangeForm`."""

    user_first: bool = False
    """Whether the first turn must be the user's."""
    text_beside: str = ""
    """The kind of block that needs a text in its turn."""


ANTHROPIC_TURNS: Final = TurnRules()
"""A system prompt alone is refused: `messages: at least one message is required` (400 of the
Messages API, 2026-09)."""

CONVERSE_TURNS: Final = TurnRules(user_first=True, text_beside="document")
"""`A conversation must start with a user message`, `The value at messages is empty`, `A text block
must be included in the content when using documents` (ValidationException of Converse, 2026-03)."""


def fit_turns(
    turns: list[dict[str, Any]], rules: TurnRules, *, text: dict[str, Any] | None = None
) -> list[str]:
    """Add to rendered turns what a format requires; return the changes.

    `text` has the members of a text block beside its text.
    """
    added = [{**(text or {}), "text": BEGIN}]
    changes = []
    if not turns:
        changes.append(f"does not allow a conversation without a message: added {BEGIN!r}")
        turns.append({"role": "user", "content": added})
    elif rules.user_first and turns[0]["role"] != "user":
        changes.append(f"does not allow a first message of the assistant: added {BEGIN!r}")
        turns.insert(0, {"role": "user", "content": added})
    kind = rules.text_beside
    for turn in turns if kind else ():
        blocks = turn["content"]
        if any(kind in block for block in blocks) and not any("text" in one for one in blocks):
            changes.append(f"does not allow a {kind} without a text: added one")
            turn["content"] = [*blocks, {"text": f"See the {kind}."}]
    return list(dict.fromkeys(changes))


OPENAI_NAMES: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""`Invalid 'tools[0].function.name': string does not match pattern`, `string too long` (400 of Chat
Completions and Responses, 2025-12); compatible hosts repeat it."""

CONVERSE_NAMES: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""API reference of ToolSpecification."""

ANTHROPIC_NAMES: Final = re.compile(r"[a-zA-Z0-9_-]{1,128}")
"""`tools.0.custom.name: String should match pattern` (400 of the Messages API, 2026-03)."""

GEMINI_NAMES: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")
"""API reference of FunctionDeclaration."""

_SHORT: Final = 64
"""Characters that all formats allow."""
_DIGEST: Final = 10

MAX_NAME: Final = 1000
"""Characters of a tool's name that is shortened; longer than those of any MCP server."""


def find_short_names(chat: ChatRequest, allowed: re.Pattern[str] | None) -> dict[str, str]:
    """Return the names to send for those of tools that a format refuses, which MCP servers have.

    The same name is the same in every turn: it begins as the original, and ends in a digest.
    Names above `MAX_NAME` are left to the provider, since an answer would repeat them.
    """
    if allowed is None:
        return {}
    names = [tool.function.name for tool in chat.tools or ()]
    for message in chat.messages:
        if isinstance(message, AssistantMessage):
            names += [call.function.name for call in message.tool_calls or ()]
    return {
        name: _shorten(name)
        for name in names
        if 0 < len(name) <= MAX_NAME and not allowed.fullmatch(name)
    }


def rename_tools(chat: ChatRequest, names: Mapping[str, str]) -> ChatRequest:
    """Return a request with other names of tools: of those offered, chosen, allowed and called."""

    def rename(item: Any) -> Any:
        function = item.function
        if (name := names.get(function.name)) is None:
            return item
        return replace(item, function=replace(function, name=name))

    messages = [
        replace(message, tool_calls=[rename(call) for call in message.tool_calls])
        if isinstance(message, AssistantMessage) and message.tool_calls
        else message
        for message in chat.messages
    ]
    choice = chat.tool_choice
    return replace(
        chat,
        messages=messages,
        tools=chat.tools and [rename(tool) for tool in chat.tools],
        tool_choice=rename(choice) if isinstance(choice, ToolChoice) else choice,
        allowed_tools=chat.allowed_tools and [names.get(n, n) for n in chat.allowed_tools],
    )


def _shorten(name: str) -> str:
    plain = re.sub(r"[^a-zA-Z0-9_-]", "_", name)
    head = plain if plain[0].isalpha() else f"_{plain}"
    digest = sha256(name.encode(errors="replace")).hexdigest()[:_DIGEST]
    return f"{head[: _SHORT - _DIGEST - 1]}_{digest}"
