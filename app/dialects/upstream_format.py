"""What a dialect is: all that a relay needs to speak one format. No format is known here."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, Self

import msgspec

from ..errors import RelayError
from ..events import Event, Status, TokenCounts
from ..framing.sse import Message
from ..requests import ChatRequest

MODEL: Final = "{model}"
"""Where a path or a base URL wants the model's name."""


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
        """Whether something came that no answer of the format has. Asked last."""

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
    """The model that answers, by the provider's word, once it is known."""
    said: str
    """What the provider said in words of a failure, for the operator; "" before it did."""

    def __init__(self, *, upstream: str, choices: int = 1) -> None:
        """Name the upstream for errors, and say how many answers were asked for."""

    @property
    def ended(self) -> bool:
        """Whether `stream.end` was returned; nothing else comes then."""

    @property
    def finished(self) -> bool:
        """Whether nothing but an end marker is missing."""

    @property
    def usage(self) -> TokenCounts | None:
        """What the provider has counted so far."""

    @property
    def counted_early(self) -> bool:
        """Whether `usage` was told before the finish, and may not be of the whole answer."""

    @property
    def refused(self) -> bool:
        """Whether the provider itself has said that it failed."""

    @property
    def reasoning_field(self) -> str | None:
        """The field in which the provider sends reasoning, if hosts of the format differ in it."""

    def know_calls(self, ids: Collection[str]) -> None:
        """Take the ids of the conversation's calls, which no call of this answer may have."""

    def feed(self, message: Message) -> list[Event]:
        """Take the next message."""

    def close(self, tail: Message | None, *, strange: bool = False) -> list[Event]:
        """Take the end of input, the message that it left unterminated, and `Decoder.strange`."""

    def cut(self, error: RelayError) -> list[Event]:
        """Take the loss of the connection: too late to matter if `finished`, else a failure."""

    def stop(self, status: Status, error: RelayError | None = None) -> list[Event]:
        """End now, whatever was seen: cancelled, interrupted, or failed with `error`."""


class Quirks(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one vendor of a format wants otherwise; each dialect has its own."""

    @property
    def ignored(self) -> Collection[str]:
        """The fields of a chat request that are left out for this vendor's sake."""
        return ()

    def with_reasoning(self, field: str) -> Self:
        """Return the quirks of a model that takes reasoning in this field, by its own answers."""
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
    """What was left out or said otherwise since the provider would refuse it, each as the end
    of a sentence about the upstream."""


class PassedBody(NamedTuple):
    """A client's own body as the upstream can take it, and headers that go with it."""

    body: dict[str, Any]
    headers: Mapping[str, str] = {}


class Passthrough(NamedTuple):
    """How the requests of clients that speak an upstream's own dialect are passed through."""

    pass_on: Callable[..., PassedBody]
    """(client_body, *, quirks) to what the provider can take of it."""
    finish: Callable[..., dict[str, Any]]
    """(body, *, model, quirks) to the JSON body, with the model and that it is a stream."""


class UpstreamFormat(NamedTuple):
    """All that a relay needs to speak one format with an upstream."""

    path: str
    """Appended to the upstream's base URL; may hold `MODEL` and a query."""
    decoder: type[Decoder]
    parser: type[Parser]
    render_request: Callable[..., RenderedRequest]
    """(request, *, model, quirks) to the JSON body, and what it says otherwise."""
    quirks: type[Quirks]
    """What one vendor of the format may want otherwise."""
    headers: Mapping[str, str] = {}
    models_path: str | None = "models"
    """Where the models are listed, None if they are not."""
    ignored: frozenset[str] = frozenset()
    """Fields of a chat request that the format has no place for, though the answer is none
    the less one to the request: they are left out, and a `notice` says so."""
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
