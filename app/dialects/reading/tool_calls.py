"""Assignment of tool call fragments to calls, for the parsers of all dialects.

A call is identified by its index. Without an index it is identified by its id; without both,
a name begins a call, and a fragment without a name continues the latest one. A name is never
changed or appended to.
"""

import re
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from .answer_bounds import MAX_CALLS, Excess
from .json_values import decode_or, is_json
from .partial_json import Growing
from .split_text import Halves

_TWO_OBJECTS: Final = re.compile(r"\}\s*+\{")
_MAX_SPLITS: Final = 4
"""How often a call's arguments are searched for a second object: each search reads all of them."""


@dataclass(slots=True, eq=False)
class CallState:
    """A tool call so far; `block` is None until its name is known."""

    id: str = ""
    name: str = ""
    block: int | None = None
    free: bool = False
    """Whether the arguments are free text, as for a custom tool, instead of JSON."""
    ended: bool = False
    """Whether its `tool_call.end` was emitted."""
    sent: bool = False
    """Whether a `tool_call.delta` was emitted."""
    _word: str = ""
    """The arguments not emitted yet, since they may become `null`; without outer white space."""
    pieces: list[str] = field(default_factory=list)
    halves: Halves = field(default_factory=Halves)
    buffered: int = 0
    """Approximate bytes that are buffered until its name is known."""
    growing: Growing = field(default_factory=Growing)
    surplus: list[str] = field(default_factory=list)
    """What followed complete arguments; it is never emitted."""
    _splits: int = 0

    def append(self, piece: str) -> str:
        """Append a piece of the arguments; return the part of it that belongs to them.

        Hosts repeat the whole arguments in their last chunk, or begin with a brace of their own.
        """
        if not self.free and self.pieces:
            if self.growing.is_closed(self.pieces):
                if piece.strip():
                    self.surplus.append(piece)
                    return ""
            elif self.pieces[0] == "{" and len(self.pieces) == 1:
                stripped = piece.lstrip()
                piece = stripped[1:] if stripped.startswith("{") else piece
        if not self.free and self._splits < _MAX_SPLITS and _TWO_OBJECTS.search(piece):
            piece = self._split(piece)
        if piece:
            self.pieces.append(piece)
        return piece

    def _split(self, piece: str) -> str:
        """Return a piece up to the end of the arguments; the rest is surplus."""
        before = self.arguments
        for match in islice(_TWO_OBJECTS.finditer(piece), _MAX_SPLITS - self._splits):
            self._splits += 1
            end = match.start() + 1
            if is_json(before + piece[:end]):
                self.surplus.append(piece[end:])
                return piece[:end]
        return piece

    @property
    def repeated(self) -> bool:
        """Whether the surplus only repeats the arguments, also as a string of JSON."""
        arguments, surplus = self.arguments.strip(), "".join(self.surplus).strip()
        while surplus.startswith(arguments):
            surplus = surplus[len(arguments) :].lstrip()
        value = decode_or(surplus, None) if surplus else arguments
        return value == arguments or value == decode_or(arguments, surplus)

    @property
    def arguments(self) -> str:
        return "".join(self.pieces)

    def is_whole(self) -> bool:
        """Whether the arguments are complete JSON."""
        return self.growing.is_whole(self.pieces)

    def may_be_null(self, piece: str) -> bool:
        """Whether the arguments, with the next piece, are `null` or a prefix of it.

        Groq and Llama send `null` for a tool without parameters; it means {}.
        """
        self._word = f"{self._word}{piece}".strip()
        return not self.free and "null".startswith(self._word)

    @property
    def torn(self) -> bool:
        """Whether the arguments are incomplete JSON; none at all mean {}."""
        whole = self.is_whole() and not self.halves.pending
        return bool(self.pieces) and not self.free and not whole


class ChoiceCalls:
    """The tool calls of one choice, in the order in which they began."""

    def __init__(self) -> None:
        self.all: list[CallState] = []
        self.by_block: dict[int, CallState] = {}
        """The calls with a block, by its number."""
        self.ids: set[str] = set()
        """The ids of those with a block."""
        self._by_index: dict[int, CallState] = {}
        self._by_id: dict[str, CallState] = {}
        self._changed: dict[int, CallState] = {}
        """Those that changed since `torn` was last computed, by block."""
        self._torn: set[int] = set()

    def find(self, *, index: int | None, id: str, name: str, piece: str) -> CallState:
        """Find the call that a fragment belongs to, or begin it.

        Raises:
            Excess: there are too many.
        """
        call = self._known(index=index, id=id, name=name, piece=piece)
        if call is None:
            call = CallState()
            self.all.append(call)
        if index is not None:
            self._by_index[index] = call
            if len(self._by_index) > MAX_CALLS:
                raise Excess(MAX_CALLS, "tool calls")
        if id and call.id in ("", id):
            self._by_id.setdefault(id, call)
        return call

    def note(self, call: CallState, block: int) -> None:
        """Record that a call has begun or changed."""
        self._changed[block] = call

    @property
    def torn(self) -> bool:
        """Whether any call is torn. Called after every read."""
        if self._changed:
            for block, call in self._changed.items():
                (self._torn.add if call.torn else self._torn.discard)(block)
            self._changed = {}
        return bool(self._torn)

    def _known(self, *, index: int | None, id: str, name: str, piece: str) -> CallState | None:
        if index is not None:
            call = self._by_index.get(index)
            if call is not None and _is_another(call, id=id, name=name, piece=piece):
                return None
            return call
        if id in self._by_id:
            return self._by_id[id]
        return self.all[-1] if self.all and not name else None


def _is_another(call: CallState, *, id: str, name: str, piece: str) -> bool:
    """Return whether a fragment with the index of `call` begins a new call.

    Some hosts repeat id and name on every fragment, others send every call as index 0.
    """
    if not name or not call.name:
        return False
    if id:
        return id != call.id
    return name != call.name or (bool(piece and call.pieces) and call.is_whole())
