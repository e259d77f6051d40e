"""What happens to streams, for observers: the log line, metrics, records.

An observer is told within the call in which it happens: it neither waits nor blocks. What it
raises reaches no stream and no other observer.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

import msgspec
import structlog

from ..errors import RelayError
from ..eventlog.stream_ended import ProviderReply, StreamEnded
from ..eventlog.stream_info import StreamInfo
from ..events import StreamTarget, TokenCounts
from ..upstreams.targets import Target

log = structlog.get_logger("seseragi.telemetry")


class AttemptStarted(msgspec.Struct, frozen=True, kw_only=True):
    """A target is about to be asked: for a stream, or in a call that makes none."""

    id: str
    """The stream, or the call."""
    attempt: int
    target: Target
    headers: dict[str, str]
    """What the calls of it are to say beside their own headers: an observer may add to it."""
    operation: Literal["generation", "embeddings", "token_count"] = "generation"
    """Any other than a generation is a call of its own, whose end `call_ended` tells."""


class CallEnded(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt is over of a call that makes no stream, such as embeddings."""

    id: str
    attempt: int
    code: str | None
    """Of its error; "cancelled" where it was stopped."""
    answered_model: str | None
    usage: TokenCounts | None


class AttemptFailed(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt failed before the answer had begun, and another one follows."""

    info: StreamInfo
    attempt: int
    upstream: str
    target: str
    error: RelayError
    next_target: str
    wait_s: float
    """Until the next attempt."""
    then: str
    """What follows, in words."""
    reply: ProviderReply | None = None


class Committed(msgspec.Struct, frozen=True, kw_only=True):
    """The answer has begun: no other target is tried."""

    info: StreamInfo
    attempt: int
    target: str
    after_s: float
    """Since the stream was started."""
    answer: StreamTarget | None = None
    """Who answers by its own word."""


class FirstEvent(msgspec.Struct, frozen=True):
    """The first piece of the answer can be read."""

    info: StreamInfo
    after_s: float


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """A request for a stream, or for reading one, was refused."""

    owner: str
    request_id: str
    model: str | None
    """As the request names it; None where it was not read."""
    error: RelayError


class Readers(msgspec.Struct, frozen=True, kw_only=True):
    """A reader has joined or left a stream."""

    stream: str
    owner: str
    readers: int
    """How many the stream has in this process now."""
    resumed: bool = False
    """Whether one has joined that had a cursor."""


class Observer(Protocol):
    """Is notified of every stream that this process runs, and of ends that it wrote for others.

    A subclass overrides only the methods that it needs.

    `started` is told once the log has the stream's first event, and `ended` once it has the
    `stream.end` in its place: after a commit in SQLite, after Redis has said so. The process that
    put it there tells it, and no other: the stream's own, or the one that ended it for a process
    that was lost, after a restart too. So over all processes it is told once for each stream.

    A process that is killed in the moment between the commit and the telling tells nothing, and
    nobody does it for it: it would be told twice where the kill came a moment later. That moment
    is the way from SQLite's commit, or Redis's reply, to the event loop; a memory log has none,
    but takes its streams along. A Redis that loses acknowledged writes may have a stream ended
    twice, and then both ends are told.
    """

    # Each returns explicitly: a method without a body would be abstract.

    def started(self, record: StreamInfo) -> None:
        """Hear that a stream has begun."""
        return

    def attempt_started(self, started: AttemptStarted) -> None:
        """Hear that a target is about to be asked."""
        return

    def call_ended(self, ended: CallEnded) -> None:
        """Hear that an attempt of a call is over that makes no stream."""
        return

    def attempt_failed(self, failed: AttemptFailed) -> None:
        """Hear that an attempt has failed and another one follows."""
        return

    def committed(self, committed: Committed) -> None:
        """Hear that an answer has begun."""
        return

    def first_event(self, first: FirstEvent) -> None:
        """Hear that something of an answer can be read."""
        return

    def ended(self, ended: StreamEnded) -> None:
        """Hear that a stream has ended."""
        return

    def refused(self, refused: Refused) -> None:
        """Hear that a request was refused."""
        return

    def reader_joined(self, readers: Readers) -> None:
        """Hear that a stream has one reader more."""
        return

    def reader_left(self, readers: Readers) -> None:
        """Hear that a stream has one reader less."""
        return


class Observers(Observer):
    """Tells several observers; what one of them raises is logged once for each of its methods."""

    def __init__(self, observers: Sequence[Observer] = ()) -> None:
        self._told: dict[str, list[Callable[[Any], None]]] = {
            method: [] for method in vars(Observer) if not method.startswith("_")
        }
        self._failed: set[Callable[[Any], None]] = set()
        for observer in observers:
            self.add(observer)

    def add(self, observer: Observer) -> None:
        """Tell one more from now on, of what it has a method for."""
        for method, told in self._told.items():
            tell = getattr(observer, method)
            if getattr(tell, "__func__", None) is not getattr(Observer, method):
                told.append(tell)

    def started(self, record: StreamInfo) -> None:
        self._notify("started", record)

    def attempt_started(self, started: AttemptStarted) -> None:
        self._notify("attempt_started", started)

    def call_ended(self, ended: CallEnded) -> None:
        self._notify("call_ended", ended)

    def attempt_failed(self, failed: AttemptFailed) -> None:
        self._notify("attempt_failed", failed)

    def committed(self, committed: Committed) -> None:
        self._notify("committed", committed)

    def first_event(self, first: FirstEvent) -> None:
        self._notify("first_event", first)

    def ended(self, ended: StreamEnded) -> None:
        self._notify("ended", ended)

    def refused(self, refused: Refused) -> None:
        self._notify("refused", refused)

    def reader_joined(self, readers: Readers) -> None:
        self._notify("reader_joined", readers)

    def reader_left(self, readers: Readers) -> None:
        self._notify("reader_left", readers)

    def _notify(self, method: str, what: object) -> None:
        for tell in self._told[method]:
            try:
                tell(what)
            except Exception:
                if tell not in self._failed:
                    self._failed.add(tell)
                    name = type(getattr(tell, "__self__", tell)).__name__
                    log.exception("observer failed", observer=name, method=method)
