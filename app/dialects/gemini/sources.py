"""What an answer rests on, as Gemini tells it: to `source` events.

Gemini counts the bytes of a part, and a part is what our events call a block. In a stream
the parts come in pieces, so a segment's own text says which block it counts in
[gemini/grounding-search].
"""

from typing import Any, NamedTuple

from app.dialects.shape import Shape
from app.dialects.surrogates import well_formed
from app.dialects.untyped import count, mapping, mappings, string, words


class _Place(NamedTuple):
    block: int | None = None
    span: tuple[int | None, int | None] = (None, None)


class Sources:
    """Tells of the sources of one answer, and keeps its text for their places."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._texts: dict[int, dict[int, list[str]]] = {}
        self._chunks: dict[int, list[dict[str, Any]]] = {}
        """What the earlier chunks of a choice pointed at."""

    def text(self, choice: int, text: str) -> None:
        """Take a piece of the text, after the shape took it."""
        block = self._shape.text_block(choice)
        if block is not None:
            self._texts.setdefault(choice, {}).setdefault(block, []).append(text)

    def feed(self, choice: int, candidate: dict[str, Any]) -> None:
        """Take what stands beside the content of a candidate, after its content."""
        if "groundingMetadata" in candidate:
            self._grounding(choice, mapping(candidate["groundingMetadata"]))
        if "citationMetadata" in candidate:
            metadata = mapping(candidate["citationMetadata"])
            found = metadata.get("citations") or metadata.get("citationSources")
            texts = self._bytes(choice)
            for citation in mappings(found):
                self._tell(choice, citation, _place(citation, texts))
        if "urlContextMetadata" in candidate:
            metadata = mapping(candidate["urlContextMetadata"])
            for url in mappings(metadata.get("urlMetadata")):
                if url.get("urlRetrievalStatus") == "URL_RETRIEVAL_STATUS_SUCCESS":
                    self._tell(choice, {"uri": url.get("retrievedUrl")}, _Place())

    def _grounding(self, choice: int, metadata: dict[str, Any]) -> None:
        """Tell of each source of each segment, then of those that no segment names."""
        found = metadata.get("groundingChunks")
        chunks = [_source(mapping(c)) for c in found] if isinstance(found, list) else []
        texts = self._bytes(choice)
        supports = [
            (_place(mapping(support.get("segment")), texts), _numbers(support))
            for support in mappings(metadata.get("groundingSupports"))
        ]
        earlier = self._chunks.setdefault(choice, [])
        # Each list is either the whole of them or, for a search in files, goes on.
        whole = all(number < len(chunks) for _, numbers in supports for number in numbers)
        numbered = chunks if whole else earlier + chunks
        for place, numbers in supports:
            for number in numbers:
                if number < len(numbered):
                    self._tell(choice, numbered[number], place)
        for chunk in chunks:
            self._tell(choice, chunk, _Place())
        earlier += chunks

    def _tell(self, choice: int, source: dict[str, Any], place: _Place) -> None:
        url, title = words(source.get("uri")), words(source.get("title"))
        names = (source.get(key) for key in ("documentName", "fileSearchStore"))
        document = next(filter(None, map(words, names)), None if url else title)
        self._shape.source(
            choice,
            url=url,
            document=document,
            title=title,
            cited_text=words(source.get("text")),
            span=place.span,
            block=place.block,
        )

    def _bytes(self, choice: int) -> dict[int, bytes]:
        """Give the text of each block as the provider counts it."""
        blocks = self._texts.get(choice, {})
        return {block: well_formed("".join(said)).encode() for block, said in blocks.items()}


def _numbers(support: dict[str, Any]) -> list[int]:
    numbers = support.get("groundingChunkIndices")
    found = map(count, numbers if isinstance(numbers, list) else ())
    return [number for number in found if number is not None]


def _place(segment: dict[str, Any], texts: dict[int, bytes]) -> _Place:
    """Find the block and the characters of a segment; nothing where that is not sure."""
    start, end = count(segment.get("startIndex")) or 0, count(segment.get("endIndex"))
    if end is None:
        return _Place()
    said = well_formed(string(segment.get("text"))).encode()
    for block, data in texts.items():
        if data[start:end] == said or (len(texts) == 1 and not said):
            return _characters(block, data, start, end)
    return _Place()


def _characters(block: int, data: bytes, start: int, end: int) -> _Place:
    try:
        first, inside = len(data[:start].decode()), len(data[start:end].decode())
    except UnicodeDecodeError:  # an offset within a character is no offset
        return _Place()
    if end > len(data) or start > end:
        return _Place()
    return _Place(block, (first, first + inside))


def _source(chunk: dict[str, Any]) -> dict[str, Any]:
    """Give what a grounding chunk points at, under the names of a web page's."""
    for kind in ("web", "retrievedContext", "maps"):
        if found := mapping(chunk.get(kind)):
            return found
    image = mapping(chunk.get("image"))
    return {"uri": image.get("sourceUri"), "title": image.get("title")}
