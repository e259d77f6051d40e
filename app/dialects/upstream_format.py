"""The interface of an upstream format: framing, parser, request builder, quirks."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, Self

import msgspec

from ..errors import RelayError
from ..events import Event, Status, TokenCounts
from ..framing.sse import Message
from ..requests import ChatRequest
from .embeddings_calls import EmbeddingsCall
from .reading.provider_errors import Redact
from .writing.token_counts import CountCall

MODEL: Final = "{model}"
"""The placeholder for the model's name in a path or a base URL."""


OPENAI_ONLY: Final = frozenset(
    ("max_tool_calls", "prompt_cache_key", "prompt_cache_retention", "store", "verbosity")
)
"""The fields of a chat request that only OpenAI's formats have."""

OF_REQUESTS: Final = "header.idempotency-key header.traceparent header.tracestate"
"""Options: headers that connect a call with others. All clients share an account."""

OPENAI_HEADERS: Final = f"header.openai-organization header.openai-project {OF_REQUESTS}"


def under(path: str, names: str) -> str:
    """Return the options with these names below a path."""
    return "".join(f" {path}.{name}" for name in names.split())


class OptionNames(NamedTuple):
    """The fields that clients may set by themselves, as `upstreams.options` reads them."""

    refused: Mapping[str, str] = {}
    """Those that they may not set unless the setting `options` allows them, by effect.

    An upstream without restrictions leaves the provider's tools to the client, which chooses the
    bill anyway; behind routes they are not in `safe`.
    """
    safe: str = ""
    """Those that only shape the answer: sampling, thinking, safety, form, and client functions."""
    standard: str = ""
    """Those of a request in the format that a chat request can express too, or that only concern
    the client."""
    keyed: bool = False
    """Whether its tools are identified by their key; in other formats they have a type."""


class Decoder(Protocol):
    """The framing of one body: `feed` bytes as they arrive, `close` at the end of input."""

    def __init__(self, *, max_line: int, max_event: int) -> None:
        """Set the maximum bytes of a line and of an event."""

    def feed(self, data: bytes) -> list[Message]:
        """Append the next bytes; return the messages that they complete.

        Raises:
            FramingError: a limit is exceeded.
        """

    @property
    def malformed(self) -> bool:
        """Whether the body has something that is invalid in the format. Final after `close`."""

    def close(self) -> Message | None:
        """End the input; return its unterminated last message, if any.

        Raises:
            FramingError: a limit is exceeded.
        """


class Parser(Protocol):
    """One answer: `feed` it messages, then `close`, `cut` or `stop` it.

    Every call returns the events that it completes, and none raises.
    """

    upstream_id: str | None
    """The provider's name for the answer, once it is known."""
    model: str | None
    """The model that answers, as the provider reports it, once it is known."""
    provider_message: str
    """The provider's own text of a failure, for the operator; "" before one."""
    redact: Redact
    """Replaces the upstream's secrets in its errors."""
    output_limit: int | None
    """The most tokens of each answer, if known."""

    def __init__(self, *, upstream: str, choices: int = 1) -> None:
        """Set the upstream's name for errors, and the number of answers requested."""

    @property
    def ended(self) -> bool:
        """Whether `stream.end` was returned, the last event."""

    @property
    def finished(self) -> bool:
        """Whether nothing but an end marker is missing."""

    @property
    def usage(self) -> TokenCounts | None:
        """The provider's counts so far."""

    @property
    def counted_early(self) -> bool:
        """Whether `usage` came before the finish, and may not cover the whole answer."""

    @property
    def refused(self) -> bool:
        """Whether the provider itself reported the failure."""

    @property
    def reasoning_field(self) -> str | None:
        """The field in which the provider sends reasoning, where hosts of the format differ."""

    def know_calls(self, ids: Collection[str]) -> None:
        """Set the ids of the conversation's calls, which no call of this answer may reuse."""

    def know_names(self, names: Mapping[str, str]) -> None:
        """Set the names of tools to restore, by those that were sent instead."""

    def keep_provider_data(self) -> None:
        """Emit `ProviderData` too, for a client of the same dialect."""

    def feed(self, *messages: Message) -> list[Event]:
        """Parse the next messages."""

    def close(self, tail: Message | None, *, malformed: bool = False) -> list[Event]:
        """End the input, with its unterminated last message and `Decoder.malformed`."""

    def cut(self, error: RelayError) -> list[Event]:
        """Handle the loss of the connection: a notice if `finished`, else a failure."""

    def stop(self, status: Status, error: RelayError | None = None) -> list[Event]:
        """End now: cancelled, interrupted, or failed with `error`."""


class Quirks(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Deviations of one vendor of a format; each dialect has its own fields."""

    @property
    def ignored(self) -> Collection[str]:
        """The fields of a chat request that this vendor refuses, which are dropped."""
        return ()

    @property
    def echoes(self) -> bool:
        """Whether an answer may begin with the last turn of the assistant that it continues."""
        return False

    def with_reasoning(self, field: str) -> Self:
        """Return the quirks of a model that sends its reasoning in this field."""
        return self


def find_no_tool(kind: str, request: ChatRequest) -> dict[str, Any] | None:
    """Return None, where a format has no equivalents of hosted tools."""
    return None


def _render_none(name: str, value: Any, *, quirks: Any) -> dict[str, Any] | None:
    return None


def _continue_none(request: ChatRequest, *, model: str, quirks: Any) -> bool:
    return False


class RenderedRequest(NamedTuple):
    """A chat request in an upstream's format."""

    body: dict[str, Any]
    changes: Sequence[str] = ()
    """Changes that the provider requires, each as the end of a sentence about the upstream."""


class PassthroughBody(NamedTuple):
    """A client's own body in a form that the upstream accepts, and its headers."""

    body: dict[str, Any]
    headers: Mapping[str, str] = {}
    changes: Sequence[str] = ()
    """Changes that the provider requires, each as the end of a sentence about the upstream."""


class DroppedItems(NamedTuple):
    """The paths of items that are left out of a body, such as `input.code_interpreter_call`."""

    other_upstream: list[str]
    """Made by another upstream."""
    not_allowed: list[str]


class Passthrough(NamedTuple):
    """Passthrough of requests from clients with the upstream's own dialect."""

    pass_on: Callable[..., PassthroughBody]
    """(client_body, *, quirks) to the parts that the provider accepts."""
    finish: Callable[..., dict[str, Any]]
    """(body, *, model, quirks) to the JSON body, with the model and `stream`."""
    add_system: Callable[[dict[str, Any], str], None]
    """(body, text) puts a text before the system prompt."""
    restore_items: Callable[..., DroppedItems] | None = None
    """(body, *, upstream, refused) restores the provider's own items in the body, and leaves out
    those that it cannot be sent."""
    mark_cache: Callable[[dict[str, Any]], None] | None = None
    """(body) marks the prompt for the provider's cache, where that is necessary."""


class ResumableAnswer(NamedTuple):
    """Reading on an answer that the provider generates in the background and stores.

    Its URL is the format's path and its id: GET reads it on, POST to `/cancel` ends it.
    """

    fields: Mapping[str, Any]
    """The fields of a request for such an answer."""
    cursor: str
    """The field of every event with its place in the answer: numbers ascend."""
    query: str
    """The query parameter with the cursor of the last event received."""
    first: tuple[str, str]
    """The field and value that only the first event of an answer has."""
    repeated: str = ""
    """The list of the request that a GET repeats as a query parameter."""


class UpstreamFormat(NamedTuple):
    """One format of upstreams."""

    path: str
    """The path after the base URL, which may contain `MODEL` and a query."""
    decoder: type[Decoder]
    parser: type[Parser]
    render_request: Callable[..., RenderedRequest]
    """(request, *, model, quirks) to the JSON body and its changes."""
    quirks: type[Quirks]
    """The deviations of vendors from the format."""
    headers: Mapping[str, str] = {}
    models_path: str | None = "models"
    """The path of the list of models, None if there is none."""
    ignored: frozenset[str] = frozenset()
    """Fields of a chat request that the format lacks, and that can be dropped without changing the
    answer's meaning; a `notice` names them."""
    tool_names: re.Pattern[str] | None = None
    """The names of tools that it allows; None for any. Others are replaced, and restored in the
    answer."""
    find_hosted_tool: Callable[[str, ChatRequest], dict[str, Any] | None] = find_no_tool
    """Returns the provider's equivalent of OpenAI's hosted tool of a type, as an item of `tools`;
    None if there is none for the request."""
    render_extra: Callable[..., dict[str, Any] | None] = _render_none
    """(name, value, *, quirks) of a Chat Completions field that the chat request lacks, to the
    equivalent fields of this format, or None."""
    limit: str = "max_tokens"
    """The path of the field that limits the output length, steps separated by dots, without
    `limit_field`."""
    limit_field: Callable[..., str] | None = None
    """(body, *, quirks) to the name of that field, where vendors differ."""
    client_format: str = ""
    """The client format of the same dialect, if any: `ProviderData` is recorded for it."""
    passthrough: Mapping[str, Passthrough] = {}
    """By client format: its passthrough, instead of rendering the chat request."""
    resume: ResumableAnswer | None = None
    """How to read on an answer whose connection broke, where the provider offers it."""
    continues: Callable[..., bool] = _continue_none
    """(request, *, model, quirks): whether the answer to a request that ends with a turn of the
    assistant begins with the next character of that turn."""
    options: OptionNames = OptionNames()
    token_count: CountCall | None = None
    embeddings: Sequence[EmbeddingsCall] = ()
    """The first that is for a model is used."""
    forwarded: Mapping[str, str] = {}
    """The paths of calls that are forwarded, by `kind`."""
    effort_words: bool = False
    """Whether only extras that name an effort become one: the format has fields for the others."""
    provider: str = ""
    """`gen_ai.provider.name`, if one provider alone speaks the format."""
    operation: str = "chat"
    """`gen_ai.operation.name`."""
