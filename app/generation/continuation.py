"""The continuation of an answer whose upstream died, by another attempt. No I/O.

Only plain text is continued: an answer that has a tool call, a refusal, media or a block of the
provider's own ends as failed, and so does one that was cut within its reasoning. The target gets
the text as a last turn of the assistant if it goes on exactly there; another one gets a request to
go on, and what it repeats is removed.

The reader gets one answer: the text goes on in its block, and later blocks have the next numbers.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from ..dialects.writing.token_estimate import estimate_text
from ..events import (
    ChoiceEnd,
    ContentFilter,
    Event,
    LogProbs,
    Notice,
    Opaque,
    ProviderData,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    Source,
    StreamEnd,
    StreamStart,
    StreamTarget,
    TextDelta,
    TextEnd,
    TextStart,
    Usage,
)
from ..requests import AssistantMessage, ChatRequest, TextFormat, UserMessage
from .overlap import Overlap

GO_ON: Final = (
    "Your last message was cut off by a technical failure. Continue it with exactly the characters "
    "that follow its end. Do not repeat any of it, do not comment, and do not begin anew."
)

_CLOSING = (Usage, TextEnd, ReasoningEnd)
_ABOUT = (StreamStart, StreamTarget, Notice, Usage, LogProbs, Source, Opaque)
"""Events that do not matter to a continuation."""


class Unfinished(NamedTuple):
    """An answer that can be continued."""

    text: str
    block: int | None
    """The open text block; None if no block is open."""
    block_length: int
    """The characters of that block."""
    blocks: int
    """The number of blocks."""


def may_be_continued(chat: ChatRequest) -> bool:
    """Return whether answers to a request can be continued, as long as they are plain text."""
    body = chat.client_body
    whole = body is None or not (body.untranslatable or body.unsupported)
    text = chat.response_format is None or isinstance(chat.response_format, TextFormat)
    return whole and text and (chat.n or 1) == 1


def without_closing(events: Sequence[Event]) -> Sequence[Event]:
    """Return the last events of a failed attempt without those that close its blocks."""
    count = len(events) - 1
    while count and isinstance(events[count - 1], _CLOSING):
        count -= 1
    return events[:count]


def find_unfinished(events: Iterable[Event]) -> Unfinished | None:
    """Return the answer in the events of a stream; None if it cannot be continued."""
    texts: list[str] = []
    block: int | None = None
    blocks = length = 0
    thinks = False
    for event in events:
        match event:
            case _ if getattr(event, "choice", 0):
                return None
            case TextDelta():
                texts.append(event.text)
                length += len(event.text)
            case TextStart():
                block, blocks, length = event.block, event.block + 1, 0
            case TextEnd():
                block = None
            case ReasoningStart():
                thinks, blocks = True, event.block + 1
            case ReasoningEnd():
                thinks = False
            case ReasoningDelta():
                pass
            case ContentFilter(filtered=False) | ProviderData(block=None):
                pass
            case _ if not isinstance(event, _ABOUT):
                return None
    return None if thinks else Unfinished("".join(texts), block, length, blocks)


def has_room(chat: ChatRequest, text: str) -> bool:
    """Return whether the limit of an answer leaves output for more than this text."""
    limit = chat.limit
    return limit is None or limit > estimate_text(text)


def continue_request(chat: ChatRequest, text: str, *, exact: bool) -> ChatRequest:
    """Return the request for the rest of an answer that has room for it.

    `exact`: whether the provider goes on at the end of a last turn of the assistant.
    """
    messages = [*chat.messages]
    if text.strip():
        # Claude refuses white space at the end of the last turn.
        messages.append(AssistantMessage(text.rstrip() if exact else text))
        if not exact:
            messages.append(UserMessage(GO_ON))
    fields: dict[str, Any] = {"messages": messages}
    used = estimate_text(text)
    for name in ("max_tokens", "max_completion_tokens"):
        limit = getattr(chat, name)
        fields[name] = None if limit is None else max(1, limit - used)
    ceiling = chat.ceiling
    if ceiling is not None:
        ceiling = msgspec.structs.replace(ceiling, tokens=max(1, ceiling.tokens - used))
    return msgspec.structs.replace(chat, client_body=None, ceiling=ceiling, **fields)


class Seam:
    """Joins the events of an attempt that continues an answer with those of the answer."""

    def __init__(self, answer: Unfinished, *, exact: bool, echoes: bool) -> None:
        self._overlap = Overlap(answer.text, exact=exact, echoes=echoes)
        self._open = answer.block
        """The text block that waits for the text."""
        self._length = answer.block_length
        self._next = answer.blocks
        self._numbers: dict[int, int] = {}
        """The numbers in the stream of the blocks of the attempt."""
        self.first: int | None = None
        """The attempt's block with the text that goes on."""
        self.number: int | None = None
        """Its number in the stream, once nothing of its text is removed any more."""
        self._hidden: set[int | None] = set()
        """Its blocks of reasoning before that: the reader has got the result of the first one."""

    def join(self, event: Event) -> Iterable[Event]:
        """Return an event of the attempt as events of the answer."""
        block: int | None = getattr(event, "block", None)
        match event:
            case ProviderData():
                return ()
            case StreamEnd() | ChoiceEnd() | Usage():
                return (*self._close(), event)
            case ReasoningStart() if self.first is None:
                self._hidden.add(block)
                return ()
            case TextStart() if self.first is None:
                self.first = event.block
                if self._open is not None:
                    self._numbers[event.block], self._open = self._open, None
                    return ()
                self._length = 0
            case TextStart() | ReasoningStart():
                pass
            case TextDelta() if block == self.first:
                text, number = self._overlap.feed(event.text), self._number(event.block)
                if self._overlap.done:
                    self.number = number
                return (TextDelta(number, text),) if text else ()
            case TextEnd() if event.block == self.first and not self._overlap.done:
                rest, number = self._overlap.close(), self._number(event.block)
                return (*([TextDelta(number, rest)] if rest else ()), TextEnd(number))
            case LogProbs() if block == self.first and not self._overlap.done:
                return ()
            case _ if block is None:
                return (event,)
        if block in self._hidden:
            return ()
        assert block is not None  # noqa: S101  (for mypy)
        known = block in self._numbers
        fields: dict[str, Any] = {"block": self._number(block)}
        if isinstance(event, Source) and block == self.first:
            moved = self._length - self._overlap.removed
            for name in ("start", "end"):
                place = getattr(event, name)
                fields[name] = None if place is None else place + moved
        renumbered = msgspec.structs.replace(event, **fields)
        return (renumbered,) if known else (*self._close(), renumbered)

    def _number(self, block: int) -> int:
        """Return the number in the stream of a block of the attempt."""
        if block not in self._numbers:
            self._numbers[block] = self._next
            self._next += 1
        return self._numbers[block]

    def _close(self) -> Iterable[Event]:
        """Return the end of the text block that waits for a text."""
        block, self._open = self._open, None
        return () if block is None else (TextEnd(block),)
