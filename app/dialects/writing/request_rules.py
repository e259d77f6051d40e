"""The types of rules that providers have for requests, and the fit of a request to them.

The rules themselves stand in `rules.py` of each format's `upstream/`, each with its source; a
builder fits a request by them and lists its changes, or refuses it and names the field.
"""

import re
from collections.abc import Callable, Container, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from ...requests import AssistantMessage, ChatRequest, ImagePart, Message, Tool, ToolChoice
from .conversation import parse_data_url, unsupported

NOT_BLANK: Final = re.compile(r".*\S.*", re.DOTALL)
NOT_EMPTY: Final = re.compile(r".+", re.DOTALL)
ANY_TEXT: Final = re.compile(r".*", re.DOTALL)


BEGIN: Final = "Begin."
"""The text of a turn of the user that a provider requires and the client did not send."""


def fit_turns(
    turns: list[dict[str, Any]],
    begin: dict[str, Any],
    *,
    refuses_first: Callable[[dict[str, Any]], bool] = lambda turn: False,
) -> list[str]:
    """Begin rendered turns with one of the user, if a format requires it; return the change."""
    if not turns:
        turns.append(begin)
        return [f"does not allow a conversation without a message: added {BEGIN!r}"]
    if not refuses_first(turns[0]):
        return []
    turns.insert(0, begin)
    return [f"does not allow a first message of the assistant: added {BEGIN!r}"]


class StopRules(NamedTuple):
    """The requirements of a format on stop sequences."""

    allowed: re.Pattern[str]
    """Others are dropped."""
    most: int | None = None
    """More are refused."""


def fit_stops(
    request: ChatRequest, rules: StopRules, *, format: str
) -> tuple[ChatRequest, list[str]]:
    """Return a request with the stop sequences that a format allows, and the changes.

    Raises:
        RequestError: there are too many.
    """
    stops = request.stops or []
    kept = [stop for stop in stops if rules.allowed.fullmatch(stop)]
    if rules.most is not None and len(kept) > rules.most:
        raise unsupported("stop", f"more than {rules.most} stop sequences", format=format)
    if len(kept) == len(stops):
        return request, []
    kind = "of white space" if rules.allowed is NOT_BLANK else "without a character"
    change = f"does not allow stop sequences {kind}: dropped"
    return replace(request, stop=kept or None), [change]


def check_parts(messages: Sequence[Message], refuse: Callable[[Any], str], *, format: str) -> None:
    """Refuse a part of a message for which `refuse` says what it is; "" for any other.

    Raises:
        RequestError: there is one.
    """
    for number, message in enumerate(messages):
        for index, part in enumerate(message.content if isinstance(message.content, list) else ()):
            if what := refuse(part):
                raise unsupported(f"messages[{number}].content[{index}]", what, format=format)


def name_image(part: Any, allowed: Container[str]) -> str:
    """Return what an inline image of another media type than these is; "" for any other part."""
    found = isinstance(part, ImagePart) and parse_data_url(part.image_url.url)
    return f"an image of the type {found[0][:80]!r}" if found and found[0] not in allowed else ""


def fit_object(schema: dict[str, Any] | None) -> dict[str, Any]:
    """Return a tool's schema with the members that a schema of arguments must have."""
    given = schema or {}
    if given.get("type", "object") != "object" or {"type", "properties"} <= given.keys():
        return given
    return {"type": "object", "properties": {}, **given}


def fit_tool_schemas(
    request: ChatRequest, refused: frozenset[str]
) -> tuple[ChatRequest, list[str]]:
    """Return a request whose tools' schemas lack these keywords at their top, and the changes.

    The keywords move into the tool's description, where the model reads them.
    """
    moved: set[str] = set()

    def fit(tool: Tool) -> Tool:
        schema = tool.function.parameters or {}
        found = {name: value for name, value in schema.items() if name in refused}
        if not found:
            return tool
        moved.update(found)
        rest = {name: value for name, value in schema.items() if name not in found}
        text = f"Arguments: {msgspec.json.encode(found).decode()}"
        text = "\n\n".join(filter(None, (tool.function.description, text)))
        return replace(tool, function=replace(tool.function, parameters=rest, description=text))

    tools = [fit(tool) for tool in request.tools or ()]
    if not moved:
        return request, []
    names = ", ".join(sorted(moved))
    change = f"does not allow {names} at the top of a tool's schema: moved into its description"
    return replace(request, tools=tools), [change]


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
