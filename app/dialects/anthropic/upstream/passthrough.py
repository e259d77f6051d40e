"""Passthrough of a client's own Messages request to an upstream with the same format.

The body is sent unchanged, except for blocks that the relay put into earlier answers of other
providers: Anthropic would refuse them.
"""

from typing import Any, Final

from ....requests import ClientBody
from ...reading.json_values import mappings, string
from ...reasoning_signatures import is_packed
from ...upstream_format import PassthroughBody
from .. import ATTRIBUTION, BETA
from .betas import choose_betas

_MARK: Final = {"type": "ephemeral"}


def pass_on(client_body: ClientBody, *, quirks: object = None) -> PassthroughBody:
    """Return the body and headers for Anthropic's API."""
    return PassthroughBody(_body(client_body), client_body.headers)


def pass_on_vertex(client_body: ClientBody, *, quirks: object = None) -> PassthroughBody:
    """Return the body and headers for Vertex AI."""
    body = _body(client_body)
    betas = choose_betas(_list_betas(client_body), "vertex", body)
    headers = {BETA: ",".join(betas.taken)} if betas.taken else {}
    return PassthroughBody(body, headers, betas.changes)


def pass_on_bedrock(client_body: ClientBody, *, quirks: object = None) -> PassthroughBody:
    """Return the body for Bedrock's invoke, which has the names of betas in the body."""
    body = _body(client_body)
    if isinstance(system := body.get("system"), list):
        body["system"] = [block for block in mappings(system) if not _is_attribution(block)]
    betas = choose_betas(_list_betas(client_body), "bedrock", body)
    if betas.taken:
        body["anthropic_beta"] = betas.taken
    return PassthroughBody(body, changes=betas.changes)


def _list_betas(client_body: ClientBody) -> list[str]:
    names = client_body.headers.get(BETA)
    return names.split(",") if names else []


def add_system(body: dict[str, Any], text: str) -> None:
    """Put a text before the system prompt, but after the billing header of Claude Code."""
    blocks = _list_blocks(body.get("system"))
    at = next((n for n, one in enumerate(blocks) if not _is_attribution(one)), len(blocks))
    body["system"] = [*blocks[:at], {"type": "text", "text": text}, *blocks[at:]]


def mark_cache(body: dict[str, Any]) -> None:
    """Mark the end of the system prompt, of the tools, and of the conversation."""
    for name in ("system", "tools"):
        if blocks := _list_blocks(body.get(name)):
            body[name] = [*blocks[:-1], {**blocks[-1], "cache_control": _MARK}]
    *before, last = body["messages"]
    if blocks := _list_blocks(last.get("content")):
        blocks = [*blocks[:-1], {**blocks[-1], "cache_control": _MARK}]
        body["messages"] = [*before, {**last, "content": blocks}]


def _list_blocks(content: object) -> list[dict[str, Any]]:
    """Return content as blocks; a text is one block."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return [*mappings(content)]


def _is_attribution(block: dict[str, Any]) -> bool:
    return string(block.get("text")).startswith(ATTRIBUTION)


def _body(client_body: ClientBody) -> dict[str, Any]:
    turns = [_turn(turn) for turn in mappings(client_body.body.get("messages"))]
    return {**client_body.body, "messages": [turn for turn in turns if turn is not None]}


def _turn(turn: dict[str, Any]) -> dict[str, Any] | None:
    """Return a turn without unsigned thinking; None if nothing remains."""
    content = turn.get("content")
    if turn.get("role") != "assistant" or not isinstance(content, list) or not content:
        return turn
    blocks = [_block(block) for block in mappings(content) if not _is_unsigned(block)]
    return {**turn, "content": blocks} if blocks else None


def _is_unsigned(block: dict[str, Any]) -> bool:
    """Return whether a block is thinking without a signature of Anthropic's."""
    match block.get("type"):
        case "thinking":
            signature = string(block.get("signature"))
            return not signature or is_packed(signature)
        case "redacted_thinking":
            return is_packed(string(block.get("data")))
        case _:
            return False


def _block(block: dict[str, Any]) -> dict[str, Any]:
    """Drop citations of other providers: they have an empty `encrypted_index`."""
    citations = block.get("citations")
    if block.get("type") != "text" or not isinstance(citations, list):
        return block
    accepted = [c for c in mappings(citations) if c.get("encrypted_index") != ""]
    rest = {name: value for name, value in block.items() if name != "citations"}
    return {**rest, "citations": accepted} if accepted else rest
