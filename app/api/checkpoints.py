"""Checkpoints: states of renderers, from which a client that resumes is served.

A renderer is a pure function of the log, and so is its state after an event, whichever reader it
rendered for. The process that rendered a stream has some of its states in memory; another
one, or after a restart, renders from the first event again and has its own from then on.
"""

import asyncio
import io
import pickle
from bisect import bisect_right
from collections import OrderedDict
from contextlib import suppress
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec

from ..dialects.client_format import NumberedWriter
from ..dialects.client_formats import CLIENT_FORMATS
from ..eventlog import STRIDE
from ..eventlog.entries import UNTYPED_FACTOR

EVERY: Final = 1000
"""Events from one checkpoint to the next. A resume passes over half as many, which takes one
to three milliseconds; saving takes 5 to 40 us, at most 1 % of rendering them."""

MAX_BYTES: Final = 32 * 2**20
"""The memory of all checkpoints."""

MAX_STREAM_BYTES: Final = 8 * 2**20
"""That of a stream in one format: 100,000 tokens take 0.2 MB, and 0.6 MB more as Responses."""

KEEP_S: Final = 900.0
"""How long those of a stream are kept after their last use."""

NEVER: Final = 2**62

_LARGE: Final = 200
"""Characters of a text that states share: a copy of a smaller one weighs little."""

_PLAIN: Final = 2048
"""Bytes of a state without large texts."""

_TEXTS: Final = (str, bytes, msgspec.Raw)

_OVERHEAD: Final = 300
"""The memory of a checkpoint besides its bytes."""


class Checkpoint(NamedTuple):
    """The state of a renderer after some events and their frames."""

    events: int
    frames: int
    state: bytes
    shared: tuple[Any, ...]
    """The large immutable parts of the state, which later states refer to as well."""

    @property
    def due(self) -> int:
        """The event at which the next one is due: large states are saved less often."""
        return self.events + max(EVERY, len(self.state))

    @classmethod
    def of(cls, writer: NumberedWriter, events: int, *, plain: bool = True) -> "Checkpoint":
        """Save the state of a writer; a `plain` one has had no large parts before.

        Raises:
            TypeError, AttributeError, pickle.PicklingError, RecursionError: it cannot be saved.
        """
        if plain:  # takes half as long as to look at every part
            with suppress(TypeError):  # there is a part that can only be shared
                state = pickle.dumps(writer.renderer, protocol=5)
                if len(state) <= _PLAIN:
                    return cls(events, writer.count, state, ())
        shared: list[Any] = []

        def share(value: Any) -> int | None:
            kind = type(value)
            if kind is MappingProxyType or (kind in _TEXTS and len(value) > _LARGE):
                shared.append(value)
                return len(shared) - 1
            return None

        file = io.BytesIO()
        pickler = pickle.Pickler(file, protocol=5)
        pickler.persistent_id = share  # type: ignore[method-assign]
        pickler.dump(writer.renderer)
        return cls(events, writer.count, file.getvalue(), tuple(shared))

    def restore(self, writer: NumberedWriter) -> bool:
        """Go on in a new writer; return whether it is of the same format."""
        unpickler = pickle.Unpickler(io.BytesIO(self.state))  # noqa: S301  (made by `of`)
        unpickler.persistent_load = self.shared.__getitem__  # type: ignore[method-assign]
        renderer = unpickler.load()
        if type(renderer) is not type(writer.renderer):  # of a package with the same letter
            return False
        writer.renderer, writer.count = renderer, self.frames
        return True


class _Kept(msgspec.Struct):
    """The checkpoints of a stream in one format."""

    checkpoints: list[Checkpoint] = []
    size: int = 0
    used_at: float = 0.0


class Checkpoints:
    """The checkpoints of this process."""

    def __init__(self, *, keep_s: float = KEEP_S, max_bytes: int = MAX_BYTES) -> None:
        self._keep_s = min(keep_s, KEEP_S)
        self._max_bytes = max_bytes
        self._kept: OrderedDict[tuple[str, str], _Kept] = OrderedDict()
        """By stream and letter, the least recently used first."""
        self._timer: asyncio.TimerHandle | None = None
        self.size = 0
        """Bytes of all, estimated."""

    def find(self, stream: str, letter: str, frames: int) -> Checkpoint | None:
        """Return the last checkpoint with at most so many frames."""
        kept = self._kept.get((stream, letter))
        if kept is None:
            return None
        self._use((stream, letter), kept)
        place = bisect_right(kept.checkpoints, frames, key=attrgetter("frames"))
        return kept.checkpoints[place - 1] if place else None

    def save(self, stream: str, after: int, writer: NumberedWriter) -> int:
        """Save the state of a writer after so many events, if one is due; return the next due."""
        if after >= STRIDE:  # an ending, which is short
            return NEVER
        key = stream, writer.letter
        kept = self._kept.get(key) or _Kept()
        last = kept.checkpoints[-1] if kept.checkpoints else None
        if last is not None and after < last.due:
            return last.due
        try:
            plain = last is None or not last.shared
            checkpoint = Checkpoint.of(writer, after, plain=plain)
        except (TypeError, AttributeError, pickle.PicklingError, RecursionError):  # of a package
            return NEVER
        known = () if last is None else set(map(id, last.shared))
        size = sum(_size_of(one) for one in checkpoint.shared if id(one) not in known)
        size += _OVERHEAD + len(checkpoint.state)
        kept.checkpoints.append(checkpoint)
        kept.size += size
        self.size += size
        self._use(key, kept)
        if kept.size > MAX_STREAM_BYTES:
            self._drop(key)
        while self.size > self._max_bytes:
            self._drop(next(iter(self._kept)))
        if self._timer is None:
            self._sweep()
        return checkpoint.due

    def forget(self, stream: str) -> None:
        """Drop the checkpoints of a stream."""
        for client_format in CLIENT_FORMATS.values():
            self._drop((stream, client_format.letter))

    def _drop(self, key: tuple[str, str]) -> None:
        kept = self._kept.pop(key, None)
        self.size -= 0 if kept is None else kept.size

    def _use(self, key: tuple[str, str], kept: _Kept) -> None:
        kept.used_at = asyncio.get_running_loop().time()
        self._kept[key] = kept
        self._kept.move_to_end(key)

    def _sweep(self) -> None:
        """Drop what was not used for a while, and come back for the next."""
        loop = asyncio.get_running_loop()
        self._timer = None
        while self._kept and self._timer is None:
            key, kept = next(iter(self._kept.items()))
            if kept.used_at + self._keep_s <= loop.time():
                self._drop(key)
            else:
                self._timer = loop.call_at(kept.used_at + self._keep_s, self._sweep)


def _size_of(value: Any) -> int:
    if isinstance(value, MappingProxyType):
        return len(msgspec.json.encode(dict(value))) * UNTYPED_FACTOR
    return len(value)
