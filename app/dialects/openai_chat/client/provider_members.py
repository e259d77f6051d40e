"""The provider's own members of chunks, repeated for clients of the same dialect.

A member of one chunk goes out with the next chunk that has content, or in a chunk of its own
before a second value. Those at a choice's end are in `ChoiceEnd.raw`: they come only with its
finish reason.
"""

from typing import Final, NamedTuple

from ...reading.json_values import mapping
from ..member_records import KNOWN_IN_CHOICE, KNOWN_IN_CHUNK, KNOWN_IN_DELTA, Members, has_hole

_REASONING: Final = ("reasoning_content", "reasoning")


class ProviderMembers:
    """The members of one stream, by the `ProviderData` so far."""

    __slots__ = ("_choices", "_in_deltas", "chunk", "plain", "reasoning", "usage")

    def __init__(self) -> None:
        self.plain = True
        """Whether the next chunk has no members but the repeated ones beside its choices."""
        self.usage: Members = {}
        self.reasoning: tuple[str, ...] = ("reasoning_content",)
        """The fields of a delta that contain reasoning."""
        self.chunk = _Level(KNOWN_IN_CHUNK)
        """The members beside the choices."""
        self._choices: dict[int, _Levels] = {}
        self._in_deltas: frozenset[tuple[int, str]] = frozenset()

    def conflicts(self, found: Members, choice: int) -> bool:
        """Return whether a member has another value while the last one waits for a chunk."""
        levels = self._choices.get(choice, _NONE)
        return (
            self.chunk.conflicts(mapping(found.get("chunk")))
            or levels.choice.conflicts(mapping(found.get("choice")))
            or levels.delta.conflicts(mapping(found.get("delta")))
        )

    def feed(self, found: Members, choice: int) -> None:
        """Take the object of an event."""
        if "usage" in found:
            self.usage = mapping(found["usage"]) or self.usage
        if "reasoning" in found:
            names = _texts(found["reasoning"])
            self.reasoning = tuple(name for name in _REASONING if name in names) or self.reasoning
        if "chunk" in found:
            self.chunk.feed(mapping(found["chunk"]))
            self._check()
        if "choice" in found or "delta" in found:
            levels = self._choices.get(choice)
            if levels is None:
                levels = self._choices[choice] = _Levels(
                    _Level(KNOWN_IN_CHOICE), _Level(KNOWN_IN_DELTA)
                )
            levels.choice.feed(mapping(found.get("choice")))
            levels.delta.feed(mapping(found.get("delta")))
            once = mapping(mapping(found.get("delta")).get("once"))
            self._in_deltas |= {(choice, name) for name in once}
            self._check()

    def take_waiting(self) -> Members:
        """Return the members of the next chunk beside its choices, without the repeated ones."""
        waiting, self.chunk.waiting = self.chunk.waiting, {}
        if waiting:
            self._check()
        return waiting

    def take(self, choice: int, *, text: bool) -> tuple[Members, Members]:
        """Return the members of a choice's next chunk and of its delta, with or without a text.

        Those of the delta have holes for the text.
        """
        levels = self._choices.get(choice)
        if levels is None:
            return {}, {}
        waits = levels.choice.waiting or levels.delta.waiting
        taken = levels.choice.take(text=text), levels.delta.take(text=text)
        if waits:
            self._check()
        return taken

    def has_sent(self, choice: int, name: str) -> bool:
        """Return whether the deltas of a choice had a member."""
        return (choice, name) in self._in_deltas

    def _check(self) -> None:
        levels = [level for pair in self._choices.values() for level in pair]
        self.plain = not self.chunk.waiting and not any(
            one.repeated or one.waiting for one in levels
        )


class _Level:
    """The members at one level of the chunks."""

    __slots__ = ("_known", "_textless", "repeated", "waiting")

    def __init__(self, known: frozenset[str]) -> None:
        self._known = known
        """The members that events have: a record of another relay may have them too."""
        self.repeated: Members = {}
        """Those of every chunk: another object whenever they change."""
        self.waiting: Members = {}
        """Those of the next chunk alone."""
        self._textless: Members = {}
        """The repeated ones without a hole."""

    def conflicts(self, changes: Members) -> bool:
        return not self.waiting.keys().isdisjoint(mapping(changes.get("once")))

    def feed(self, changes: Members) -> None:
        if "gone" in changes or "kept" in changes:
            gone, repeated = _texts(changes.get("gone")), self._others(changes.get("kept"))
            self.repeated = {n: v for n, v in self.repeated.items() if n not in gone} | repeated
            textless = {n: v for n, v in self.repeated.items() if not has_hole(v)}
            self._textless = self.repeated if len(textless) == len(self.repeated) else textless
        if "once" in changes:
            self.waiting |= self._others(changes["once"])

    def _others(self, members: object) -> Members:
        return {n: v for n, v in mapping(members).items() if n not in self._known}

    def take(self, *, text: bool) -> Members:
        repeated = self.repeated if text else self._textless
        waiting, self.waiting = self.waiting, {}
        return repeated | waiting if waiting else repeated


class _Levels(NamedTuple):
    choice: _Level
    delta: _Level


_NONE = _Levels(_Level(KNOWN_IN_CHOICE), _Level(KNOWN_IN_DELTA))


def _texts(value: object) -> set[str]:
    """Return the strings of a list."""
    return {one for one in value if isinstance(one, str)} if isinstance(value, list) else set()
