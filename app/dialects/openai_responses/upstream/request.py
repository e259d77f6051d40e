"""Renderer of Responses requests to upstreams."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from ....errors import RequestError
from ....requests import (
    AssistantMessage,
    AudioPart,
    ChatRequest,
    Function,
    ImagePart,
    JsonSchemaFormat,
    Message,
    OpaquePart,
    ReasoningPart,
    RefusalPart,
    TextPart,
    ToolCall,
    ToolChoice,
    ToolMessage,
    UserPart,
    VideoPart,
)
from ...reasoning_signatures import (
    OPENAI_COMPACTION,
    OPENAI_CUSTOM_CALL,
    OPENAI_ENCRYPTED,
    OPENAI_ITEM,
    OPENAI_NAMESPACE,
    OPENAI_PHASE,
    OPENAI_REASONING,
)
from ...upstream_format import Quirks as CommonQuirks
from ...upstream_format import RenderedRequest
from ...writing.chat_extras import render_at
from ...writing.conversation import (
    fit_user,
    join_text,
    parse_object,
    refuse_choices,
    unsupported,
)
from ...writing.exchange import Exchange, arrange
from ...writing.request_rules import check_parts, fit_object, fit_tool_schemas, name_image
from .provider_tools import (
    CALLERS_ITEMS,
    is_answer,
    key_of,
    select_client_tools,
)
from .rules import FORM, IMAGES, LEAST_OUTPUT, LONGEST_USER, TOP_KEYWORDS

AnswerPart = TextPart | RefusalPart | ReasoningPart | OpaquePart

FORMAT: Final = "OpenAI Responses"
IGNORED: Final = frozenset(("seed", "frequency_penalty", "presence_penalty", "cache_control"))
render_extra: Final = render_at(
    {"moderation": "moderation", "prompt_cache_options": "prompt_cache_options"}
)

ENCRYPTED_REASONING: Final = "reasoning.encrypted_content"
"""The value of `include` that requests reasoning to send back."""
_STORED_CONVERSATION: Final = ("previous_response_id", "conversation")
"""The options for conversations stored by the provider, which knows their calls."""
_LOGPROBS: Final = "message.output_text.logprobs"


class Quirks(CommonQuirks, frozen=True):
    """What a vendor requires in a request."""

    store: bool | None = False
    """Whether the provider stores the response; None omits the field."""
    encrypted_reasoning: Literal["auto", "always", "never"] = "auto"
    """When to request encrypted reasoning: models without reasoning reject it, so by default only
    for requests with reasoning options or items.
    """
    reasoning_summary: Literal["auto", "concise", "detailed"] | None = None
    """The summary to request along with an effort. OpenAI sends summaries to verified
    organizations only and rejects the request of others.
    """
    send_reasoning: Literal["encrypted", "text", "no"] = "encrypted"
    """The form of reasoning to send back: encrypted only, or its text too."""
    user_field: Literal["user", "safety_identifier"] = "user"
    openai_limits: bool = False
    """Whether OpenAI's own limits hold: at least 16 output tokens, tools' schemas without a choice
    at their top, images of four types.
    """
    compaction: bool = False
    """Whether the provider supports `compaction_trigger`; otherwise the model writes a summary."""
    left_out: tuple[
        Literal["prompt_cache_key", "safety_identifier", "store", "truncation"], ...
    ] = ()
    """Optional fields that the vendor rejects, beside `store: false`."""

    @property
    def ignored(self) -> tuple[str, ...]:
        return self.left_out


def render_request(
    request: ChatRequest, *, model: str, quirks: Quirks | None = None
) -> RenderedRequest:
    """Return the body of a streaming request for `model`.

    `provider_options` override all fields except `model` and `stream`.

    Raises:
        RequestError: the format cannot express something that the answer depends on.
    """
    quirks = quirks or Quirks()
    refuse_choices(request, format=FORMAT)
    if request.stop:
        raise unsupported("stop", "a stop sequence", format=FORMAT)
    limit, changes = request.limit, list[str]()
    if quirks.openai_limits:
        check_parts(request.messages, lambda part: name_image(part, IMAGES), format=FORMAT)
        request, changes = fit_tool_schemas(request, TOP_KEYWORDS)
        if limit is not None and limit < LEAST_OUTPUT:
            if request.ceiling is not None:  # what was reserved for it
                raise unsupported("max_tokens", f"fewer than {LEAST_OUTPUT}", format=FORMAT)
            changes.append(f"requires {LEAST_OUTPUT} output tokens or more: sent {LEAST_OUTPUT}")
            limit = LEAST_OUTPUT
    messages, arranged = _arrange(request)
    body = {
        "input": _render_input(messages, quirks=quirks),
        "max_output_tokens": limit,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "top_logprobs": request.top_logprobs,
        "tools": [_render_tool(tool.function) for tool in request.tools or ()] or None,
        "tool_choice": _render_choice(request),
        "parallel_tool_calls": request.parallel_tool_calls,
        "text": _render_text(request),
        "reasoning": _render_reasoning(request, quirks=quirks),
        "metadata": request.metadata and dict(request.metadata),
        "safety_identifier": fit_user(request.safety_identifier, longest=LONGEST_USER),
        "service_tier": request.tier,
        "truncation": request.truncation,
        "max_tool_calls": request.max_tool_calls,
        "prompt_cache_key": request.prompt_cache_key,
        "prompt_cache_retention": request.prompt_cache_retention,
        "store": request.store or quirks.store,
    }
    if request.user is not None:
        body.setdefault(quirks.user_field, None)
        user = fit_user(request.user, longest=LONGEST_USER)
        body[quirks.user_field] = body[quirks.user_field] or user
    body["include"] = _list_includes(request, body["input"], quirks=quirks) or None
    for name in quirks.left_out:
        body[name] = quirks.store if name == "store" else None
    sent = {key: value for key, value in body.items() if value is not None}
    options = msgspec.to_builtins(request.provider_options or {})
    if not request.tools and "tools" not in options and request.tool_choice in ("auto", "none"):
        sent.pop("tool_choice", None)  # only allowed with tools
    body = {**sent, **options, "model": model, "stream": True}
    return RenderedRequest(body, [*changes, *arranged])


def _arrange(request: ChatRequest) -> Exchange:
    stored = not (request.provider_options or {}).keys().isdisjoint(_STORED_CONVERSATION)
    return arrange(request.messages, FORM._replace(stray_results=True) if stored else FORM)


def _list_includes(request: ChatRequest, items: Any, *, quirks: Quirks) -> list[str]:
    requested = request.reasoning_effort or request.reasoning_summary
    reasons = requested or any(item.get("type") == "reasoning" for item in items)
    wanted = quirks.encrypted_reasoning
    found = []
    if wanted == "always" or (wanted == "auto" and reasons):
        found.append(ENCRYPTED_REASONING)
    if request.logprobs or request.top_logprobs:
        found.append(_LOGPROBS)
    return found


def _render_reasoning(request: ChatRequest, *, quirks: Quirks) -> dict[str, Any] | None:
    effort, summary = request.reasoning_effort, request.reasoning_summary
    if summary is None and effort not in (None, "none"):
        summary = quirks.reasoning_summary
    reasoning = {"effort": effort, "summary": summary}
    return {name: value for name, value in reasoning.items() if value is not None} or None


def _render_tool(function: Function) -> dict[str, Any]:
    tool: dict[str, Any] = {"type": "function", "name": function.name}
    if function.description is not None:
        tool["description"] = function.description
    # `object schema missing properties` (github/github-mcp-server#1548, 2025-12-07).
    tool["parameters"] = fit_object(function.parameters)
    # The default of `strict` is false in Chat Completions, but true here.
    tool["strict"] = bool(function.strict)
    return msgspec.to_builtins(tool)  # type: ignore[no-any-return]  # a dict of a dict


def _render_choice(request: ChatRequest) -> Any:
    choice = request.tool_choice
    if isinstance(choice, ToolChoice):
        return {"type": "function", "name": choice.function.name}
    if request.allowed_tools is None:
        return choice
    mode = "required" if choice == "required" else "auto"
    tools = [{"type": "function", "name": name} for name in request.allowed_tools]
    return {"type": "allowed_tools", "mode": mode, "tools": tools}


def _render_text(request: ChatRequest) -> dict[str, Any] | None:
    text = _render_format(request) or {}
    if request.verbosity is not None:
        text["verbosity"] = request.verbosity
    return text or None


def _render_format(request: ChatRequest) -> dict[str, Any] | None:
    wanted = request.response_format
    if wanted is None:
        return None
    if isinstance(wanted, JsonSchemaFormat):
        schema = {"schema": {}, "strict": False, **msgspec.to_builtins(wanted.json_schema)}
        return {"format": {"type": "json_schema", **schema}}
    return {"format": msgspec.to_builtins(wanted)}


def _render_input(messages: Sequence[Message], *, quirks: Quirks) -> list[dict[str, Any]]:
    custom = {
        call.id
        for message in messages
        if isinstance(message, AssistantMessage)
        for call in message.tool_calls or ()
        if _is_custom(call)
    }
    given = _read_items(messages)
    items: list[dict[str, Any]] = []
    for number, message in enumerate(messages):
        path = f"messages[{number}]"
        match message:
            case AssistantMessage():
                items += _AssistantRenderer(quirks, given).render(message)
                items += map(_render_call, message.tool_calls or ())
            case ToolMessage():
                items.append(_render_result(message, custom=custom))
            case _:
                role = message.__struct_config__.tag
                content = _render_content(message.content, path=f"{path}.content")
                items.append({"role": role, "content": content})
    return items


def _read_items(messages: Sequence[Message]) -> dict[str, dict[str, Any]]:
    """Return the items that are sent back unchanged, by the text of their `opaque`.

    A request to the client is only sent with its response: OpenAI rejects it alone.

    Raises:
        RequestError: an item is invalid.
    """
    found: dict[str, dict[str, Any]] = {}
    for number, message in enumerate(messages):
        if not isinstance(message, AssistantMessage) or not isinstance(message.content, list):
            continue
        for index, part in enumerate(message.content):
            if isinstance(part, OpaquePart) and part.format == OPENAI_ITEM:
                path = f"messages[{number}].content[{index}].data"
                found[part.data] = _parse_item(part.data, path=path)
    requested = {key_of(item) for item in found.values() if not is_answer(item)}
    answered = {key_of(item) for item in found.values() if is_answer(item)}
    return {data: item for data, item in found.items() if key_of(item) in requested & answered}


def _parse_item(data: str, *, path: str) -> dict[str, Any]:
    item = parse_object(data)
    if item is None:
        raise RequestError("invalid_request", f"{path}: must be a JSON object")
    kind = item.get("type")
    if not isinstance(kind, str) or kind not in CALLERS_ITEMS:
        known = ", ".join(sorted(CALLERS_ITEMS))
        message = f"{str(kind)[:60]!r} is not supported here (only {known})"
        raise RequestError("invalid_request", f"{path}.type: {message}")
    return select_client_tools(item)


def _render_content(content: str | Sequence[UserPart], *, path: str) -> str | list[dict[str, Any]]:
    if isinstance(content, str):
        return content
    return [_render_part(part, path=f"{path}[{i}]") for i, part in enumerate(content)]


def _render_part(part: UserPart, *, path: str) -> dict[str, Any]:
    match part:
        case TextPart():
            return {"type": "input_text", "text": part.text}
        case ImagePart():
            image = part.image_url
            return {"type": "input_image", "image_url": image.url, "detail": image.detail or "auto"}
        case AudioPart():
            return {"type": "input_audio", "input_audio": msgspec.to_builtins(part.input_audio)}
        case VideoPart():
            raise unsupported(path, "video", format="the Responses API")
        case _:
            if part.file.url:  # a name beside it is refused
                return {"type": "input_file", "file_url": part.file.url}
            if part.file.file_data is None and part.file.file_id is None:
                message = f"{path}.file: has no file_data, file_url or file_id"
                raise RequestError("invalid_request", message)
            return {"type": "input_file", **msgspec.to_builtins(part.file)}


def _is_custom(call: ToolCall) -> bool:
    return any(opaque.format == OPENAI_CUSTOM_CALL for opaque in call.opaque or ())


def _render_call(call: ToolCall) -> dict[str, Any]:
    name, given = call.function.name, call.function.arguments
    spaces = [o.data for o in call.opaque or () if o.format == OPENAI_NAMESPACE]
    item = {"call_id": call.id, "name": name, **({"namespace": spaces[0]} if spaces else {})}
    if _is_custom(call):
        return {"type": "custom_tool_call", **item, "input": given}
    return {"type": "function_call", **item, "arguments": given if given.strip() else "{}"}


def _render_result(message: ToolMessage, *, custom: set[str]) -> dict[str, Any]:
    kind = "custom_tool_call_output" if message.tool_call_id in custom else "function_call_output"
    content = message.content
    if isinstance(content, str) or all(isinstance(part, TextPart) for part in content):
        output: str | list[dict[str, Any]] = join_text(content)
    else:
        output = [_render_part(part, path="") for part in content]
    return {"type": kind, "call_id": message.tool_call_id, "output": output}


class _AssistantRenderer:
    """Renders one assistant message except for its calls: message items with reasoning between
    them.
    """

    def __init__(self, quirks: Quirks, items: Mapping[str, dict[str, Any]]) -> None:
        self._quirks = quirks
        self._items = items
        self._texts: list[dict[str, Any]] = []
        self._phase: str | None = None
        """The phase of the texts that follow."""
        self._summaries: list[str] = []

    def render(self, message: AssistantMessage) -> list[dict[str, Any]]:
        return [
            item for part in _list_parts(message) for item in self._take(part)
        ] + self._end_items()

    def _take(self, part: AnswerPart) -> Iterator[dict[str, Any]]:
        """Yield the items that a part completes."""
        match part:
            case TextPart() | RefusalPart():
                yield from self._end_reasoning(None)
                self._add_text(part)
            case ReasoningPart():
                yield from self._end_texts()
                yield from self._add_reasoning(part)
            case _:
                yield from self._take_opaque(part)

    def _take_opaque(self, part: OpaquePart) -> Iterator[dict[str, Any]]:
        if part.format == OPENAI_PHASE:
            yield from self._end_texts()
            self._phase = part.data
        elif part.format in (OPENAI_REASONING, OPENAI_ENCRYPTED):
            yield from self._end_texts()
            yield from self._end_reasoning(part.data)
        elif part.format == OPENAI_ITEM:
            if part.data in self._items:
                yield from self._end_items()
                yield self._items[part.data]
        elif part.format == OPENAI_COMPACTION:
            yield from self._end_items()
            yield {"type": "compaction", "encrypted_content": part.data}

    def _end_items(self) -> list[dict[str, Any]]:
        return [*self._end_texts(), *self._end_reasoning(None)]

    def _add_text(self, part: TextPart | RefusalPart) -> None:
        if isinstance(part, RefusalPart):
            self._texts.append({"type": "refusal", "refusal": part.refusal})
        elif part.text:
            self._texts.append({"type": "output_text", "text": part.text, "annotations": []})

    def _end_texts(self) -> Iterator[dict[str, Any]]:
        texts, self._texts = self._texts, []
        if not texts:
            return
        phase, self._phase = self._phase, None
        # A single text is sent in the short form, which every host accepts.
        plain = len(texts) == 1 and "text" in texts[0]
        item = {"role": "assistant", "content": texts[0]["text"] if plain else texts}
        yield {**item, "phase": phase} if phase else item

    def _add_reasoning(self, part: ReasoningPart) -> Iterator[dict[str, Any]]:
        """Add a block of reasoning; the blocks of one item are consecutive."""
        other_format = part.encrypted and part.format not in (None, OPENAI_ENCRYPTED)
        if part.signature or other_format:
            return  # reasoning signed by another provider
        if part.text:
            self._summaries.append(part.text)
        if part.encrypted:
            yield from self._end_reasoning(part.encrypted)

    def _end_reasoning(self, encrypted: str | None) -> Iterator[dict[str, Any]]:
        summaries, self._summaries = self._summaries, []
        wanted = self._quirks.send_reasoning
        if wanted == "no":
            return
        item: dict[str, Any] = {"type": "reasoning", "summary": []}
        if encrypted:
            # No id: without `store` the provider does not know it.
            item["summary"] = [{"type": "summary_text", "text": text} for text in summaries]
            yield {**item, "encrypted_content": encrypted}
        elif summaries and wanted == "text":
            item["content"] = [{"type": "reasoning_text", "text": text} for text in summaries]
            yield item


def _list_parts(message: AssistantMessage) -> list[AnswerPart]:
    """Return the content of an assistant message as parts, regardless of its form."""
    content = message.content
    parts: list[AnswerPart] = (
        [TextPart(content)] if isinstance(content, str) else [*(content or ())]
    )
    if message.reasoning_content and not any(isinstance(p, ReasoningPart) for p in parts):
        parts.insert(0, ReasoningPart(message.reasoning_content))
    if message.refusal:
        parts.append(RefusalPart(message.refusal))
    return parts
