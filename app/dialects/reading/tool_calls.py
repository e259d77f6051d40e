"""Which tool call a fragment belongs to, for the parsers of all dialects.

A call is known by its index. Where the host gives none it is known by its id, else a name
begins a call, else the fragment continues the latest one. A name is never changed or
added to.
"""

from dataclasses import dataclass, field

from .bounds import MAX_CALLS, Excess
from .partial_json import Growing
from .surrogates import Halves


@dataclass(slots=True, eq=False)
class Call:
    """A tool call so far; `block` is None until its name is known and it was begun."""

    id: str = ""
    name: str = ""
    block: int | None = None
    free: bool = False
    """Whether the arguments are any text, as a custom tool takes it, and not JSON."""
    ended: bool = False
    """Whether its end was told."""
    sent: bool = False
    """Whether a piece of its arguments was sent."""
    _word: str = ""
    """The arguments that were not sent, which may be `null`, without the spaces around them."""
    pieces: list[str] = field(default_factory=list)
    halves: Halves = field(default_factory=Halves)
    held: int = 0
    """About how many bytes of it wait for its name."""
    growing: Growing = field(default_factory=Growing)

    @property
    def arguments(self) -> str:
        return "".join(self.pieces)

    def is_whole(self) -> bool:
        """Whether the arguments are JSON as they stand."""
        return self.growing.is_whole(self.pieces)

    def may_be_null(self, piece: str) -> bool:
        """Whether the arguments, with the next piece, are `null` or the start of it.

        Groq and Llama send that for a tool without parameters; it stands for {}.
        """
        self._word = f"{self._word}{piece}".strip()
        return not self.free and "null".startswith(self._word)

    @property
    def torn(self) -> bool:
        """Whether the arguments are a part of JSON only; none at all stand for {}."""
        return bool(self.pieces) and not self.free and not self.is_whole()


class Calls:
    """The tool calls of one choice, in the order in which they began."""

    def __init__(self) -> None:
        self.all: list[Call] = []
        self.told: dict[int, Call] = {}
        """Those that were begun, which the nameless are not, by block."""
        self.ids: set[str] = set()
        """The ids of those that were begun."""
        self._by_index: dict[int, Call] = {}
        self._by_id: dict[str, Call] = {}
        self._changed: dict[int, Call] = {}
        """Those that were begun and not judged since they changed, by block."""
        self._torn: set[int] = set()

    def find(self, *, index: int | None, id: str, name: str, piece: str) -> Call:
        """Find the call that a fragment belongs to, or begin it.

        Raises:
            Excess: there are too many.
        """
        call = self._known(index=index, id=id, name=name, piece=piece)
        if call is None:
            call = Call()
            self.all.append(call)
        if index is not None:
            self._by_index[index] = call
            if len(self._by_index) > MAX_CALLS:
                raise Excess(MAX_CALLS, "tool calls")
        if id and call.id in ("", id):
            self._by_id.setdefault(id, call)
        return call

    def note(self, call: Call, block: int) -> None:
        """Note that a call was begun, or has changed."""
        self._changed[block] = call

    @property
    def torn(self) -> bool:
        """Whether any call that was begun is torn. Asked after every read."""
        if self._changed:
            for block, call in self._changed.items():
                (self._torn.add if call.torn else self._torn.discard)(block)
            self._changed = {}
        return bool(self._torn)

    def _known(self, *, index: int | None, id: str, name: str, piece: str) -> Call | None:
        if index is not None:
            call = self._by_index.get(index)
            if call is not None and _is_another(call, id=id, name=name, piece=piece):
                return None
            return call
        if id in self._by_id:
            return self._by_id[id]
        return self.all[-1] if self.all and not name else None


def _is_another(call: Call, *, id: str, name: str, piece: str) -> bool:
    """Whether a fragment under the index of `call` begins a new call all the same.

    Some hosts repeat id and name on every fragment, others send every call as index 0.
    """
    if not name or not call.name:
        return False
    if id:
        return id != call.id
    return name != call.name or (bool(piece and call.pieces) and call.is_whole())
