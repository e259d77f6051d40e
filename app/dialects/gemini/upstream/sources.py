"""Conversion of Gemini's grounding and citation metadata to `source` events.

Offsets are bytes within a part, which corresponds to a block. Since a stream splits parts, the
text of a segment identifies its block [gemini/grounding-search].
"""

from typing import Any, Final, NamedTuple

from ...reading.answer_bounds import ENTRY
from ...reading.event_builder import EventBuilder
from ...reading.json_values import count, mapping, mappings, string, text_or_none
from ...reading.split_text import well_formed
from ...reading.utf8_text import Utf8Text

MAX_TEXTS: Final = 64
"""The maximum number of text blocks per choice that are searched for a segment."""
MAX_CHUNKS_SIZE: Final = 2**20
"""Approximate bytes of sources that are retained for later indices."""


class _Position(NamedTuple):
    block: int | None = None
    span: tuple[int | None, int | None] = (None, None)


class _Source(NamedTuple):
    """A source, parsed once, since a list can refer to it many times."""

    url: str | None
    document: str | None = None
    title: str | None = None
    cited_text: str | None = None


class GroundingSources:
    """Emits the sources of one answer; buffers its text to locate them."""

    def __init__(self, builder: EventBuilder) -> None:
        self._builder = builder
        self._texts: dict[int, dict[int, Utf8Text]] = {}
        self._chunks: dict[int, list[_Source]] = {}
        """The sources of earlier chunks of a choice."""
        self._chunks_size = 0

    def text(self, choice: int, text: str) -> None:
        """Append text that the event builder has received."""
        block = self._builder.text_block(choice)
        if block is None:
            return
        texts = self._texts.setdefault(choice, {})
        if block not in texts:
            if len(texts) >= MAX_TEXTS:
                return
            texts[block] = Utf8Text()
        texts[block].add(text)

    def feed(self, choice: int, candidate: dict[str, Any]) -> None:
        """Handle the metadata of a candidate, after its content."""
        if "groundingMetadata" in candidate:
            self._grounding(choice, mapping(candidate["groundingMetadata"]))
        if "citationMetadata" in candidate:
            metadata = mapping(candidate["citationMetadata"])
            found = metadata.get("citations") or metadata.get("citationSources")
            texts = self._texts.get(choice, {})
            for citation in mappings(found):
                self._add_source(choice, _read(citation), _locate(citation, texts))
        if "urlContextMetadata" in candidate:
            metadata = mapping(candidate["urlContextMetadata"])
            for url in mappings(metadata.get("urlMetadata")):
                if url.get("urlRetrievalStatus") == "URL_RETRIEVAL_STATUS_SUCCESS":
                    self._add_source(
                        choice, _Source(text_or_none(url.get("retrievedUrl"))), _Position()
                    )

    def _grounding(self, choice: int, metadata: dict[str, Any]) -> None:
        """Emit each source of each segment, then those without a segment."""
        found = metadata.get("groundingChunks")
        chunks = [_point(mapping(c)) for c in found] if isinstance(found, list) else []
        texts = self._texts.get(choice, {})
        supports = [
            (_locate(mapping(support.get("segment")), texts), _numbers(support))
            for support in mappings(metadata.get("groundingSupports"))
        ]
        earlier = self._chunks.setdefault(choice, [])
        # A list is complete, except for file search, whose lists continue each other.
        whole = all(number < len(chunks) for _, numbers in supports for number in numbers)
        before = 0 if whole else len(earlier)
        for position, numbers in supports:
            for number in numbers:
                if number < before:
                    self._add_source(choice, earlier[number], position)
                elif number < before + len(chunks):
                    self._add_source(choice, chunks[number - before], position)
        for chunk in chunks:
            self._add_source(choice, chunk, _Position())
        self._retain(earlier, chunks)

    def _retain(self, earlier: list[_Source], chunks: list[_Source]) -> None:
        """Retain the sources that later indices may refer to, up to the limit."""
        for chunk in chunks:
            if self._chunks_size > MAX_CHUNKS_SIZE:
                return
            self._chunks_size += ENTRY + sum(len(value) for value in chunk if value)
            earlier.append(chunk)

    def _add_source(self, choice: int, source: _Source, position: _Position) -> None:
        self._builder.source(choice, **source._asdict(), span=position.span, block=position.block)


def _numbers(support: dict[str, Any]) -> list[int]:
    numbers = support.get("groundingChunkIndices")
    found = map(count, numbers if isinstance(numbers, list) else ())
    return [number for number in found if number is not None]


def _locate(segment: dict[str, Any], texts: dict[int, Utf8Text]) -> _Position:
    """Return the block and the characters of a segment; an empty position if they are ambiguous."""
    start, end = count(segment.get("startIndex")) or 0, count(segment.get("endIndex"))
    if end is None:
        return _Position()
    quote = well_formed(string(segment.get("text"))).encode()
    for block, text in texts.items():
        if text.matches(quote, start, end) or (len(texts) == 1 and not quote):
            span = text.characters(start, end)
            return _Position() if span is None else _Position(block, span)
    return _Position()


def _point(chunk: dict[str, Any]) -> _Source:
    """Return the source of a grounding chunk."""
    for kind in ("web", "retrievedContext", "maps"):
        if found := mapping(chunk.get(kind)):
            return _read(found)
    image = mapping(chunk.get("image"))
    return _read({"uri": image.get("sourceUri"), "title": image.get("title")})


def _read(source: dict[str, Any]) -> _Source:
    """Parse a source with the field names of a web page."""
    url, title = text_or_none(source.get("uri")), text_or_none(source.get("title"))
    names = (source.get(key) for key in ("documentName", "fileSearchStore"))
    document = next(filter(None, map(text_or_none, names)), None if url else title)
    return _Source(url, document, title=title, cited_text=text_or_none(source.get("text")))
