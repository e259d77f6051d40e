"""Recognises chunks that differ from the one before in their text only.

Most hosts repeat everything else in each chunk. Comparing instead of decoding saves 9.7 of the 36.3
thousand instructions that a token of a burst takes.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple, Self

from ....framing.sse import Message
from ...reading.answer_bounds import LARGE
from .text_chunk import MAX_CHOICES, TextChunk

TRIES: Final = 16
"""How often a stream's chunk is taken as the pattern: those of OpenAI, with their random
`obfuscation`, never repeat."""


class RepeatedChunk(NamedTuple):
    """A chunk as the pattern of the next: what is around its content."""

    before: str
    after: str
    choice: int
    """The index of its choice."""

    @classmethod
    def of(cls, data: str, chunk: TextChunk) -> Self | None:
        """Return the pattern of a chunk; None if it has not one content alone."""
        if len(chunk.choices) != 1 or chunk.usage:
            return None
        [choice] = chunk.choices
        delta = choice.delta
        if choice.finish_reason or not delta.content or delta.reasoning or delta.reasoning_content:
            return None
        if data.count('"content"') != 1 or not 0 <= choice.index < MAX_CHOICES:
            return None
        before, key, after = data.partition('"content":')
        content, gap = f'"{delta.content}"', " " * after.startswith(" ")
        if not after.startswith(gap + content):
            return None
        return cls(f'{before}{key}{gap}"', after[len(gap) + len(content) - 1 :], choice.index)

    def match(self, messages: Iterable[Message]) -> list[str]:
        """Return the contents of the first messages, as far as they are this one but for that."""
        before, after, _ = self
        start, end = len(before), -len(after)
        texts = []
        for message in messages:
            data = message.data
            if not data.startswith(before) or not data.endswith(after) or len(data) > LARGE:
                break
            text = data[start:end]
            # A quote would end the content, and JSON has no control characters within a string.
            if '"' in text or "\\" in text or not text.isprintable():
                break
            if len(data) < start - end or message.event == "error":
                break
            texts.append(text)
        return texts
