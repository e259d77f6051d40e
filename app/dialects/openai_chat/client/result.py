"""Renderer of complete Chat Completions responses: the sum of the stream's deltas."""

from collections.abc import Iterable
from typing import Any

from ....events import Event, ProviderData, StreamEnd
from ...answering.stream_end import error_of_end
from ...reading.json_values import mapping, mappings, read_raw
from ...reading.split_text import join_base64
from ..member_records import FORMAT, Members, fill_text, merge
from ..reasoning_details import join_details
from .deltas import Delta, DeltaBuilder, render_usage


def render_result(stream: str, events: Iterable[Event]) -> dict[str, Any]:
    """Return the response object; every choice has a finish reason.

    Raises:
        RelayError: the stream did not complete.
    """
    builder = DeltaBuilder(stream)
    choices: dict[int, _Sum] = {}
    usage = None
    members: Members = {}
    for event in events:
        if isinstance(event, ProviderData):
            changes = mapping((read_raw(event.raw, FORMAT) or {}).get("chunk"))
            for name in ("once", "kept"):
                members = merge(members, mapping(changes.get(name)))
        for delta in builder.feed(event):
            choices.setdefault(delta.choice, _Sum(delta.choice)).add(delta)
        if isinstance(event, StreamEnd):
            if (failed := error_of_end(event)) is not None:
                raise failed
            usage = render_usage(event, builder.members.usage)
    result = {
        **members,
        "id": builder.id,
        "object": "chat.completion",
        "created": builder.created,
        "model": builder.model,
        "choices": [total.choice(builder.created) for _, total in sorted(choices.items())],
    }
    if found := builder.moderation.render_lists():
        result["moderation"] = found
    return result if usage is None else {**result, "usage": usage}


class _Sum:
    """Sums the deltas of one choice."""

    def __init__(self, index: int) -> None:
        self._index = index
        self._texts: dict[str, list[str]] = {}
        self._lists: dict[str, Any] = {}
        self._calls: list[dict[str, Any]] = []
        self._arguments: list[list[str]] = []
        """The pieces of each call's arguments."""
        self._audio: list[str] = []
        self._audio_id = ""
        self._logprobs: dict[str, list[Any]] = {}
        self._finish: str | None = None
        self._members: Members = {}
        self._delta_members: list[tuple[Members, list[str]]] = []
        """In order, each with the texts for its holes."""

    def add(self, delta: Delta) -> None:
        self._finish = delta.finish_reason or self._finish
        self._add_members(delta)
        for name, rows in (delta.logprobs or {}).items():
            self._logprobs.setdefault(name, []).extend(rows or ())
        for name, value in delta.delta.items():
            match name, value:
                case "tool_calls", [call]:
                    self._call(call)
                case "audio", {"data": str(data), **rest}:
                    self._audio_id = str(rest.get("id", ""))
                    self._audio.append(data)
                case _, str():
                    self._texts.setdefault(name, []).append(value)
                case _, list():
                    self._lists[name] = value

    def _add_members(self, delta: Delta) -> None:
        if delta.members:
            for name, rows in mapping(delta.members.get("logprobs")).items():
                if isinstance(rows, list):
                    self._logprobs.setdefault(name, []).extend(rows)
            others = {n: v for n, v in delta.members.items() if n != "logprobs"}
            self._members = merge(self._members, others)
        if not (found := delta.delta_members):
            return
        if not self._delta_members or self._delta_members[-1][0] is not found:
            self._delta_members.append((found, []))
        self._delta_members[-1][1].append(delta.text)

    def _sum_delta_members(self) -> Members:
        """Join lists, and merge objects; of other values the last one counts."""
        total: Members = {}
        last: Members = {}
        for found, texts in self._delta_members:
            filled = fill_text(found, "".join(texts))
            for name, value in filled.items():
                if isinstance(value, list) and isinstance(total.get(name), list):
                    if value != last[name]:
                        total[name] += value
                else:
                    total = merge(total, {name: [*value] if isinstance(value, list) else value})
                last[name] = value
        if "reasoning_details" in total:
            total["reasoning_details"] = join_details(mappings(total["reasoning_details"]))
        return total

    def _call(self, delta: dict[str, Any]) -> None:
        kind = "custom" if "custom" in delta else "function"
        if delta["index"] == len(self._calls):
            call = {name: value for name, value in delta.items() if name != "index"}
            self._calls.append({**call, "type": kind, kind: {**delta[kind]}})
            self._arguments.append([])
            return
        call = self._calls[delta["index"]]
        piece = delta[kind]["input" if kind == "custom" else "arguments"]
        self._arguments[delta["index"]].append(piece)
        if "extra_content" in delta:
            call.setdefault("extra_content", {}).update(delta["extra_content"])

    def choice(self, created: int) -> dict[str, Any]:
        texts = {name: "".join(parts) for name, parts in self._texts.items()}
        message: dict[str, Any] = {
            "role": "assistant",
            "content": texts.pop("content", "") or None,
            "refusal": texts.pop("refusal", None),
            **{name: text for name, text in texts.items() if name != "role"},
            **self._lists,
        }
        if self._calls:
            for call, pieces in zip(self._calls, self._arguments, strict=True):
                if call["type"] == "custom":
                    call["custom"]["input"] = "".join(pieces)
                else:
                    call["function"]["arguments"] = "".join(pieces)
            message["tool_calls"] = self._calls
        elif message["content"] is None and message["refusal"] is None:
            message["content"] = ""
        members = self._sum_delta_members()
        if self._audio:
            message["audio"] = self._audio_object(created) | mapping(members.get("audio"))
        message = merge(members, message)
        return {
            **self._members,
            "index": self._index,
            "message": message,
            "logprobs": {n: self._logprobs[n] or None for n in self._logprobs} or None,
            "finish_reason": self._finish,
        }

    def _audio_object(self, created: int) -> dict[str, Any]:
        """Return the audio without the provider's own fields: its transcript is in the content."""
        return {
            "id": self._audio_id,
            "data": join_base64(self._audio) or "".join(self._audio),
            "expires_at": created,
            "transcript": "",
        }
