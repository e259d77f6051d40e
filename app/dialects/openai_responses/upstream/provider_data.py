"""Recording of what only Responses has, for clients of Responses: `ProviderData` events.

Each is an event of the provider as a JSON object, without `sequence_number`, `item_id` and
`obfuscation`; `output_index` is the item's number in this stream:

- items of provider-executed tools, and of unknown types, as added and as done;
- the start of messages and reasoning, with the members that no other event has;
- events about these items, and unknown events of the answer, up to `MAX_PROGRESS`;
- `{"response": {...}}`, without a `type`: the members of the ended response that the relay does
  not set, and those of its event.
"""

from typing import Any, Final

from ...reading.event_builder import EventBuilder
from ...reading.json_values import encode, leave_out, mapping, mappings, size, string
from .. import NAME
from .item_texts import OutputItem
from .provider_tools import needs_client, read_image

MAX_PROGRESS: Final = 8 * 2**20
"""Bytes of events about items, a part of `max_stream_bytes`: three partial images of 1024 pixels,
or 25,000 deltas."""
_EVENT: Final = 200
"""Approximate bytes of an event around its data."""

CALLS: Final = ("function_call", "custom_tool_call")
_REPEATED: Final = frozenset(("item_id", "obfuscation", "output_index", "sequence_number", "type"))
_RENDERED: Final = frozenset(
    (
        "",
        "keepalive",  # the relay sends its own
        "ping",
        "response.audio.done",
        "response.audio.transcript.done",
        "response.content_part.added",
        "response.reasoning_part.added",
        "response.reasoning_part.done",
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_part.done",
    )
)
"""The events without a handler that the relay renders itself."""
_NORMALISED: Final = {
    "message": frozenset(("id", "type", "role", "status", "content", "phase")),
    "reasoning": frozenset(("id", "type", "status", "content", "summary")),
    **dict.fromkeys(
        CALLS,
        # With a namespace: its event follows the start of the call, which clients see first.
        frozenset(("id", "type", "status", "call_id", "name", "arguments", "input")),
    ),
}
"""The members of an item that other events have."""
_PART: Final = frozenset(("type", "text", "refusal", "annotations", "logprobs"))
"""The members of a content part that other events have."""
_RELAYS: Final = frozenset(
    (
        *("id", "object", "created_at", "status", "background", "error", "incomplete_details"),
        *("model", "output", "output_text", "store", "previous_response_id", "conversation"),
        # The client's values: the relay repeats them from the request.
        *("metadata", "user", "safety_identifier", "prompt_cache_key"),
        # Private to the creator: readers of a stream may be others.
        *("instructions", "prompt", "tools"),
    )
)
"""The members of a response that the relay sets."""


class ProviderDataRecorder:
    """Records the events of one stream."""

    def __init__(self, builder: EventBuilder) -> None:
        self._builder = builder
        self._free = MAX_PROGRESS
        self._noticed = False

    def list_members(self, raw: dict[str, Any]) -> dict[str, Any]:
        """Return the members of an item of the model that no other event has."""
        normalised = _NORMALISED.get(string(raw.get("type")))
        if normalised is None or not self._builder.keeps_provider_data:
            return {}
        members = leave_out(raw, normalised)
        if members:
            self._builder.reserve(size(members))
        return members

    def add(self, item: OutputItem, raw: dict[str, Any]) -> None:
        """Record an added item; a message begins with its text."""
        if _is_verbatim(item):
            if not item.recorded:
                self._begin(item, raw)
        elif item.type == "reasoning" and self._builder.open_block(0) is None:
            self.begin(item)

    def begin(self, item: OutputItem) -> None:
        """Record the start of a message or of reasoning, once."""
        if item.type in ("message", "reasoning") and not item.recorded:
            self._begin(item, item.members)

    def end(self, item: OutputItem, raw: dict[str, Any]) -> None:
        """Record the end of an item."""
        if _is_verbatim(item):
            if needs_client(raw):
                return  # emitted as `Opaque`
            if read_image(raw) is not None:
                raw = {k: v for k, v in raw.items() if k != "result"}  # emitted as `Media`
            if item.type == "compaction":  # whose content is emitted as `Opaque`
                raw = {k: v for k, v in raw.items() if k != "encrypted_content"}
        elif item.recorded:
            members = self.list_members(raw)
            members.pop("encrypted_content", None)  # emitted at the end of its block
            parts = [_list_part_members(part) for part in mappings(raw.get("content"))]
            if any(parts):
                members["content"] = parts
            if item.type == "message" and members == item.members:
                return
            raw = {**members, "type": item.type}
        else:
            return
        self._add("response.output_item.done", {"item": raw}, item)

    def mark_text(self, item: OutputItem) -> None:
        """Record that the next reasoning block is text, and not a part of the summary."""
        if item.recorded:
            self._add("response.content_part.added", {"part": {"type": "reasoning_text"}}, item)

    def note(
        self, event: dict[str, Any], item: OutputItem | None = None, *, name: str = ""
    ) -> None:
        """Record an event about an item, or about the answer, that the relay does not render.

        Beyond `MAX_PROGRESS` it is dropped, with one notice.
        """
        kind = string(event.get("type")) or name
        if kind in _RENDERED or not (item is None or item.recorded):
            return
        fields = {k: v for k, v in event.items() if k not in _REPEATED}
        if self._reserve(fields, kind):
            self._add(kind, fields, item)

    def end_response(self, response: dict[str, Any], *, beside: dict[str, Any]) -> None:
        """Record the members of an ended response, and those of its event beside it."""
        fields = {name: value for name, value in response.items() if name not in _RELAYS}
        if text := mapping(fields.get("text")):
            fields["text"] = {k: v for k, v in text.items() if k != "format"}
        more = {name: value for name, value in beside.items() if name not in _REPEATED}
        data = {"response": fields, **more}
        if (fields or more) and self._reserve(data, "response"):
            self._builder.provider_data(NAME, data)

    def _reserve(self, fields: dict[str, Any], kind: str) -> bool:
        """Return whether the fields fit into what remains of `MAX_PROGRESS`."""
        if not self._builder.keeps_provider_data:
            return False
        size = _EVENT + len(encode(fields))
        if size <= self._free:
            self._free -= size
            return True
        if not self._noticed:
            self._noticed = True
            message = f"left out events beyond {MAX_PROGRESS} bytes, first {kind[:100]!r}"
            self._builder.notice("provider_data_dropped", message)
        return False

    def _begin(self, item: OutputItem, fields: dict[str, Any]) -> None:
        if self._builder.keeps_provider_data:
            item.recorded = True
            self._builder.end_text(0)  # the previous item may not be done
            added = {"item": {**fields, "type": item.type}}
            self._add("response.output_item.added", added, item)

    def _add(self, kind: str, fields: dict[str, Any], item: OutputItem | None = None) -> None:
        position = {} if item is None else {"output_index": item.number}
        block = None if item is None else item.block
        self._builder.provider_data(NAME, {"type": kind, **position, **fields}, block=block)


def _list_part_members(part: dict[str, Any]) -> dict[str, Any]:
    return leave_out(part, _PART)


def _is_verbatim(item: OutputItem) -> bool:
    """Return whether an item is recorded as the provider sends it."""
    return item.hosted or item.type not in (*_NORMALISED, "")
