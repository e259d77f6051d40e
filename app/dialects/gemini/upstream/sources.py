"""What an answer rests on, as Gemini tells it: to `source` events.

Gemini counts the bytes of a part, and a part is what our events call a block. In a stream
the parts come in pieces, so a segment's own text says which block it counts in
[gemini/grounding-search].
"""

from typing import Any, Final, NamedTuple

from ...reading.bounds import ENTRY
from ...reading.event_builder import EventBuilder
from ...reading.json_values import count, mapping, mappings, string, text_or_none
from ...reading.surrogates import Halves, well_formed

MAX_TEXTS: Final = 64
"""The blocks of text of a choice that are looked through for a segment."""
MAX_CHUNKS_SIZE: Final = 2**20
"""About how many bytes of what chunks pointed at are kept, for numbers that come later."""

_STEP: Final = 1024
_CONTINUING: Final = bytes(range(0x80, 0xC0))
"""The bytes of UTF-8 that begin no character."""


class _Place(NamedTuple):
    block: int | None = None
    span: tuple[int | None, int | None] = (None, None)


class _Source(NamedTuple):
    """A source, parsed once, since a list can name it many times."""

    url: str | None
    document: str | None = None
    title: str | None = None
    cited_text: str | None = None


class _Text:
    """A block's text as the provider counts it, in bytes."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._halves = Halves()
        self._marks: list[int] = []
        """How many characters begin before each `_STEP` bytes."""

    def add(self, piece: str) -> None:
        self._data += self._halves.feed(piece).encode()

    def says(self, said: bytes, start: int, end: int) -> bool:
        """Whether this stands between two offsets, as far as the text goes."""
        length = max(min(end, len(self._data)) - min(start, len(self._data)), 0)
        return length == len(said) and (not said or self._data.startswith(said, start))

    def characters(self, start: int, end: int) -> tuple[int, int] | None:
        """Return the characters between two offsets; None unless both are offsets of characters."""
        if start > end or not self._is_offset(start) or not self._is_offset(end):
            return None
        return self._count(start), self._count(end)

    def _is_offset(self, at: int) -> bool:
        size = len(self._data)
        return at == size or (at < size and self._data[at] not in _CONTINUING)

    def _count(self, end: int) -> int:
        """Count the characters before an offset, from the last mark before it."""
        marks, data = self._marks, self._data
        while len(marks) <= end // _STEP:
            last = (len(marks) - 1) * _STEP
            marks.append(marks[-1] + _characters(data[last : last + _STEP]) if marks else 0)
        return marks[end // _STEP] + _characters(data[end // _STEP * _STEP : end])


class Sources:
    """Emits the sources of one answer, and keeps its text to find their positions."""

    def __init__(self, builder: EventBuilder) -> None:
        self._builder = builder
        self._texts: dict[int, dict[int, _Text]] = {}
        self._chunks: dict[int, list[_Source]] = {}
        """What the earlier chunks of a choice pointed at."""
        self._chunks_size = 0

    def text(self, choice: int, text: str) -> None:
        """Take a piece of the text that the event builder has taken."""
        block = self._builder.text_block(choice)
        if block is None:
            return
        texts = self._texts.setdefault(choice, {})
        if block not in texts:
            if len(texts) >= MAX_TEXTS:
                return
            texts[block] = _Text()
        texts[block].add(text)

    def feed(self, choice: int, candidate: dict[str, Any]) -> None:
        """Take what stands beside the content of a candidate, after its content."""
        if "groundingMetadata" in candidate:
            self._grounding(choice, mapping(candidate["groundingMetadata"]))
        if "citationMetadata" in candidate:
            metadata = mapping(candidate["citationMetadata"])
            found = metadata.get("citations") or metadata.get("citationSources")
            texts = self._texts.get(choice, {})
            for citation in mappings(found):
                self._add_source(choice, _read(citation), _place(citation, texts))
        if "urlContextMetadata" in candidate:
            metadata = mapping(candidate["urlContextMetadata"])
            for url in mappings(metadata.get("urlMetadata")):
                if url.get("urlRetrievalStatus") == "URL_RETRIEVAL_STATUS_SUCCESS":
                    self._add_source(
                        choice, _Source(text_or_none(url.get("retrievedUrl"))), _Place()
                    )

    def _grounding(self, choice: int, metadata: dict[str, Any]) -> None:
        """Emit each source of each segment, then those that no segment names."""
        found = metadata.get("groundingChunks")
        chunks = [_point(mapping(c)) for c in found] if isinstance(found, list) else []
        texts = self._texts.get(choice, {})
        supports = [
            (_place(mapping(support.get("segment")), texts), _numbers(support))
            for support in mappings(metadata.get("groundingSupports"))
        ]
        earlier = self._chunks.setdefault(choice, [])
        # Each list is either the whole of them or, for a search in files, goes on.
        whole = all(number < len(chunks) for _, numbers in supports for number in numbers)
        before = 0 if whole else len(earlier)
        for place, numbers in supports:
            for number in numbers:
                if number < before:
                    self._add_source(choice, earlier[number], place)
                elif number < before + len(chunks):
                    self._add_source(choice, chunks[number - before], place)
        for chunk in chunks:
            self._add_source(choice, chunk, _Place())
        self._keep(earlier, chunks)

    def _keep(self, earlier: list[_Source], chunks: list[_Source]) -> None:
        """Keep the sources that later numbers may refer to, up to a bound."""
        for chunk in chunks:
            if self._chunks_size > MAX_CHUNKS_SIZE:
                return
            self._chunks_size += ENTRY + sum(len(said) for said in chunk if said)
            earlier.append(chunk)

    def _add_source(self, choice: int, source: _Source, place: _Place) -> None:
        self._builder.source(choice, **source._asdict(), span=place.span, block=place.block)


def _numbers(support: dict[str, Any]) -> list[int]:
    numbers = support.get("groundingChunkIndices")
    found = map(count, numbers if isinstance(numbers, list) else ())
    return [number for number in found if number is not None]


def _place(segment: dict[str, Any], texts: dict[int, _Text]) -> _Place:
    """Find the block and the characters of a segment; an empty place where they are uncertain."""
    start, end = count(segment.get("startIndex")) or 0, count(segment.get("endIndex"))
    if end is None:
        return _Place()
    said = well_formed(string(segment.get("text"))).encode()
    for block, text in texts.items():
        if text.says(said, start, end) or (len(texts) == 1 and not said):
            span = text.characters(start, end)
            return _Place() if span is None else _Place(block, span)
    return _Place()


def _characters(data: bytes | bytearray) -> int:
    return len(data.translate(None, _CONTINUING))


def _point(chunk: dict[str, Any]) -> _Source:
    """Return the source that a grounding chunk points at."""
    for kind in ("web", "retrievedContext", "maps"):
        if found := mapping(chunk.get(kind)):
            return _read(found)
    image = mapping(chunk.get("image"))
    return _read({"uri": image.get("sourceUri"), "title": image.get("title")})


def _read(source: dict[str, Any]) -> _Source:
    """Read a source under the names of a web page's."""
    url, title = text_or_none(source.get("uri")), text_or_none(source.get("title"))
    names = (source.get(key) for key in ("documentName", "fileSearchStore"))
    document = next(filter(None, map(text_or_none, names)), None if url else title)
    return _Source(url, document, title, text_or_none(source.get("text")))
