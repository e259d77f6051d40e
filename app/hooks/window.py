"""Hooks on answers: holds text back until what follows is known, and passes on what they leave.

It works on the events that are about to be logged, so on every attempt and for every format. A
hook sees the held text, and may see its end again with what follows: a replacement near the end
waits until the text after it is known.
"""

from collections.abc import Mapping, Sequence
from typing import assert_never

import msgspec

from ..events import (
    ChoiceEnd,
    ContentFilter,
    Event,
    LogProbs,
    Media,
    Notice,
    Opaque,
    ProviderData,
    ProviderTool,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    RefusalDelta,
    RefusalEnd,
    RefusalStart,
    Source,
    StreamEnd,
    StreamStart,
    StreamTarget,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
    type_of,
)
from .contract import Check, Hook, Passed, Text, apply
from .text_walk import Texts

BEFORE = 200
"""Characters before the held text that a hook receives."""

MAX_HELD = 16_384
"""Held characters, or four times `hold` if that is more, after which a replacement near the end no
longer waits."""

SHORT = 18
"""Characters of a finish reason that cannot be a key."""

_QUIET = (TextStart, ReasoningStart, RefusalStart, Notice)

_Delta = TextDelta | ReasoningDelta | RefusalDelta
_Dropped = ToolCallDelta | LogProbs | ProviderData


class _Held:
    """The text of one block that waits."""

    __slots__ = ("before", "changed", "delta", "due", "text")

    def __init__(self, delta: _Delta) -> None:
        self.delta = delta
        """Any delta of the block."""
        self.text = ""
        self.before = ""
        self.changed = False
        self.due = 0
        """The length at which a text is checked again that had to wait."""


class Window:
    """The window of one stream."""

    def __init__(self, hooks: Sequence[Hook], *, route: str, stream: str) -> None:
        self._hooks = hooks
        self._route = route
        self._stream = stream
        self._hold = max(hook.hold for hook in hooks)
        self._most = max(MAX_HELD, 4 * self._hold)
        self._blocks: dict[int, _Held] = {}
        self._calls: set[int] = set()
        """The blocks of calls of tools that have begun."""
        self._lead: list[Event] = []
        """The events before the first checked text: until then a failure is an HTTP status."""
        self._started = False
        self._notes: set[str] = set()

    def hold(self, events: Sequence[Event]) -> bool:
        """Hold deltas within the read that received them: the path of nearly every token.

        Return False, with nothing held, if one begins its block, or a text is due for a check.
        """
        blocks, texts = self._blocks, dict[int, str]()
        for event in events:
            if isinstance(event, _Delta):
                block = event.block
                if block not in blocks:
                    return False
                texts[block] = texts.get(block, blocks[block].text) + event.text
            elif not isinstance(event, _Dropped):
                return False
        for block, held in blocks.items():
            if self._is_due(texts.get(block, held.text), held.due):
                return False
        for block, text in texts.items():
            blocks[block].text = text
        return True

    async def feed(self, events: Sequence[Event]) -> list[Event]:
        """Return the events to log now.

        Raises:
            RelayError: `content_filtered`, a hook stops the answer; `overloaded`, a hook failed.
        """
        found: list[Event] = []
        for event in events:
            found += await self._take(event)
        for held in list(self._blocks.values()):
            found += await self._release(held, whole=False)
        ends = bool(events) and isinstance(events[-1], StreamEnd)
        if not self._started:
            if not ends and all(isinstance(event, _QUIET) or _is_target(event) for event in found):
                self._lead += found
                return []
            self._started = True
            found, self._lead = [*self._lead, *found], []
        return found

    async def check(self, notice: Notice) -> list[Event]:
        """Return a notice of the relay, which may quote a provider, as hooks leave it.

        Raises:
            RelayError: see `feed`.
        """
        return await self._check_event(notice, type_of(notice))

    async def _take(self, event: Event) -> list[Event]:
        """Hold the text of an event, or return it with the text before it."""
        match event:
            case TextDelta() | ReasoningDelta() | RefusalDelta():
                held = self._blocks.get(event.block)
                if held is None:
                    held = self._blocks[event.block] = _Held(event)
                held.text += event.text
                return []
            case TextEnd() | ReasoningEnd() | RefusalEnd():
                return await self._end(event)
            case ToolCallDelta() | LogProbs() | ProviderData():  # `_Dropped`
                return []  # the end has the arguments; the others repeat the text
            case ToolCallEnd() if event.block not in self._calls:
                return []
            case ToolCallEnd():
                self._calls.remove(event.block)
                *notices, checked = await self._check_event(event, "tool_arguments")
                text = getattr(checked, "arguments", "")
                delta = [ToolCallDelta(event.block, text, event.choice)] if text else []
                return [*notices, *delta, checked]
            case ToolCallStart():
                self._calls.add(event.block)
            case ProviderTool():
                return await self._check_event(event, "tool_arguments")
            case Source():
                event = _without_span(event, self._blocks)
            case ChoiceEnd(stop_sequence=None) if len(event.finish_reason_raw or "") <= SHORT:
                return [msgspec.structs.replace(event, raw=None)]
            case (
                (TextStart() | ReasoningStart() | RefusalStart() | Media() | Opaque() | Notice())
                | (StreamStart() | StreamTarget() | StreamEnd() | Usage())
                | (ChoiceEnd() | ContentFilter())
            ):
                pass
            case _:
                assert_never(event)
        return await self._check_event(event, type_of(event))

    async def _check_event(self, event: Event, kind: str) -> list[Event]:
        """Return notices of hooks, and the event with what they leave of its texts."""
        texts, notices = Texts(), list[Event]()
        checked: Event = texts.walk(event, kind)
        if collected := texts.collected():
            found, notices = await self._check(collected)
            texts.replace(found.texts)
            checked = texts.walk(event, kind)
        return [*notices, checked]

    async def _end(self, event: TextEnd | ReasoningEnd | RefusalEnd) -> list[Event]:
        held = self._blocks.get(event.block)
        if held is None:
            return [event]
        found = await self._release(held, whole=True)
        del self._blocks[event.block]
        if held.changed and isinstance(event, ReasoningEnd):
            # The provider signed the original text.
            event = ReasoningEnd(event.block, event.choice)
        return [*found, event]

    async def _release(self, held: _Held, *, whole: bool) -> list[Event]:
        """Return the text of a block that need not wait."""
        text = held.text
        if not (text if whole else self._is_due(text, held.due)):
            return []
        cut = len(text) if whole else len(text) - self._hold
        kind, texts = type_of(held.delta).removesuffix(".delta"), Texts()
        if whole and not held.before:  # the whole text: it may be JSON
            texts.walk(text, kind)
        walked = texts.collected()
        submitted = walked or [Text(kind, text, held.before, whole)]
        (returned, _, hold), found = await self._check(submitted)
        if walked:
            texts.replace(returned)
        checked = texts.walk(text, kind) if walked else returned[0]
        passed, rest = checked, ""
        if checked != text and not whole and len(text) < self._most:
            if checked.endswith(text[cut:]):
                passed, rest = checked.removesuffix(text[cut:]), text[cut:]
            else:
                cut = min(cut, _common(text, checked))
                passed, rest = text[:cut], text[cut:]
        elif checked == text:
            if not whole and len(text) < self._most:
                cut = max(0, min(cut, len(text) - hold))
            passed, rest = text[:cut], text[cut:]
        held.changed = held.changed or passed != text[: len(text) - len(rest)]
        held.text = rest
        held.due = 0 if passed else len(rest) + self._hold
        if passed:
            held.before = (held.before + passed)[-BEFORE:]
            found.append(msgspec.structs.replace(held.delta, text=passed))
        return found

    def _is_due(self, text: str, due: int) -> bool:
        """Return whether a text that goes on has to be checked; `due` is that of its block."""
        return len(text) >= max(due, 2 * self._hold)

    async def _check(self, texts: Sequence[Text]) -> tuple[Passed, list[Event]]:
        """Return what the hooks leave of texts, and their notes as notices, each once."""
        passed = await apply(self._hooks, Check("answer", self._route, self._stream, texts))
        notes = [note for note in passed.notes if note not in self._notes]
        notes = notes[: 100 - len(self._notes)]
        self._notes.update(notes)
        return passed, [Notice("hook", note) for note in notes]


def _without_span(source: Source, blocks: Mapping[int, _Held]) -> Source:
    """Return a source without its span, if its text was changed."""
    held = None if source.block is None else blocks.get(source.block)
    if held is not None and held.changed:
        return msgspec.structs.replace(source, start=None, end=None)
    return source


def _is_target(event: Event) -> bool:
    return getattr(event, "block", None) is None and not isinstance(event, StreamEnd)


def _common(first: str, second: str) -> int:
    """Return the number of equal characters at the begin of two texts."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((n for n, (one, other) in pairs if one != other), min(len(first), len(second)))
