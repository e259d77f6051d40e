"""Parsers of output items for provider-executed tools, and of citations.

Pure functions of an item as the provider sent it.
"""

from typing import Any, Final

from ...reading.json_values import (
    count,
    decode_or,
    make_raw,
    mapping,
    mappings,
    string,
    text_or_none,
)
from .. import NAME

XAI_TOOLS: Final = frozenset(
    (
        "view_x_video",
        "x_keyword_search",
        "x_semantic_search",
        "x_thread_fetch",
        "x_user_search",
    )
)
"""The custom tool calls that xAI executes; it has no custom tools of clients."""

CALLERS_ITEMS: Final = frozenset(
    (
        "apply_patch_call",
        "apply_patch_call_output",
        "computer_call",
        "computer_call_output",
        "local_shell_call",
        "local_shell_call_output",
        "mcp_approval_request",
        "mcp_approval_response",
        "shell_call",
        "shell_call_output",
        "tool_search_call",
        "tool_search_output",
    )
)
"""Requests to the client or its machine, and the responses to them."""

BRING_TOOLS: Final = ("tool_search_output", "additional_tools")
"""The items that add tools."""
_PLAIN: Final = ("function", "custom")

_CALLERS: Final = ("function_call", "function_call_output", "custom_tool_call_output")
_MORE: Final = (
    "mcp_approval_request",
    "mcp_list_tools",
    "program",
    "program_output",
    "search_results",  # Perplexity
    "tool_search_output",
)
_INPUTS: Final = ("action", "queries", "arguments", "code", "operation", "input", "revised_prompt")
_OUTPUTS: Final = ("output", "outputs", "results", "result", "tools", "error")
_TEXTS: Final = ("code_interpreter_call", "image_generation_call", "program")
"""The tools whose input is text, even if it looks like JSON."""
_URL_CITATION: Final = frozenset(("type", "url", "title", "start_index", "end_index"))
_IMAGE_TYPES: Final = {"svg": "image/svg+xml", "jpg": "image/jpeg"}


def is_provider_tool(item: dict[str, Any]) -> bool:
    """Return whether the provider executed the tool, or defines it."""
    kind = string(item.get("type"))
    if kind == "custom_tool_call":
        return string(item.get("name")) in XAI_TOOLS
    ran = kind.endswith(("_call", "_call_output")) and kind not in _CALLERS
    return ran or kind in _MORE


def needs_client(item: dict[str, Any]) -> bool:
    """Return whether the client has to act on the item before the model can continue."""
    kind = string(item.get("type"))
    if kind == "mcp_approval_request":
        return True
    if kind == "tool_search_call":
        return item.get("execution") == "client"
    # OpenAI's hosted shell runs in a container.
    environment = mapping(item.get("environment")).get("type")
    return kind in CALLERS_ITEMS and kind.endswith("_call") and environment != "container_reference"


def select_client_tools(item: dict[str, Any]) -> dict[str, Any]:
    """Return an item that adds tools, limited to those that the client executes.

    All others are in the `tools` of a request, which are checked against the upstream's
    settings.
    """
    if item.get("type") not in BRING_TOOLS:
        return item
    tools = [select_in_namespace(tool) for tool in mappings(item.get("tools"))]
    return {**item, "tools": [tool for tool in tools if tool.get("type") in (*_PLAIN, "namespace")]}


def select_in_namespace(tool: dict[str, Any]) -> dict[str, Any]:
    """Return a namespace limited to the client's own tools, and any other tool unchanged."""
    if tool.get("type") != "namespace":
        return tool
    tools = [one for one in mappings(tool.get("tools")) if one.get("type") in _PLAIN]
    return {**tool, "tools": tools}


def key_of(item: dict[str, Any]) -> str:
    """Return the key that a request to the client and its response share."""
    key = string(item.get("approval_request_id")) or string(item.get("call_id"))
    return key or ("" if is_answer(item) else string(item.get("id")))


def is_answer(item: dict[str, Any]) -> bool:
    """Return whether an item is a tool's output or a decision of the client."""
    return string(item.get("type")).endswith(("_output", "_response"))


def name_tool(item: dict[str, Any]) -> str:
    """Return "web_search" for a `web_search_call`, and for an MCP call the tool's own name."""
    kind = string(item.get("type"))
    name = string(item.get("name")) or kind.removesuffix("_output").removesuffix("_call")
    return name or kind


def read_values(item: dict[str, Any], *, typed: str) -> dict[str, Any]:
    """Return `input` and `output` if the item has them; `typed` is the joined input deltas."""
    values: dict[str, Any] = {}
    value = next((item[key] for key in _INPUTS if item.get(key)), typed)
    if value:
        plain = item.get("type") in _TEXTS or not isinstance(value, str)
        values["input"] = value if plain else decode_or(value, value)
    if item.get("type") != "image_generation_call":  # its result is emitted as media
        found = [item[key] for key in _OUTPUTS if item.get(key) is not None]
        if found:
            values["output"] = found[0]
    return values


def read_image(item: dict[str, Any]) -> tuple[str, str] | None:
    """Return media type and base64 data of a generated image."""
    data = text_or_none(item.get("result"))
    if item.get("type") != "image_generation_call" or data is None:
        return None
    kind = text_or_none(item.get("output_format")) or "png"
    return _IMAGE_TYPES.get(kind, f"image/{kind}"), data


def read_citation(annotation: dict[str, Any], *, whole: bool) -> dict[str, Any]:
    """Return the arguments of `EventBuilder.source`; `whole` keeps unknown fields of a URL's."""
    start, end = annotation.get("start_index"), annotation.get("end_index")
    kind = annotation.get("type")
    if kind == "file_citation":
        # `index` is the citation's position; in a `file_path` it counts files.
        start = end = annotation.get("index")
    return {
        "url": text_or_none(annotation.get("url")),
        "document": text_or_none(annotation.get("filename"))
        or text_or_none(annotation.get("file_id")),
        "title": text_or_none(annotation.get("title")),
        "span": (count(start), count(end)),
        # Fields of a file citation may not be null (OpenAI's schema).
        "raw": None
        if kind in (None, "url_citation") and not (whole and annotation.keys() - _URL_CITATION)
        else make_raw(NAME, {k: v for k, v in annotation.items() if v is not None}),
    }
