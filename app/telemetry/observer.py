"""Observers of streams, such as the log line, metrics and records, and the events they receive.

Observers are called synchronously and must not block. Their exceptions reach neither the stream
nor other observers.
"""

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from functools import partial
from typing import Any, Final, Literal, Protocol

import msgspec
import structlog

from ..dialects.forwarded import Kind
from ..errors import RelayError
from ..eventlog.stream_ended import ProviderReply, StreamEnded
from ..eventlog.stream_info import StreamInfo
from ..events import TokenCounts
from ..plugins import Registry
from ..upstreams.targets import Target

Operation = Literal["generation", "embeddings", "token_count"] | Kind
"""All but a generation are calls without a stream."""

TRACEPARENT: Final[ContextVar[str]] = ContextVar("seseragi_traceparent", default="")
"""The span of the current request in the format of W3C's `traceparent`; "" without tracing.

Here, since it is read without importing OpenTelemetry. Tasks that the request starts inherit it.
"""

log = structlog.get_logger("seseragi.telemetry")


class AttemptStarted(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt at a target begins: for a stream, or for a call without one."""

    id: str
    """The stream, or the call."""
    attempt: int
    target: Target
    operation: Operation = "generation"
    """Those without a stream end with `call_ended`."""


class CallEnded(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt of a call without a stream, such as embeddings, ended."""

    id: str
    attempt: int
    code: str | None
    """Of its error; "cancelled" if it was stopped."""
    answered_model: str | None
    usage: TokenCounts | None


class AttemptFailed(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt failed before the answer began, and another one follows."""

    info: StreamInfo
    attempt: int
    upstream: str
    target: str
    error: RelayError
    next_target: str
    wait_s: float
    """Until the next attempt."""
    then: str
    """The next step, for the log line."""
    reply: ProviderReply | None = None


class AttemptDropped(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt was cancelled before its answer began, since another one answered first."""

    info: StreamInfo
    attempt: int
    target: str
    reply: ProviderReply


class FirstEvent(msgspec.Struct, frozen=True):
    """The first event of the answer is readable."""

    info: StreamInfo
    after_s: float


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """A request to start or to read a stream was refused."""

    owner: str
    request_id: str
    model: str | None
    """As the request names it; None if the body was not parsed."""
    error: RelayError


class ReaderJoined(msgspec.Struct, frozen=True):
    """A reader joined a stream."""

    stream: str
    resumed: bool
    """Whether it joined with a cursor."""


class Observer(Protocol):
    """Receives events of every stream of this process, and ends that it wrote for dead processes.

    A subclass overrides only the methods that it needs.

    `started` is called once the log has the stream's first event, and `ended` once the log has
    the `stream.end`: after the commit in SQLite, or the reply of Redis. Only the process that
    wrote the end calls `ended`: the stream's own, or the one that ended it for a dead process,
    also after a restart. So over all processes there is one call per stream.

    A process killed between the commit and the call never calls it, and no other process does:
    the end would be reported twice if the kill came a moment later. That window is the way from
    SQLite's commit, or Redis's reply, to the event loop; a memory log has none, but loses its
    streams. If Redis loses acknowledged writes, a stream may end twice, and both ends are
    reported.
    """

    # Each returns explicitly: a method without a body would be abstract.

    def started(self, info: StreamInfo) -> None:
        """Receive the start of a stream."""
        return

    def attempt_started(self, started: AttemptStarted) -> Mapping[str, str] | None:
        """Receive the start of an attempt; return further headers of its upstream request."""
        return None

    def call_ended(self, ended: CallEnded) -> None:
        """Receive the end of an attempt of a call without a stream."""
        return

    def attempt_failed(self, failed: AttemptFailed) -> None:
        """Receive the failure of an attempt that another one follows."""
        return

    def attempt_dropped(self, dropped: AttemptDropped) -> None:
        """Receive the cancellation of an attempt that was not needed."""
        return

    def first_event(self, first: FirstEvent) -> None:
        """Receive the first readable event of an answer."""
        return

    def ended(self, ended: StreamEnded) -> None:
        """Receive the end of a stream."""
        return

    def refused(self, refused: Refused) -> None:
        """Receive the refusal of a request."""
        return

    def reader_joined(self, joined: ReaderJoined) -> None:
        """Receive a new reader of a stream."""
        return


OBSERVERS: Final[Registry[Callable[[], Observer]]] = Registry(
    "observer",
    {},
    group="seseragi.observers",
    is_part=callable,
    wants="a function or class that returns a seseragi.telemetry.observer.Observer",
)
"""Those that settings name. The log line, metrics, traces and records have their own settings."""


class Observers(Observer):
    """Forwards events to several observers; logs the first exception of each of their methods."""

    def __init__(self, observers: Sequence[Observer] = ()) -> None:
        self._receivers: dict[str, list[Callable[[Any], Any]]] = {
            method: [] for method in vars(Observer) if not method.startswith("_")
        }
        self._failed: set[Callable[[Any], Any]] = set()
        for method in self._receivers:
            setattr(self, method, partial(self._notify, method))
        for observer in observers:
            self.add(observer)

    def add(self, observer: Observer) -> None:
        """Forward events to another observer, to the methods that it overrides."""
        for method, receivers in self._receivers.items():
            receive = getattr(observer, method)
            if getattr(receive, "__func__", None) is not getattr(Observer, method):
                receivers.append(receive)

    def _notify(self, method: str, event: object) -> dict[str, str]:
        """Call a method of all observers; return the headers that they return."""
        headers: dict[str, str] = {}
        for receive in self._receivers[method]:
            try:
                if more := receive(event):
                    headers |= more
            except Exception:
                if receive not in self._failed:
                    self._failed.add(receive)
                    name = type(getattr(receive, "__self__", receive)).__name__
                    log.exception("observer failed", observer=name, method=method)
        return headers
