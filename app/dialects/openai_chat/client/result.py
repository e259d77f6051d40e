"""Renderer of complete Chat Completions responses: the sum of the stream's deltas."""

from collections.abc import Iterable
from typing import Any

from ....events import Event, StreamEnd
from ...answering.stream_end import error_of_end
from ...reading.split_text import join_base64
from .deltas import Delta, DeltaBuilder, render_usage


def render_result(stream: str, events: Iterable[Event]) -> dict[str, Any]:
    """Return the response object; every choice has a finish reason.

    Raises:
        RelayError: the stream did not complete.
    """
    builder = DeltaBuilder(stream)
    choices: dict[int, _Sum] = {}
    usage = None
    for event in events:
        for delta in builder.feed(event):
            choices.setdefault(delta.choice, _Sum(delta.choice)).add(delta)
        if isinstance(event, StreamEnd):
            if (failed := error_of_end(event)) is not None:
                raise failed
            usage = render_usage(event)
    result = {
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

    def add(self, delta: Delta) -> None:
        self._finish = delta.finish_reason or self._finish
        for name, rows in (delta.logprobs or {}).items():
            self._logprobs.setdefault(name, []).extend(rows or ())
        for name, value in delta.delta.items():
            match name, value:
                case "tool_calls", [call]:
                    self._call(call)
                case "audio", {"id": str(id), "data": str(data)}:
                    self._audio_id = id
                    self._audio.append(data)
                case _, str():
                    self._texts.setdefault(name, []).append(value)
                case _, list():
                    self._lists[name] = value

    def _call(self, delta: dict[str, Any]) -> None:
        kind = "custom" if "custom" in delta else "function"
        if delta["index"] == len(self._calls):
            self._calls.append({"id": delta["id"], "type": kind, kind: {**delta[kind]}})
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
        if self._audio:
            message["audio"] = self._audio_object(created)
        return {
            "index": self._index,
            "message": message,
            "logprobs": {n: self._logprobs[n] or None for n in self._logprobs} or None,
            "finish_reason": self._finish,
        }

    def _audio_object(self, created: int) -> dict[str, Any]:
        """Return the audio; its transcript is in the content, and `id` cannot be used later."""
        return {
            "id": self._audio_id,
            "data": join_base64(self._audio) or "".join(self._audio),
            "expires_at": created,
            "transcript": "",
        }
