"""The chat request, to which the requests of all dialects are translated.

It is the Chat Completions request, plus `provider_options` (merged into the upstream's body
unchanged) and `on_disconnect`. Unknown fields are errors that name them.
"""

import re
from functools import cached_property
from operator import attrgetter
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec
from msgspec import Meta

from .bounds import (
    MAX_DEPTH,
    MAX_MESSAGES,
    MAX_TOOLS,
    MAX_VALUES,
    check_json,
    check_parts,
    check_texts,
)
from .errors import RequestError


class Body(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A JSON object of a request."""


class CacheControl(msgspec.Struct, frozen=True, omit_defaults=True):
    """A breakpoint of the provider's prompt cache: everything before its end may be cached."""

    type: str
    ttl: str | None = None


class Rest(dict[str, Any]):
    """The members of a Chat Completions client's object that its type lacks.

    No JSON is decoded as it: only the parser of that dialect makes one.
    """


class Open(Body, frozen=True, kw_only=True):
    """An object whose other members an upstream of Chat Completions receives."""

    rest: Annotated[Rest, Meta(extra_json_schema={"type": "object"})] | None = None


class TextPart(Open, frozen=True, tag_field="type", tag="text"):
    text: str
    cache_control: CacheControl | None = None


class ImageUrl(Body, frozen=True):
    url: str
    detail: Literal["auto", "low", "high", "original"] | None = None


class ImagePart(Open, frozen=True, tag_field="type", tag="image_url"):
    image_url: ImageUrl
    cache_control: CacheControl | None = None


class VideoUrl(Body, frozen=True):
    url: str


class VideoPart(Open, frozen=True, tag_field="type", tag="video_url"):
    """A video, as vLLM, DashScope, Z.ai and OpenRouter take it in Chat Completions."""

    video_url: VideoUrl
    cache_control: CacheControl | None = None


class InputAudio(Body, frozen=True):
    data: str
    format: str


class AudioPart(Open, frozen=True, tag_field="type", tag="input_audio"):
    input_audio: InputAudio
    cache_control: CacheControl | None = None


class FileSource(Body, frozen=True):
    file_data: str | None = None
    file_id: str | None = None
    filename: str | None = None
    file_url: str | None = None

    @property
    def url(self) -> str | None:
        """The file's URL; clients of OpenRouter send it as `file_data`."""
        data = self.file_data or ""
        return self.file_url or (data if data.startswith(("https://", "http://")) else None)


class FilePart(Open, frozen=True, tag_field="type", tag="file"):
    file: FileSource
    cache_control: CacheControl | None = None
    optional: bool | None = None
    """Whether providers without files get the request without it, instead of an error."""


class RefusalPart(Open, frozen=True, tag_field="type", tag="refusal"):
    refusal: str


class ReasoningPart(Body, frozen=True, tag_field="type", tag="reasoning"):
    """A `reasoning` block sent back: the text, and the provider's signature."""

    text: str = ""
    signature: str | None = None
    encrypted: str | None = None
    format: str | None = None
    """The format of the value; another provider does not receive it."""


class Opaque(Body, frozen=True):
    """An `opaque` event, sent back unchanged."""

    format: str
    data: str


class OpaquePart(Opaque, frozen=True, tag_field="type", tag="opaque"):
    """`Opaque` as a part of a message."""


TextContent = str | list[TextPart]


class FunctionCall(Body, frozen=True):
    name: str
    arguments: str
    """JSON text."""


class ToolCall(Open, frozen=True, tag_field="type", tag="function"):
    """A call of a function. `type` is optional in input and always rendered."""

    id: str
    function: FunctionCall
    opaque: list[Opaque] | None = None
    """The `opaque` events of the call's block."""


class SystemMessage(Open, frozen=True, tag_field="role", tag="system"):
    content: TextContent
    name: str | None = None
    cache_control: CacheControl | None = None


class DeveloperMessage(Open, frozen=True, tag_field="role", tag="developer"):
    content: TextContent
    name: str | None = None
    cache_control: CacheControl | None = None


UserPart = TextPart | ImagePart | VideoPart | AudioPart | FilePart


class UserMessage(Open, frozen=True, tag_field="role", tag="user"):
    content: str | list[UserPart]
    name: str | None = None
    cache_control: CacheControl | None = None


class AssistantMessage(Open, frozen=True, tag_field="role", tag="assistant"):
    content: str | list[TextPart | RefusalPart | ReasoningPart | OpaquePart] | None = None
    """The parts in the order of the blocks; tool calls come after them."""
    refusal: str | None = None
    tool_calls: list[ToolCall] | None = None
    name: str | None = None
    reasoning_content: str | None = None
    """Unsigned reasoning; signed reasoning is a `reasoning` part."""
    cache_control: CacheControl | None = None


class ToolMessage(Open, frozen=True, tag_field="role", tag="tool"):
    content: str | list[TextPart | ImagePart]
    tool_call_id: str
    is_error: bool | None = None
    """Whether the call failed, for formats with a field for it."""
    cache_control: CacheControl | None = None


Message = SystemMessage | DeveloperMessage | UserMessage | AssistantMessage | ToolMessage


class Function(Body, frozen=True):
    name: Annotated[str, Meta(min_length=1)]
    description: str | None = None
    parameters: dict[str, Any] | None = None
    """A JSON Schema."""
    strict: bool | None = None


class Tool(Open, frozen=True):
    function: Function
    type: Literal["function"] = "function"
    cache_control: CacheControl | None = None


class ToolChoiceFunction(Body, frozen=True):
    name: str


class ToolChoice(Body, frozen=True):
    function: ToolChoiceFunction
    type: Literal["function"] = "function"


class JsonSchema(Body, frozen=True):
    name: str
    schema: dict[str, Any] | None = None
    description: str | None = None
    strict: bool | None = None


class TextFormat(Body, frozen=True, tag_field="type", tag="text"):
    pass


class JsonObjectFormat(Body, frozen=True, tag_field="type", tag="json_object"):
    pass


class JsonSchemaFormat(Body, frozen=True, tag_field="type", tag="json_schema"):
    json_schema: JsonSchema


MAX_TOKENS: Final = 2**31 - 1
"""The most tokens of a limit: its price fits into 64 bits of nano-dollars."""

Natural = Annotated[int, Meta(ge=1, le=MAX_TOKENS)]
Penalty = Annotated[float, Meta(ge=-2, le=2)]
Id = Annotated[str, Meta(max_length=255)]
"""An id that the client chooses, stored with the stream and returned."""
Linger = Annotated[float, Meta(ge=0, le=86_400)]
"""Seconds without a reader; at most a day."""
ChatId = Annotated[str, Meta(min_length=1, max_length=255)]
Overlap = Literal["allow", "refuse", "replace"]


class ChatBody(Body, frozen=True):
    """The body of `POST /v1/chat`. Absent and null both mean: not set."""

    messages: Annotated[list[Message], Meta(min_length=1, max_length=MAX_MESSAGES)]
    model: str | None = None
    """A route, or `upstream/model`; None is the relay's default."""
    stream: bool | None = None
    max_tokens: Natural | None = None
    max_completion_tokens: Natural | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    n: Annotated[int, Meta(ge=1, le=128)] | None = None
    stop: str | Annotated[list[str], Meta(min_length=1)] | None = None
    seed: int | None = None
    frequency_penalty: Penalty | None = None
    presence_penalty: Penalty | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    tools: Annotated[list[Tool], Meta(max_length=MAX_TOOLS)] | None = None
    tool_choice: Literal["none", "auto", "required"] | ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    response_format: TextFormat | JsonObjectFormat | JsonSchemaFormat | None = None
    reasoning_effort: str | None = None
    metadata: dict[str, str] | None = None
    user: str | None = None
    allowed_tools: Annotated[list[str], Meta(min_length=1, max_length=MAX_TOOLS)] | None = None
    """The names of the `tools` that the model may call now."""
    verbosity: str | None = None
    reasoning_summary: str | None = None
    """The length of the reasoning summary."""
    service_tier: str | None = None
    """The provider's processing tier, which also determines the price."""
    store: bool | None = None
    """Whether the provider stores the answer."""
    truncation: str | None = None
    """Whether the provider truncates a conversation that is too long: "auto" or "disabled"."""
    max_tool_calls: Natural | None = None
    """The maximum number of calls of the provider's own tools."""
    cache_control: CacheControl | None = None
    """A mark at the end of the conversation."""
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    safety_identifier: str | None = None
    provider_options: dict[str, Any] | None = None
    on_disconnect: Literal["continue", "cancel"] | Linger | None = None
    """When the last reader leaves: continue, stop, or stop after so many seconds."""
    chat: ChatId | None = None
    """The conversation that the stream belongs to."""
    overlap: Overlap | None = None
    """While another stream of the chat runs: run beside it, the default; be refused; or stop it."""


class ClientBody(msgspec.Struct, frozen=True):
    """A client's original request, passed through to upstreams of the same dialect.

    All other upstreams receive the chat request beside it, which is equivalent as far as possible.
    """

    client_format: str
    """The name of the dialect."""
    body: dict[str, Any]
    """The body without the model, `stream`, and the relay's own fields."""
    headers: dict[str, str] = {}
    untranslatable: tuple[str, ...] = ()
    """Paths of parts that the chat request cannot express: other dialects refuse them."""
    ignored: tuple[str, ...] = ()
    """Parts that the chat request drops without changing the answer's meaning."""
    unsupported: tuple[str, ...] = ()
    """Parts that only its own dialect supports: other upstreams are tried last, without them."""
    shortened: tuple[str, ...] = ()
    """The types of blocks in its history that became texts for other dialects."""
    always_hosted: bool = False
    """Whether the client sends hosted tools beside its own with every request: the answer does not
    depend on them."""

    def needs(self, dropped: str) -> bool:
        """Return whether the answer may depend on a part that an upstream cannot receive."""
        choice = self.body.get("tool_choice")
        choice = choice.get("type") if isinstance(choice, dict) else choice
        may_call = choice in (None, "auto", "required", "any") and not self.always_hosted
        # Members of tools change how a tool is sent, not which there are.
        return may_call and dropped.startswith("tools") and "]." not in dropped


class OutputCeiling(msgspec.Struct, frozen=True):
    """The reserved output: no request to an upstream may allow more."""

    tokens: int
    """The maximum tokens of each answer."""
    choices: int = 1
    """The number of answers."""
    explicit: bool = True
    """Whether the request itself limits the length of an answer."""
    lowered: bool = False
    """Whether the remaining budget is less than the request's own limit."""


class ChatRequest(ChatBody, frozen=True, dict=True):
    """A request, and beside its fields what no client of our own dialect can send."""

    client_body: ClientBody | None = None
    """Of a client with another dialect."""
    extras: dict[str, Any] | None = None
    """Chat Completions fields that the chat request lacks."""
    members: tuple[str, ...] = ()
    """The paths of what is in `rest`."""
    left_out: tuple[str, ...] = ()
    """The paths of all other fields, which no upstream receives."""
    ceiling: OutputCeiling | None = None

    @property
    def streams(self) -> bool:
        """Whether the answer is streamed, which is the default."""
        return self.stream is not False

    @property
    def limit(self) -> int | None:
        """The maximum tokens of the answer; the newer of the two fields has precedence."""
        newer = self.max_completion_tokens
        return self.max_tokens if newer is None else newer

    @property
    def stops(self) -> list[str] | None:
        """The stop sequences, one or more, as a list."""
        return [self.stop] if isinstance(self.stop, str) else self.stop

    @property
    def tier(self) -> str | None:
        """The service tier, if it is not the default."""
        return None if self.service_tier in ("auto", "default") else self.service_tier

    @cached_property
    def is_plain(self) -> bool:
        """Whether it has texts only: no parts, tools, cache marks, or fields of other formats.

        Most short requests are plain, and skip every check for anything else.
        """
        if self.tools or self.cache_control or self.provider_options:
            return False
        for message in self.messages:
            if type(message) is ToolMessage or type(message.content) is not str:
                return False
            if message.cache_control is not None or message.rest is not None:
                return False
            if type(message) is AssistantMessage and (
                message.tool_calls or message.refusal or message.reasoning_content
            ):
                return False
        return not (self.client_body or self.extras)


T = TypeVar("T")

_decoder = msgspec.json.Decoder(ChatBody)
values_of = attrgetter(*ChatBody.__struct_fields__)
"""Reads nearly forty fields in one call."""
_fields = msgspec.json.Decoder(dict[str, Any])
_raw_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_any = msgspec.json.Decoder(Any)

_SURROGATES = re.compile(
    rb"\\\\|\\u[dD][89abAB]..\\u[dD][c-fC-F]..|(?P<half>\\u[dD][89a-fA-F]..)", re.DOTALL
)
"""Escapes in JSON: a backslash, a surrogate pair, or half a pair."""

_MAX_LOOKED_AT = 65_536
"""Bytes of a body that are searched for half a surrogate pair."""

_MAX_QUOTED = 300
"""Characters of a path and of a reason, which quote the request."""


def parse_chat_request(body: bytes) -> ChatRequest:
    """Parse a chat request from JSON.

    Raises:
        RequestError: `invalid_request`, with the path and the reason.
    """
    return ChatRequest(*values_of(parse_body(body, _decoder, example='{"messages": [...]}')))


def check_chat(request: ChatRequest) -> None:
    """Refuse a request whose messages have too many parts, or too much JSON in their texts.

    Raises:
        RequestError: `invalid_request`, with the path and the bound.
    """
    if request.is_plain:
        return
    lists: list[object] = []
    texts: list[str] = []
    for message in request.messages:
        lists.append(message.content)
        if isinstance(message, AssistantMessage):
            for call in message.tool_calls or ():
                lists.append(call.opaque)
                texts.append(call.function.arguments)
            lists.append(message.tool_calls)
            if isinstance(message.content, list):
                texts += [part.data for part in message.content if isinstance(part, OpaquePart)]
    check_parts(lists, path="messages")
    # Formats that require objects decode these.
    check_texts(texts, path="messages: the arguments of a tool call, or a part's data")


def parse_body(
    body: bytes, decoder: msgspec.json.Decoder[T], *, example: str, max_values: int = MAX_VALUES
) -> T:
    """Parse a request of any dialect from JSON; `example` is for the error of an empty body.

    Raises:
        RequestError: `invalid_request`, with the path and the reason.
    """
    check_body(body, example=example, max_values=max_values)
    return _decode(body, decoder)


def check_body(body: bytes, *, example: str, max_values: int = MAX_VALUES) -> None:
    """Refuse a body that is empty, too large, or not UTF-8, before decoding it.

    Raises:
        RequestError: `invalid_request`, with the reason.
    """
    if not body.strip():
        raise RequestError("invalid_request", f"the body is empty; send JSON such as {example}")
    if len(body) > MAX_DEPTH:  # a shorter one has fewer levels and values
        check_json(body, max_values=max_values)
    if not body.isascii():
        # Decoders do not check skipped fields.
        try:
            body.decode()
        except UnicodeDecodeError as error:
            raise RequestError(
                "invalid_request", f"the body is not UTF-8: bad byte at position {error.start}"
            ) from None


def parse_fields(body: bytes) -> dict[str, Any]:
    """Parse all fields of a request that `parse_body` accepted, including unknown ones.

    Raises:
        RequestError: `invalid_request`, with the path and the reason.
    """
    try:
        return _fields.decode(body)
    except (msgspec.DecodeError, RecursionError):
        # The error does not name the field: decode them one by one.
        for name, part in _decode(body, _raw_fields).items():
            _decode(part, _any, path=name[:80])
        raise


def parse_part(part: msgspec.Raw, *, path: str) -> Any:
    """Parse a field that a decoder has skipped; `path` is for errors.

    Raises:
        RequestError: `invalid_request`, with the path and the reason.
    """
    return _decode(part, _any, path=path)


def convert_body(value: object, kind: type[T], *, path: str) -> T:
    """Convert a decoded part of a request; `path` is for errors.

    Raises:
        RequestError: `invalid_request`, with the path and the reason.
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise RequestError("invalid_request", _explain(str(error), within=path)) from None


def _decode(body: bytes | msgspec.Raw, decoder: msgspec.json.Decoder[T], *, path: str = "") -> T:
    what = path or "the body"
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise RequestError("invalid_request", _explain(str(error), within=path)) from None
    except msgspec.DecodeError as error:
        escapes = _SURROGATES.finditer(body, 0, _MAX_LOOKED_AT)
        half = next((found for found in escapes if found["half"]), None)
        reason = f"is not JSON: {error}"
        if half is not None:
            reason = f"has half a surrogate pair at position {half.start()}; send whole characters"
        raise RequestError("invalid_request", f"{what} {reason}") from None
    except RecursionError:
        raise RequestError("invalid_request", f"{what} is nested too deeply") from None


def _explain(text: str, *, within: str = "") -> str:
    """Turn msgspec's "... - at `$.a[0].b`" into "a[0].b: ..."."""
    reason, at, path = text.rpartition(" - at `")
    if not at or not path.endswith("`"):
        reason, path = text, ""
    path = path.removeprefix("key in ").removeprefix("$").removesuffix("`")
    at_path = _shorten(f"{within}{path}".removeprefix("."))
    reason = reason[0].lower() + reason[1:]
    reason = _shorten(reason.replace("object contains unknown field", "unknown field"))
    return f"{at_path}: {reason}" if at_path else reason


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_QUOTED else f"{text[:_MAX_QUOTED]}..."
