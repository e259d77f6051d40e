"""Records the members of chunks that no event has, for clients of the same dialect.

Members that change with every chunk are recorded up to `MAX_RECORDED`, but reasoning is complete.
Not recorded, as null is not:

- `obfuscation` and Mistral's `p`: padding between the provider and its direct client;
- Together's `text`, which repeats the content, and `token_id`, which changes with every token.
"""

from collections.abc import Collection
from typing import Any, Final, Literal

from ...reading.answer_bounds import ENTRY
from ...reading.event_builder import EventBuilder
from ...reading.json_values import leave_out, mapping, size, string
from ..member_records import (
    FORMAT,
    KNOWN_IN_CHOICE,
    KNOWN_IN_CHUNK,
    KNOWN_IN_DELTA,
    Members,
    cut_text,
)
from .text_chunk import MAX_CHOICES, SameDialectChunk

MAX_RECORDED: Final = 2**18
"""Bytes of a stream's members with the overhead of their events, some 1000 changes."""

MAX_REPEATED: Final = 32_768
"""Approximate bytes at one level that are repeated in every chunk: readers get them from a record
of one. A value beyond that is in the first of its chunks only."""

MAX_USAGE: Final = 16_384
"""Approximate bytes of a `usage` object."""

_CHUNK: Final = KNOWN_IN_CHUNK | {"obfuscation", "p"}
_CHOICE: Final = KNOWN_IN_CHOICE | {"text"}
_DELTA: Final = KNOWN_IN_DELTA | {"token_id"}
_CALL: Final = frozenset(("index", "id", "type", "function", "custom"))
_FUNCTION: Final = frozenset(("name", "arguments", "input"))
_LOGPROBS: Final = frozenset(("content", "refusal", "reasoning_content"))
"""The members that events have, or that are not recorded, by their place."""

_REASONING: Final = ("reasoning_details", "thinking_blocks")
"""Members of a delta that a client sends back, so that none may be missing."""

_CONSTANTS: Final = ("system_fingerprint", "service_tier", "provider")
"""The members of a `SameDialectChunk` that providers repeat in all chunks."""


class ProviderMembers:
    """Records the members of one stream's chunks."""

    __slots__ = (
        "_builder",
        "_channels",
        "_choices",
        "_chunk",
        "_constants",
        "_finished",
        "_free",
        "_reasoning",
        "_usage",
    )

    def __init__(self, builder: EventBuilder) -> None:
        self._builder = builder
        self._chunk = _Level(_CONSTANTS)
        self._choices: dict[int, tuple[_Level, _Level]] = {}
        """By choice: its own level, and that of its deltas."""
        self._finished: frozenset[int] = frozenset()
        self._reasoning: tuple[str, ...] = ("reasoning_content",)
        self._usage: Members = {}
        self._free = MAX_RECORDED
        self._constants: tuple[Any, ...] | None = (None,) * len(_CONSTANTS)
        """Those of the last chunk; None if there are other members."""
        self._channels: dict[int, str | Literal[False] | None] = {}
        """The repeated `channel` of each choice's deltas; False if there are other members."""

    def read_text_chunk(self, chunk: SameDialectChunk) -> bool:
        """Record the members of a text chunk; return False if it needs the full parser."""
        for choice in chunk.choices:
            delta = choice.delta
            if not 0 <= choice.index < MAX_CHOICES:
                return False
            if delta.channel != self._channels.get(choice.index):
                return False
            if (delta.reasoning or delta.reasoning_content) and self._reasoning != _names(
                delta.reasoning_content, delta.reasoning
            ):
                return False
        if self._free > 0:
            constants = (chunk.system_fingerprint, chunk.service_tier, chunk.provider)
            if constants != self._constants:
                named = zip(_CONSTANTS, constants, strict=True)
                found = {name: value for name, value in named if value is not None}
                if self._constants is None or len(found) > 1:  # a typed chunk loses their order
                    return False
                self._note_chunk(found)
        return True

    def read_chunk(self, chunk: Members) -> None:
        """Record the members beside the choices."""
        self._note_chunk(self._select(chunk, _CHUNK))

    def _note_chunk(self, members: Members) -> None:
        level = self._chunk
        if changes := level.note(members):
            self._record({"chunk": changes})
        known = level.settled and level.repeated.keys() <= {*_CONSTANTS}
        self._constants = tuple(map(members.get, _CONSTANTS)) if known else None

    def read_choice(self, index: int, choice: Members, delta: Members) -> tuple[Members, Members]:
        """Return what to `record` for a choice, and the members to add to its finish."""
        found: Members = {}
        of_choice, of_delta = self._select(choice, _CHOICE), self._select_delta(delta)
        levels = self._choices.get(index)
        if levels is None:
            if not (of_choice or of_delta or delta.get("reasoning")):
                return {}, {}  # most hosts send no other members
            levels = self._choices[index] = (_Level(), _Level())
        if "logprobs" in of_choice:
            logprobs = leave_out(mapping(of_choice.pop("logprobs")), _LOGPROBS)
            of_choice |= {"logprobs": logprobs} if logprobs else {}
        finish: Members = {}
        if changes := levels[0].note(of_choice):
            if choice.get("finish_reason") and index not in self._finished:
                self._finished |= {index}
                finish = changes.pop("once", {})
            found |= {"choice": changes} if changes else {}
        if changes := levels[1].note(of_delta):
            found["delta"] = changes
        names = _names(delta.get("reasoning_content"), delta.get("reasoning"))
        if names and names != self._reasoning:
            self._reasoning = names
            found["reasoning"] = names
        settled = levels[0].settled and levels[1].settled
        repeated = levels[1].repeated
        known = settled and not levels[0].repeated and repeated.keys() <= {"channel"}
        self._channels[index] = repeated.get("channel") if known else False
        return found, finish

    def record(self, index: int, found: Members, *, at: int) -> None:
        """Record what `read_choice` found, in front of the events of its chunk."""
        if "delta" in found and self._builder.position == at:
            found["now"] = True
        self._record(found, choice=index, at=at)

    def read_call(self, call: Members, function: Members) -> Members:
        """Return the other members of a tool call."""
        found = leave_out(call, _CALL)
        if "extra_content" in found:
            found["extra_content"] = _extra(found["extra_content"])
        inner = leave_out(function, _FUNCTION)
        return {n: v for n, v in {**found, "function": inner}.items() if v not in (None, {})}

    def read_usage(self, usage: Members) -> None:
        """Take the counts so far."""
        self._usage = usage

    def end(self) -> None:
        """Record the last counts."""
        if self._usage and size(self._usage) <= MAX_USAGE:
            self._builder.provider_data(FORMAT, {"usage": self._usage})

    def _select(self, members: Members, known: frozenset[str]) -> Members:
        return leave_out(members, known) if self._free > 0 else {}

    def _select_delta(self, delta: Members) -> Members:
        found = leave_out(delta, _DELTA)
        if self._free <= 0:
            found = {name: value for name, value in found.items() if name in _REASONING}
        if not found:
            return found
        if "extra_content" in found and (extra := _extra(found.pop("extra_content"))):
            found["extra_content"] = extra
        if found.get("reasoning_details") == []:
            del found["reasoning_details"]  # OpenRouter sends it with every piece of text
        texts = [delta.get("content"), delta.get("reasoning") or delta.get("reasoning_content")]
        if audio := mapping(found.get("audio")):
            found["audio"] = leave_out(audio, frozenset(("data",)))
            texts.append(audio.get("transcript"))
        parts = [*filter(None, map(string, texts))]
        return mapping(cut_text(found, parts[0])) if len(parts) == 1 else found

    def _record(self, found: Members, *, choice: int = 0, at: int | None = None) -> None:
        if not found:
            return
        had_room = self._free > 0
        self._free -= ENTRY + self._builder.provider_data(FORMAT, found, choice=choice, at=at)
        if had_room and self._free <= 0:
            what = f"the provider's own fields of chunks exceed {MAX_RECORDED} bytes"
            self._builder.notice("provider_data_dropped", f"{what}: further ones are dropped")


class _Level:
    """The members at one level of the chunks."""

    __slots__ = ("_constants", "_free", "_large", "_last", "repeated")

    def __init__(self, constants: Collection[str] = ()) -> None:
        """`constants` are repeated from their first chunk on, others once a second one has them."""
        self._constants = constants
        self.repeated: Members = {}
        """Another object whenever it changes."""
        self._free = MAX_REPEATED
        self._large: Members = {}
        """Members that are too large to repeat."""
        self._last: Members = {}

    @property
    def settled(self) -> bool:
        """Whether the last chunk had the repeated members and no others."""
        return self._last == self.repeated

    def note(self, members: Members) -> Members:
        """Return the changes that the next chunk's members are; {} for none."""
        if self._constants:  # those of one chunk are repeated as well
            members = {n: self.repeated[n] for n in self._constants if n in self.repeated} | members
        last, self._last = self._last, members
        if members == self.repeated:
            self._last = self.repeated
            return {}
        gone = _differing(self.repeated, members)
        self._free += sum(size(self.repeated[name]) for name in gone)
        self.repeated = {n: v for n, v in self.repeated.items() if n not in gone}
        for name in _differing(self._large, members):
            del self._large[name]
        once: Members = {}
        repeated: Members = {}
        for name, value in members.items():
            if name in self.repeated or name in self._large:
                continue
            if name not in self._constants and (name not in last or last[name] != value):
                once[name] = value
            elif (length := size(value)) > self._free:
                self._large[name] = value
            else:
                repeated[name] = self.repeated[name] = value
                self._free -= length
        if members == self.repeated:
            self._last = self.repeated
        return {n: v for n, v in (("once", once), ("kept", repeated), ("gone", gone)) if v}


def _differing(first: Members, second: Members) -> list[str]:
    """Return the names of members that the second object has not, or with another value."""
    return [n for n, v in first.items() if n not in second or second[n] != v]


def _names(content: object, reasoning: object) -> tuple[str, ...]:
    """Return the names of the fields with reasoning."""
    found = (("reasoning_content", content), ("reasoning", reasoning))
    return tuple(name for name, value in found if value and isinstance(value, str))


def _extra(value: object) -> Members:
    """Return `extra_content` without what events have of Google's."""
    google = leave_out(mapping(mapping(value).get("google")), _GOOGLE)
    others = leave_out(mapping(value), frozenset(("google",)))
    return {**others, "google": google} if google else others


_GOOGLE: Final = frozenset(("thought", "thought_signature"))
