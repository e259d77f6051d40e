"""Anthropic's Messages API, and the same on Vertex AI and under Bedrock's `invoke`.

Sources, read in November 2026: the API reference and errors page of platform.claude.com, the
types of the SDK, and the error messages of these reports:
- empty messages, blank texts and stops: experientiallabs/experiential#804 (a table measured at
  the API), pydantic/pydantic-ai#4495 (2026-03-02), anomalyco/opencode#46577;
- calls and results: anthropics/claude-code#7929 (2025-09-20), #18947 (2026-01-18);
- thinking before calls: anomalyco/opencode#3077, Kilo-Org/kilocode#5219 (2026-01-20);
- cache marks: Wei-Shaw/sub2api#176, griffinmartin/opencode-claude-auth#121 (2026-04-03);
- schemas: vercel/ai#13355 (2026-03-12), vercel/ai#14372 (2026-04-13), Helicone/helicone#5639;
- betas: Wei-Shaw/sub2api#3150 (2026-06-09), BerriAI/litellm#22321 (2026-02-27), #19877,
  envoyproxy/ai-gateway#2512 (2026-08-11), anthropics/claude-code#49370 (2026-04-16).
"""

import re
from collections.abc import Mapping
from typing import Any

from anthropic.types.beta import message_create_params

from .reading import has_duplicates, is_blank, is_object, list_of, object_of, schemas_in

_FIELDS = frozenset(
    (
        *message_create_params.MessageCreateParamsStreaming.__annotations__,
        *("temperature", "top_p", "top_k", "inference_geo"),  # older models take these
    )
)
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_ID = re.compile(r"[a-zA-Z0-9_-]+")
_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_KEYWORDS = frozenset(
    (
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        *("minLength", "maxLength", "maxItems", "uniqueItems", "minProperties", "maxProperties"),
        *("patternProperties", "if", "then", "else", "not", "prefixItems", "contains"),
    )
)
_REFUSED_BETAS = {
    "vertex": ("oauth-", "claude-code-", "prompt-caching-scope-", "structured-outputs-", "effort-"),
    "bedrock": (
        *("oauth-", "claude-code-", "prompt-caching-scope-", "files-api-", "mcp-client-"),
        *("code-execution-", "structured-outputs-", "advanced-tool-use-", "web-search-"),
    ),
}
_VERSION = re.compile(r"claude-(?:[a-z]+-)?([0-9])(?:[-.]([0-9]{1,2}))?(?![0-9])")


def refuse_api(
    body: Mapping[str, Any], headers: Mapping[str, str] = {}, host: str = "", *, model: str = ""
) -> list[str]:
    """Return what Anthropic's own API answers."""
    found = [] if body.get("model") else ["model: Field required"]
    return found + _refuse(body, model=model, known=_FIELDS)


def refuse_vertex(
    body: Mapping[str, Any], headers: Mapping[str, str] = {}, host: str = "", *, model: str = ""
) -> list[str]:
    """Return what Vertex AI answers."""
    names = headers.get("anthropic-beta", "").split(",")
    known = {*_FIELDS, "anthropic_version", "anthropic_beta"} - {"model"}
    found = _betas([name.strip() for name in names], "vertex")
    if body.get("anthropic_version") != "vertex-2023-10-16":
        found.append("anthropic_version: Field required")
    return found + _refuse(body, model=model, known=known)


def refuse_bedrock(
    body: Mapping[str, Any], headers: Mapping[str, str] = {}, host: str = "", *, model: str = ""
) -> list[str]:
    """Return what Bedrock's `invoke` answers."""
    known = {*_FIELDS, "anthropic_version", "anthropic_beta"} - {"model", "stream"}
    found = _betas(list_of(body.get("anthropic_beta")), "bedrock")
    if body.get("anthropic_version") != "bedrock-2023-05-31":
        found.append("anthropic_version: Field required")
    return found + _refuse(body, model=model, known=known)


def _betas(names: list[str], platform: str) -> list[str]:
    wrong = [name for name in names if name.startswith(_REFUSED_BETAS[platform])]
    return [f"Unexpected value(s) {wrong} for the `anthropic-beta` header"] if wrong else []


def version_of(model: str) -> tuple[int, int] | None:
    """Return the version of Claude; None for models without one in their name."""
    found = _VERSION.search(model)
    return None if found is None else (int(found[1]), int(found[2] or 0))


def _refuse(body: Mapping[str, Any], *, model: str, known: set[str] | frozenset[str]) -> list[str]:
    found = [f"{name}: Extra inputs are not permitted" for name in sorted(body.keys() - known)]
    if not isinstance(body.get("max_tokens"), int):
        found.append("max_tokens: Field required")
    messages = list_of(body.get("messages"))
    if not messages:
        found.append("messages: at least one message is required")
    for number, message in enumerate(messages):
        found += _message(message, f"messages.{number}", last=number == len(messages) - 1)
    found += _pairs(messages)
    for number, block in enumerate(list_of(body.get("system"))):
        if block.get("type") != "text" or is_blank(block.get("text")):
            found.append(f"system.{number}: text content blocks must contain non-whitespace text")
    if body.get("system") == "":
        found.append("system: text content blocks must be non-empty")
    for stop in list_of(body.get("stop_sequences")):
        if is_blank(stop):
            found.append("stop_sequences: each stop sequence must contain non-whitespace")
    found += refuse_tools(body) + refuse_thinking(body, model) + _sampling(body, model)
    marks = count_marks(body)
    if marks > 4:
        found.append(f"A maximum of 4 blocks with cache_control may be provided. Found {marks}.")
    form = object_of(object_of(body.get("output_config")).get("format"))
    found += refuse_schema(form.get("schema"), "output_config.format.schema")
    if len(object_of(body.get("metadata")).get("user_id") or "") > 256:
        found.append("metadata.user_id: String should have at most 256 characters")
    return found


def _message(message: dict[str, Any], path: str, *, last: bool) -> list[str]:
    found, content = [], message.get("content")
    if message.get("role") not in ("user", "assistant"):
        return [f"{path}.role: Input should be 'user' or 'assistant'"]
    if content in ("", [], None):
        return [] if last and message["role"] == "assistant" else [f"{path}: non-empty content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list_of(content)
    for number, block in enumerate(blocks):
        found += _block(block, f"{path}.content.{number}", message["role"])
    if last and message["role"] == "assistant" and blocks[-1].get("type") == "text":
        text = blocks[-1].get("text", "")
        if text != text.rstrip():
            found.append("messages: final assistant content cannot end with trailing whitespace")
    return found


def _block(block: dict[str, Any], path: str, role: str) -> list[str]:
    found, kind = [], block.get("type")
    if kind == "text" and is_blank(block.get("text")):
        found.append(f"{path}: text content blocks must contain non-whitespace text")
    if kind in ("image", "document"):
        found += _source(object_of(block.get("source")), path, kind)
    if kind == "tool_use":
        if role != "assistant" or not _ID.fullmatch(str(block.get("id"))):
            found.append(f"{path}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
        if not _NAME.fullmatch(str(block.get("name"))):
            found.append(f"{path}.tool_use.name: String should match pattern")
        if not isinstance(block.get("input"), dict):
            found.append(f"{path}.tool_use.input: Input should be a valid dictionary")
    if kind == "tool_result":
        for number, one in enumerate(list_of(block.get("content"))):
            found += _block(one, f"{path}.content.{number}", role)
    if kind in ("thinking", "redacted_thinking") and "cache_control" in block:
        found.append(f"{path}.{kind}.cache_control: Extra inputs are not permitted")
    return found


def _source(source: dict[str, Any], path: str, kind: str) -> list[str]:
    media = source.get("media_type")
    match source.get("type"):
        case "base64" if kind == "image" and media not in _IMAGES:
            return [f"{path}.image.source.base64.media_type: Input should be one of {_IMAGES}"]
        case "base64" if kind == "document" and media != "application/pdf":
            return [f"{path}.document.source.base64.media_type: should be 'application/pdf'"]
        case "base64" | "file" | "content":
            return []
        case "text" if media == "text/plain" and source.get("data"):
            return []
        case "url" if str(source.get("url")).startswith(("https://", "http://")):
            return []
    return [f"{path}.{kind}.source: Input should be a valid source, not {source}"]


def _pairs(messages: list[dict[str, Any]]) -> list[str]:
    """Check that each call has its result at the beginning of the next turn, and none is stray."""
    found: list[str] = []
    turns: list[tuple[str, list[dict[str, Any]]]] = []
    for message in messages:  # consecutive ones of a role are one turn
        content = message.get("content")
        blocks = [{"type": "text"}] if isinstance(content, str) else list_of(content)
        if turns and turns[-1][0] == message.get("role"):
            turns[-1][1].extend(blocks)
        else:
            turns.append((str(message.get("role")), [*blocks]))
    waiting: set[str] = set()
    seen: list[str] = []
    for role, blocks in turns:
        results = [b["tool_use_id"] for b in blocks if b.get("type") == "tool_result"]
        if waiting - set(results):
            found.append("`tool_use` ids were found without `tool_result` blocks immediately after")
        if set(results) - waiting:
            found.append("unexpected `tool_use_id` found in `tool_result` blocks")
        if has_duplicates(results):
            found.append("each tool_use must have a single result")
        waiting = (
            {b["id"] for b in blocks if b.get("type") == "tool_use"} if role != "user" else set()
        )
        seen += [b["id"] for b in blocks if b.get("type") == "tool_use"]
    if waiting:
        found.append("`tool_use` ids were found without `tool_result` blocks immediately after")
    if has_duplicates(seen):
        found.append("`tool_use` ids must be unique")
    return found


def refuse_tools(body: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with the tools and the choice among them."""
    found = []
    tools = list_of(body.get("tools"))
    names = [str(tool.get("name")) for tool in tools]
    if has_duplicates(names):
        found.append("tools: Tool names must be unique.")
    for number, tool in enumerate(tools):
        if tool.get("type") not in (None, "custom"):
            continue
        schema = object_of(tool.get("input_schema"))
        if not _NAME.fullmatch(names[number]):
            found.append(f"tools.{number}.custom.name: String should match pattern")
        if schema.get("type") != "object":
            found.append(f"tools.{number}.custom.input_schema.type: Input should be 'object'")
        if {"oneOf", "allOf", "anyOf"} & schema.keys():
            found.append(
                f"tools.{number}.custom.input_schema: input_schema does not support oneOf, allOf, "
                "or anyOf at the top level"
            )
        if tool.get("strict"):
            found += refuse_schema(schema, f"tools.{number}.custom.input_schema")
    choice = object_of(body.get("tool_choice"))
    if choice and not tools:
        found.append("tool_choice: may only be specified while providing tools")
    if choice.get("type") == "tool" and choice.get("name") not in names:
        found.append(f"Tool '{choice.get('name')}' not found in provided tools")
    return found


def refuse_schema(schema: Any, path: str) -> list[str]:
    """Return what is wrong with a schema that is enforced."""
    found = []
    for where, one in schemas_in(schema, path):
        if wrong := sorted(_KEYWORDS & one.keys()):
            found.append(f"{where}: For '{one.get('type')}' type, {wrong} is not supported")
        if is_object(one) and one.get("additionalProperties") is not False:
            found.append(f"{where}: 'additionalProperties' must be explicitly set to false")
    return found


def refuse_thinking(body: Mapping[str, Any], model: str) -> list[str]:
    """Return what is wrong with the thinking that a request asks for."""
    found = []
    thinking = object_of(body.get("thinking"))
    if thinking.get("type") not in ("enabled", "adaptive"):
        return []
    budget = thinking.get("budget_tokens")
    if thinking["type"] == "enabled":
        if not isinstance(budget, int) or budget < 1024:
            found.append("thinking.enabled.budget_tokens: should be greater than or equal to 1024")
        elif budget >= (body.get("max_tokens") or 0):
            found.append("`max_tokens` must be greater than `thinking.budget_tokens`")
        found += _thinking_first(list_of(body.get("messages")))
    if body.get("temperature") not in (None, 1):
        found.append("`temperature` may only be set to 1 when thinking is enabled")
    if (body.get("top_p") or 1) < 0.95:
        found.append("`top_p` must be greater than or equal to 0.95 when thinking is enabled")
    version = version_of(model)
    forced = object_of(body.get("tool_choice")).get("type") in ("any", "tool")
    if forced and (thinking["type"] == "enabled" or (version and version < (4, 8))):
        found.append("Thinking may not be enabled when tool_choice forces tool use.")
    return found


def _thinking_first(messages: list[dict[str, Any]]) -> list[str]:
    """Check the beginning of the last turn with calls, if their results are last."""
    asked = []
    for message in reversed(messages):
        results = [b for b in list_of(message.get("content")) if b.get("type") == "tool_result"]
        if message.get("role") == "user" and not results:
            break
        asked += [message] if message.get("role") == "assistant" else []
    after = list_of(messages[-1].get("content")) if messages else []
    if not asked or not any(block.get("type") == "tool_result" for block in after):
        return []
    first = object_of((list_of(asked[-1].get("content")) or [{}])[0]).get("type")
    if first in ("thinking", "redacted_thinking"):
        return []
    return [
        f"messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `{first}`"
    ]


def _sampling(body: Mapping[str, Any], model: str) -> list[str]:
    found = []
    version = version_of(model)
    both = body.get("temperature") is not None and body.get("top_p") is not None
    if (body.get("temperature") or 0) > 1:
        found.append("temperature: range: 0..1")
    if version and (4, 1) <= version < (4, 7) and both:
        found.append("`temperature` and `top_p` cannot both be specified for this model.")
    messages = list_of(body.get("messages"))
    if version and version >= (4, 6) and messages and messages[-1].get("role") == "assistant":
        found.append("This model does not support assistant message prefill.")
    return found


def count_marks(value: Any) -> int:
    """Count the blocks with cache_control; the request's own takes the place of one."""
    if isinstance(value, list):
        return sum(map(count_marks, value))
    if not isinstance(value, dict):
        return 0
    inner = sum(count_marks(one) for name, one in value.items() if name != "input_schema")
    return inner + (isinstance(value.get("cache_control"), dict))
