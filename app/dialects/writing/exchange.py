"""Reordering of tool calls and results into the order that upstream formats require.

The order is the same in all formats: a turn with tool calls is followed by the results of exactly
these calls. Most refuse any other conversation, such as one of an agent that was stopped during a
call, or one whose beginning was truncated. So results are moved
behind their calls, a call without a result gets a placeholder, and a result without its call
becomes a text of the user.

Ids of calls go to the provider unchanged, unless the format does not allow them: then a digest
of the id replaces it, the same one in every turn.
"""

import re
from collections.abc import Iterator
from hashlib import sha256
from typing import Any, Final, NamedTuple

import msgspec

from ...requests import (
    AssistantMessage,
    FilePart,
    ImagePart,
    Message,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
    UserPart,
)
from .conversation import join_text

_ANY: Final = re.compile(r".*", re.DOTALL)
_NO_RESULT: Final = "There is no result: the call was interrupted."
_GO_ON: Final = "Go on."


class ExchangeForm(NamedTuple):
    """The requirements of a format on turns and calls."""

    ids: re.Pattern[str] = _ANY
    """The ids that it allows."""
    short: bool = False
    """Whether ids must have nine letters and digits, as at Mistral."""
    unique: bool = False
    """Whether the ids of calls must be unique in the conversation."""
    stray_results: bool = False
    """Whether a result may come without its call, which the provider has stored."""
    images: bool = True
    """Whether a result may have images; else they move to a user message after the results."""
    links: bool = True
    """Whether an image in a result may be a URL that the provider fetches."""
    files: bool = True
    """Whether a user message may have files; else the optional ones are dropped."""
    prefill: bool = True
    """Whether the last turn may be the assistant's, for the model to continue."""
    trailing_space: bool = True
    """Whether such a turn may end in white space."""
    blank: bool = True
    """Whether messages may be blank; else they are not rendered, and the last is replaced."""


class Exchange(NamedTuple):
    """A conversation in the order of a format, and the changes for that."""

    messages: list[Message]
    changes: tuple[str, ...] = ()
    """Each as the end of a sentence about the upstream."""


_CallPosition = tuple[int, int]
"""The number of a message, and that of a call in it."""


def arrange(messages: list[Message], form: ExchangeForm) -> Exchange:
    """Return a conversation in the order that a format requires."""
    changes: list[str] = []
    if not form.files:
        messages = _leave_out_files(messages, changes)
    if not form.blank and messages:
        messages = _fill_last(messages, changes)
    if not _is_arranged(messages, form):
        messages = list(_Arranged(messages, form, changes))
    if not form.prefill and messages and _is_answer(messages[-1]):
        messages = [*messages, UserMessage(_GO_ON)]
        changes.append(f"does not allow a last message of the assistant: added {_GO_ON!r}")
    elif not form.trailing_space and messages and _is_answer(messages[-1]):
        messages = _trim_last(messages, changes)
    return Exchange(messages, tuple(changes))


def _is_arranged(messages: list[Message], form: ExchangeForm) -> bool:
    """Return whether a conversation needs no change of its calls, as most do."""
    matches, unique = form.ids.fullmatch, form.unique
    texts_only = not (form.images and form.links)
    waiting: set[str] = set()
    seen: set[str] = set()
    for message in messages:
        kind = type(message)
        if kind is ToolMessage:
            if message.tool_call_id not in waiting:  # type: ignore[union-attr]  # it is one
                return False
            if texts_only and type(message.content) is list:
                return False
            waiting.remove(message.tool_call_id)  # type: ignore[union-attr]  # as above
        elif waiting:
            return False
        elif kind is AssistantMessage:
            for call in message.tool_calls or ():  # type: ignore[union-attr]  # as above
                if call.id in waiting or (unique and call.id in seen) or not matches(call.id):
                    return False
                waiting.add(call.id)
            if unique:
                seen |= waiting
    # Calls at the end are not interrupted yet.
    return not waiting or type(messages[-1]) is AssistantMessage


def _is_answer(message: Message) -> bool:
    """Return whether a message is the assistant's and has no tool calls."""
    return isinstance(message, AssistantMessage) and not message.tool_calls


def _trim_last(messages: list[Message], changes: list[str]) -> list[Message]:
    """Remove white space at the end of the last message, the assistant's."""
    last = messages[-1]
    parts: Any = last.content
    if isinstance(parts, str):
        text = parts
    elif parts and isinstance(parts[-1], TextPart):
        text = parts[-1].text
    else:
        return messages
    trimmed = text.rstrip()
    if trimmed == text:
        return messages
    changes.append("does not allow white space at the end of the last message: removed")
    if isinstance(parts, str):
        parts = trimmed
    else:
        rest = [msgspec.structs.replace(parts[-1], text=trimmed)] if trimmed else []
        parts = [*parts[:-1], *rest]
    ending = [msgspec.structs.replace(last, content=parts)] if parts else []
    return [*messages[:-1], *ending]


def _fill_last(messages: list[Message], changes: list[str]) -> list[Message]:
    """Return a conversation without a blank last message of the user after an answer."""
    *before, last = messages
    content = last.content or ""
    if isinstance(content, str) or all(isinstance(part, TextPart) for part in content):
        blank = isinstance(last, UserMessage) and not join_text(content).strip()
        if blank and before and _is_answer(before[-1]):
            changes.append(f"does not allow an empty last message: sent {_GO_ON!r}")
            return [*before, UserMessage(_GO_ON)]
    return messages


def _leave_out_files(messages: list[Message], changes: list[str]) -> list[Message]:
    """Return a conversation without its optional files."""
    rest: list[Message] = []
    changed = False
    for message in messages:
        if not isinstance(message, UserMessage) or isinstance(message.content, str):
            rest.append(message)
            continue
        parts = [p for p in message.content if not (isinstance(p, FilePart) and p.optional)]
        if len(parts) == len(message.content):
            rest.append(message)
            continue
        changed = True
        if parts:
            rest.append(msgspec.structs.replace(message, content=parts))
    if not changed:
        return messages
    changes.append("does not support files: dropped those with a text instead")
    return rest


class _Arranged:
    """Matches results to calls, then yields the messages in their new order."""

    def __init__(self, messages: list[Message], form: ExchangeForm, changes: list[str]) -> None:
        self._messages = messages
        self._form = form
        self._changes = changes
        self._results: dict[_CallPosition, int] = {}
        """The numbers of the messages with the results of the calls."""
        self._stray_results: set[int] = set()
        self._images: list[UserPart] = []
        """The images of results, for the next message of the user."""
        self._renamed_in: set[int] = set()
        """The numbers of the messages with a call whose id is replaced."""
        self._ids = self._rename()
        self._find_results()

    def __iter__(self) -> Iterator[Message]:
        calling: list[_CallPosition] = []
        for number, message in enumerate(self._messages):
            if isinstance(message, AssistantMessage):
                if self._images:
                    yield from self._show()
                for index, _ in enumerate(message.tool_calls or ()):
                    calling.append((number, index))
                yield self._renamed(message, number) if number in self._renamed_in else message
                continue
            if calling:
                yield from self._answer(calling)
                calling = []
            if isinstance(message, ToolMessage):
                if number in self._stray_results:
                    yield from self._render_orphan(message)
            elif isinstance(message, UserMessage):
                yield self._add_images(message)
            else:
                yield from self._show()
                yield message
        # Calls at the end are not interrupted yet.
        yield from self._answer(calling, every=False)
        yield from self._show()

    def _show(self) -> Iterator[Message]:
        """Yield the message of the user with the images of the results before it."""
        images, self._images = self._images, []
        if images:
            yield UserMessage(images)

    def _add_images(self, message: UserMessage) -> UserMessage:
        """Return a message of the user, with the images of the results before it."""
        images, self._images = self._images, []
        if not images:
            return message
        content = message.content
        parts = [TextPart(content)] if isinstance(content, str) else content
        return msgspec.structs.replace(message, content=[*images, *parts])

    def _take_images(self, result: ToolMessage) -> ToolMessage:
        """Move the images of a result to the next message, with a note in their place."""
        images = [part for part in result.content if isinstance(part, ImagePart)]
        if not images:
            return result
        texts = [part for part in result.content if isinstance(part, TextPart)]
        head = f"Images of the tool call {result.tool_call_id[:80]!r}:"
        self._images += [TextPart(head), *images]
        texts.append(TextPart("[Its images are in the next message.]"))
        # As one text, which every host accepts.
        return msgspec.structs.replace(result, content="\n".join(part.text for part in texts))

    def _answer(self, calling: list[_CallPosition], *, every: bool = True) -> Iterator[Message]:
        """Yield the results of a turn's calls in order, then placeholders for those missing."""
        found = sorted(
            (self._results[position], position) for position in calling if position in self._results
        )
        for number, position in found:
            result = self._messages[number]
            assert isinstance(result, ToolMessage)  # noqa: S101  (for mypy)
            new_id = self._ids[position]
            if new_id != result.tool_call_id:
                result = msgspec.structs.replace(result, tool_call_id=new_id)
            if not self._form.links:
                result = self._name_links(result)
            yield result if self._form.images else self._take_images(result)
        for position in calling:
            if position not in self._results and (every or found):
                self._note("does not allow a tool call without a result: added a placeholder")
                yield ToolMessage(_NO_RESULT, self._ids[position], is_error=True)

    def _name_links(self, result: ToolMessage) -> ToolMessage:
        """Replace images that the provider cannot fetch with their URLs as text."""
        content = result.content
        if isinstance(content, str) or not any(map(_is_link, content)):
            return result
        self._note("does not support image URLs in a tool result: sent the URL as text")
        parts = [_name_link(part) if _is_link(part) else part for part in content]
        return msgspec.structs.replace(result, content=parts)

    def _render_orphan(self, result: ToolMessage) -> Iterator[Message]:
        """Yield a result without its call."""
        if self._form.stray_results:
            yield result
            return
        self._note("does not allow a tool result without its call: sent as the user's text")
        head = TextPart(f"Result of the tool call {result.tool_call_id[:80]!r}:\n")
        content = result.content
        parts = [TextPart(content)] if isinstance(content, str) else content
        yield self._add_images(UserMessage([head, *parts]))

    def _note(self, change: str) -> None:
        if change not in self._changes:
            self._changes.append(change)

    def _find_results(self) -> None:
        """Match results to calls: a result belongs to the latest call with its id."""
        waiting: dict[str, list[_CallPosition]] = {}
        for number, message in enumerate(self._messages):
            if isinstance(message, AssistantMessage):
                for index, call in enumerate(message.tool_calls or ()):
                    positions = waiting.setdefault(call.id, [])
                    if positions and positions[0][0] != number:
                        positions.clear()
                    positions.append((number, index))
            elif isinstance(message, ToolMessage):
                if positions := waiting.get(message.tool_call_id, []):
                    self._results[positions.pop(0)] = number
                else:
                    self._stray_results.add(number)

    def _rename(self) -> dict[_CallPosition, str]:
        """Choose the id of each call in the request."""
        form = self._form
        calls = [
            ((number, index), call.id)
            for number, message in enumerate(self._messages)
            if isinstance(message, AssistantMessage)
            for index, call in enumerate(message.tool_calls or ())
        ]
        taken = {name for _, name in calls if form.ids.fullmatch(name)}
        counts: dict[str, int] = {}
        """The number of occurrences of each id."""
        found: dict[_CallPosition, str] = {}
        sent: dict[tuple[str, int], str] = {}
        for position, name in calls:
            nth = counts.get(name, 0) if form.unique else 0
            counts[name] = counts.get(name, 0) + 1
            if nth == 0 and name in taken:
                found[position] = name
                continue
            if (name, nth) not in sent:
                sent[name, nth] = _digest(name, nth, short=form.short, taken=taken)
                taken.add(sent[name, nth])
            found[position] = sent[name, nth]
            self._renamed_in.add(position[0])
        return found

    def _renamed(self, message: AssistantMessage, number: int) -> AssistantMessage:
        renamed: list[ToolCall] = [
            msgspec.structs.replace(call, id=self._ids[number, index])
            for index, call in enumerate(message.tool_calls or ())
        ]
        return msgspec.structs.replace(message, tool_calls=renamed)


def _is_link(part: TextPart | ImagePart) -> bool:
    return isinstance(part, ImagePart) and part.image_url.url.startswith(("https:", "http:"))


def _name_link(part: TextPart | ImagePart) -> TextPart | ImagePart:
    return TextPart(f"[image: {part.image_url.url}]") if isinstance(part, ImagePart) else part


def _digest(id: str, nth: int, *, short: bool, taken: set[str]) -> str:
    """Return a new id, unique in the request, for the nth call that has an id."""
    salt = 0
    while True:
        digest = sha256(f"{salt} {nth} {id}".encode(errors="replace")).hexdigest()
        new_id = digest[:9] if short else f"call_{digest[:32]}"
        if new_id not in taken:
            return new_id
        salt += 1
