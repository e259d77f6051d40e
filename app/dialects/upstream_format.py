"""The interface of an upstream format: framing, parser, request builder, quirks."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, Self

import msgspec

from ..errors import RelayError
from ..events import Event, Status, TokenCounts
from ..framing.sse import Message
from ..requests import ChatRequest

MODEL: Final = "{model}"
"""The placeholder for the model's name in a path or a base URL."""


class Decoder(Protocol):
    """The framing of one body: `feed` it bytes as they come, `close` it at their end."""

    def __init__(self, *, max_line: int, max_event: int) -> None:
        """Limit what a line and an event may hold, in bytes."""

    def feed(self, data: bytes) -> list[Message]:
        """Take the next bytes and return the messages that they complete.

        Raises:
            FramingError: a limit is exceeded.
        """

    @property
    def strange(self) -> bool:
        """Whether the body has something that no answer of the format has. Called last."""

    def close(self) -> Message | None:
        """Take the end of input and return the message that it left unterminated.

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

    def __init__(self, *, upstream: str, choices: int = 1) -> None:
        """Set the upstream's name for errors, and the number of answers requested."""

    @property
    def ended(self) -> bool:
        """Whether `stream.end` was returned; nothing else comes then."""

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

    def feed(self, message: Message) -> list[Event]:
        """Take the next message."""

    def close(self, tail: Message | None, *, strange: bool = False) -> list[Event]:
        """Take the end of input, the message that it left unterminated, and `Decoder.strange`."""

    def cut(self, error: RelayError) -> list[Event]:
        """Take the loss of the connection: a notice if `finished`, else a failure."""

    def stop(self, status: Status, error: RelayError | None = None) -> list[Event]:
        """End now: cancelled, interrupted, or failed with `error`."""


class Quirks(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Deviations of one vendor of a format; each dialect has its own fields."""

    @property
    def ignored(self) -> Collection[str]:
        """The fields of a chat request that this vendor refuses, and that are left out."""
        return ()

    def with_reasoning(self, field: str) -> Self:
        """Return the quirks of a model that sends its reasoning in this field."""
        return self


def _find_no_tool(kind: str, request: ChatRequest) -> dict[str, Any] | None:
    return None


def _place_nowhere(name: str, value: Any, *, quirks: Any) -> dict[str, Any] | None:
    return None


def _limit_by_max_tokens(quirks: Any) -> str:
    return "max_tokens"


class RenderedRequest(NamedTuple):
    """A chat request in an upstream's format."""

    body: dict[str, Any]
    changes: Sequence[str] = ()
    """Changes, since the provider would refuse the request, each as the end of a sentence about
    the upstream."""


class PassedBody(NamedTuple):
    """A client's own body in a form that the upstream accepts, and its headers."""

    body: dict[str, Any]
    headers: Mapping[str, str] = {}


class Passthrough(NamedTuple):
    """Passing through of requests from clients that speak the upstream's own dialect."""

    pass_on: Callable[..., PassedBody]
    """(client_body, *, quirks) to the part that the provider accepts."""
    finish: Callable[..., dict[str, Any]]
    """(body, *, model, quirks) to the JSON body, with the model and that it is a stream."""


class UpstreamFormat(NamedTuple):
    """One format of upstreams."""

    path: str
    """Appended to the upstream's base URL; may hold `MODEL` and a query."""
    decoder: type[Decoder]
    parser: type[Parser]
    render_request: Callable[..., RenderedRequest]
    """(request, *, model, quirks) to the JSON body, and the changes made for it."""
    quirks: type[Quirks]
    """The deviations that a vendor of the format may have."""
    headers: Mapping[str, str] = {}
    models_path: str | None = "models"
    """The path of the list of models, None if there is none."""
    ignored: frozenset[str] = frozenset()
    """Fields of a chat request that the format lacks and that can be left out without changing
    the answer's meaning; a `notice` names them."""
    find_hosted_tool: Callable[[str, ChatRequest], dict[str, Any] | None] = _find_no_tool
    """Returns the provider's own tool, as `tools` of a body holds it, that does what OpenAI's of
    a type does; None if it has none that the request allows."""
    place_extra: Callable[..., dict[str, Any] | None] = _place_nowhere
    """(name, value, *, quirks) of a field of Chat Completions that the chat request does not
    have, to the fields of this format that say it, or None."""
    find_limit: Callable[[Any], str] = _limit_by_max_tokens
    """(quirks) to the path of the field that limits the length of an answer, its steps separated
    by dots."""
    passthrough: Mapping[str, Passthrough] = {}
    """By the name of the dialect that a client spoke: how its own bodies are passed through,
    rather than rendered from the chat request."""
