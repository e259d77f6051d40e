"""Conversion of a Converse stream's content blocks to events: start, deltas and stop.

Text and reasoning have no start event [bedrock/converse-tool-use]. The input and output of a
provider's tool are emitted complete when their block stops.
"""

import binascii
import contextlib
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from typing import Any

from ...reading.answer_bounds import ENTRY
from ...reading.event_builder import EventBuilder
from ...reading.json_values import count, decode_or, mapping, mappings, size, string, text_or_none
from .signatures import SIGNATURE, parse_redacted


@dataclass(slots=True)
class _Use:
    """The use of a tool that the provider runs."""

    id: str
    name: str
    pieces: list[Any] = field(default_factory=list)


@dataclass(slots=True)
class _Result:
    """The result of such a tool."""

    id: str
    name: str
    failed: bool
    values: list[Any] = field(default_factory=list)


@dataclass(slots=True)
class _Image:
    """An image, whose pieces are each base64 of their own."""

    media_type: str
    pieces: list[str] = field(default_factory=list)


class Blocks:
    """The content blocks of one answer, which are sequential."""

    def __init__(self, builder: EventBuilder) -> None:
        self._builder = builder
        self._index: int | None = None
        """The block of the last delta."""
        self._pending: _Use | _Result | _Image | None = None
        self._call: int | None = None
        """The event builder's index of the open tool call."""
        self._tools: dict[str, tuple[str, int]] = {}
        """Names and blocks of the provider's tools, by the id of their use."""
        self._citations: list[dict[str, Any]] = []
        self._size = 0
        """Approximate bytes that are buffered until the end of the block, or its text."""

    def start(self, event: dict[str, Any]) -> None:
        self.stop()
        self._index = count(event.get("contentBlockIndex"))
        start = mapping(event.get("start"))
        if "toolUse" in start:
            use = mapping(start["toolUse"])
            use_id, name = string(use.get("toolUseId")), string(use.get("name"))
            if use.get("type") == "server_tool_use":
                self._pending = _Use(use_id, name)
            else:
                self._call = self._builder.tool_call(
                    0, index=self._index, id=use_id, name=name, arguments=""
                )
        elif "toolResult" in start:
            result = mapping(start["toolResult"])
            use_id, kind = string(result.get("toolUseId")), string(result.get("type"))
            self._pending = _Result(use_id, kind, failed=result.get("status") == "error")
        elif "image" in start:
            kind = string(mapping(start["image"]).get("format"))
            self._pending = _Image(f"image/{kind or 'png'}")

    def delta(self, event: dict[str, Any]) -> None:
        index = count(event.get("contentBlockIndex"))
        if index != self._index:
            self.stop()
            self._index = index
        delta = mapping(event.get("delta"))
        self._reasoning(mapping(delta.get("reasoningContent")))
        if text := string(delta.get("text")):
            self._builder.text(0, text)
        if "citation" in delta:
            self._reserve(size(delta["citation"]))
            self._citations.append(mapping(delta["citation"]))
        if self._builder.text_block(0) is not None:
            self._cite()
        if "toolUse" in delta:
            self._tool_use(mapping(delta["toolUse"]).get("input"))
        if "image" in delta and isinstance(self._pending, _Image):
            self._image(self._pending, mapping(delta["image"]))
        if "toolResult" in delta and isinstance(self._pending, _Result):
            for value in mappings(delta["toolResult"]):
                self._reserve(size(value))
                self._pending.values.append(value["json"] if "json" in value else value.get("text"))

    def stop(self) -> None:
        """End the open block."""
        self._cite()
        self._builder.end_text(0)
        self._builder.end_tool_call(0, self._call)
        self._builder.release(self._size)
        pending, self._pending, self._call, self._size = self._pending, None, None, 0
        match pending:
            case _Use():
                block = self._builder.provider_tool(
                    0, pending.name or "tool", input=_parse_input(pending.pieces)
                )
                self._builder.reserve(ENTRY + len(pending.id) + len(pending.name))
                self._tools[pending.id] = (pending.name or "tool", block)
            case _Result():
                self._end_result(pending)
            case _Image(pieces=[_, *_]):
                data = _join_base64(pending.pieces)
                self._builder.media(0, pending.media_type, data=data)

    def _reserve(self, size: int) -> None:
        self._size += size
        self._builder.reserve(size)

    def _reasoning(self, content: dict[str, Any]) -> None:
        self._builder.reasoning(0, string(content.get("text")))
        self._builder.sign(0, "signature", string(content.get("signature")), format=SIGNATURE)
        if blob := string(content.get("redactedContent")):
            self._builder.opaque(0, *parse_redacted(blob))

    def _tool_use(self, value: object) -> None:
        if isinstance(self._pending, _Use):
            self._reserve(size(value))
            self._pending.pieces.append(value)
        else:
            call = self._builder.tool_call(0, index=self._index, id="", name="", arguments=value)
            self._call = call if self._call is None else self._call

    def _image(self, image: _Image, delta: dict[str, Any]) -> None:
        source = mapping(delta.get("source"))
        if data := string(source.get("bytes")):
            self._reserve(len(data))
            image.pieces.append(data)
        elif url := string(mapping(source.get("s3Location")).get("uri")):
            self._builder.media(0, image.media_type, url=url)
        elif "error" in delta:
            reason = string(mapping(delta["error"]).get("message")) or "no reason was sent"
            self._builder.notice("block_dropped", f"the upstream sent no image: {reason[:200]}")

    def _end_result(self, result: _Result) -> None:
        name, block = self._tools.get(result.id, (result.name or "tool", None))
        output = result.values[0] if len(result.values) == 1 else result.values
        self._builder.provider_tool(
            0, name, block=block, output={"error": output} if result.failed else output
        )

    def _cite(self) -> None:
        """Emit the buffered citations, which may precede the text that they belong to."""
        citations, self._citations = self._citations, []
        for citation in citations:
            location = mapping(citation.get("location"))
            source = text_or_none(citation.get("source"))
            url = text_or_none(mapping(location.get("web")).get("url"))
            if url is None and source and source.startswith(("http://", "https://")):
                url = source
            cited = "".join(string(c.get("text")) for c in mappings(citation.get("sourceContent")))
            title = text_or_none(citation.get("title"))
            self._builder.source(
                0,
                url=url,
                document=None if url else source or title or _number(location),
                title=title,
                cited_text=text_or_none(cited),
            )


def _parse_input(pieces: list[Any]) -> Any:
    if len(pieces) == 1 and not isinstance(pieces[0], str):
        return pieces[0]
    text = "".join(string(piece) for piece in pieces)
    return decode_or(text or "{}", text)


def _join_base64(pieces: list[str]) -> str:
    """Join texts in base64; the pieces of an image may each end in padding."""
    if len(pieces) == 1:
        return pieces[0]
    with contextlib.suppress(binascii.Error):
        return b64encode(b"".join(map(b64decode, pieces))).decode()
    return "".join(pieces)


def _number(location: dict[str, Any]) -> str | None:
    """Return the index of a document or a search result as its name."""
    for source in location.values():
        for key in ("documentIndex", "searchResultIndex"):
            if (number := count(mapping(source).get(key))) is not None:
                return str(number)
    return None
