"""Conversion of a chunk's candidates to events.

Parts arrive in the order of the answer: text and thoughts in pieces, all others complete,
except that Vertex AI can send a call's arguments in pieces too. Unknown parts are ignored.
"""

from typing import Any, Final, NamedTuple

from ...reading.event_builder import EventBuilder
from ...reading.finish_reasons import parse_finish
from ...reading.json_values import count, encode, mapping, mappings, string, text_or_none
from ...reading.provider_errors import MAX_TEXT
from .partial_arguments import PartialArguments
from .request import PART, SIGNATURE
from .sources import GroundingSources

MAX_CHOICES: Final = 128
"""The limit for `candidateCount`; any other index is treated as 0."""

_TOOL_PARTS: Final = {
    "executableCode": "input",
    "codeExecutionResult": "output",
    "toolCall": "input",
    "toolResponse": "output",
}
"""The parts of tools that Google runs, and whether each is input or output."""


class _OpenCall(NamedTuple):
    number: int
    block: int | None
    arguments: PartialArguments


class Candidates:
    """Converts the candidates of one stream."""

    def __init__(self, builder: EventBuilder) -> None:
        self.finish_message = ""
        """The provider's message for the last finish reason, if any."""
        self.broken = False
        """Whether the arguments of a call cannot be assembled."""
        self.early = False
        """Whether a finish reason was followed by more parts, so that the next may be too."""
        self.running = False
        """Whether the last part is a call of a Google tool without a response."""
        self._builder = builder
        self._sources = GroundingSources(builder)
        self._calls = 0
        self._open_calls: dict[int, _OpenCall] = {}
        self._sounds: dict[tuple[int, str], int] = {}
        self._tools: dict[tuple[int, str], int] = {}

    def feed(self, candidates: object) -> None:
        for candidate in mappings(candidates):
            number = count(candidate.get("index")) or 0
            self._candidate(number if number < MAX_CHOICES else 0, candidate)

    def _candidate(self, index: int, candidate: dict[str, Any]) -> None:
        builder = self._builder
        builder.choice(index)
        parts = mappings(mapping(candidate.get("content")).get("parts"))
        reason = string(candidate.get("finishReason"))
        # STOP may precede the run of a Google tool, and old models send it in every chunk:
        # it is the end only if nothing follows.
        if any(map(_has_content, parts)) or reason not in ("", "STOP"):
            self.early |= builder.reopen(index)
        for part in parts:
            self._part(index, part)
        if "logprobsResult" in candidate:
            builder.logprobs(index, _logprobs(mapping(candidate["logprobsResult"])))
        self._sources.feed(index, candidate)
        if "safetyRatings" in candidate:
            builder.content_filter(index, "completion", parse_ratings(candidate["safetyRatings"]))
        if reason:
            builder.finish(index, reason)
            self.finish_message = message = string(candidate.get("finishMessage"))
            if message and parse_finish(reason) != "error":
                builder.notice("finish_message", message[:MAX_TEXT])

    def _part(self, index: int, part: dict[str, Any]) -> None:
        kind = next((kind for kind in _TOOL_PARTS if kind in part), None)
        if _has_content(part):
            self.running = kind is not None and _TOOL_PARTS[kind] == "input"
        if kind is not None:
            tool = self._tool(index, kind, mapping(part[kind]))
            whole = encode(part).decode()
            self._builder.opaque(index, PART, whole, block=tool)
            return
        block = self._content(index, part)
        self._builder.opaque(index, SIGNATURE, string(part.get("thoughtSignature")), block=block)

    def _content(self, index: int, part: dict[str, Any]) -> int | None:
        """Handle a part of the answer itself; return its block."""
        builder = self._builder
        if "functionCall" in part:
            return self._call(index, mapping(part["functionCall"]))
        if "inlineData" in part or "fileData" in part:
            return self._media(index, part)
        text = string(part.get("text"))
        if part.get("thought") is True:
            builder.reasoning(index, text)
        elif text:
            builder.text(index, text)
            self._sources.text(index, text)
        return builder.open_block(index)

    def _call(self, index: int, call: dict[str, Any]) -> int | None:
        """Handle a complete call, or a piece of one."""
        if call.get("name"):
            return self._begin_call(index, call)
        found = self._open_calls.get(index)
        if found is not None:
            self._continue_call(index, call, found)
        return found.block if found else None

    def _begin_call(self, index: int, call: dict[str, Any]) -> int | None:
        self._calls += 1
        self._open_calls.pop(index, None)
        number, partial = self._calls, PartialArguments()
        pieces = not call.get("args") and (
            "partialArgs" in call or call.get("willContinue") is True
        )
        block = self._builder.tool_call(
            index,
            index=number,
            id=string(call.get("id")),
            name=string(call["name"]),
            arguments=partial.begin() if pieces else mapping(call.get("args")),
        )
        if pieces:
            self._open_calls[index] = found = _OpenCall(number, block, partial)
            self._continue_call(index, call, found)
        else:
            self._builder.end_tool_call(index, block)
        return block

    def _continue_call(self, index: int, call: dict[str, Any], found: _OpenCall) -> None:
        number, block, partial = found
        try:
            text = "".join(partial.feed(value) for value in mappings(call.get("partialArgs")))
        except ValueError:
            self.broken = True
            return
        ends = call.get("willContinue") is not True
        text += partial.close() if ends else ""
        self._builder.tool_call(index, index=number, id="", name="", arguments=text)
        if ends:
            self._builder.end_tool_call(index, block)
            del self._open_calls[index]

    def _media(self, index: int, part: dict[str, Any]) -> int | None:
        inline, file = mapping(part.get("inlineData")), mapping(part.get("fileData"))
        kind = string(inline.get("mimeType")) or string(file.get("mimeType"))
        data, url = text_or_none(inline.get("data")), text_or_none(file.get("fileUri"))
        if data is None and url is None:
            return None
        if part.get("thought") is True:  # a draft of the final image
            self._builder.notice("thought_media", "the draft of an image was dropped")
            return None
        self._builder.end_text(index)
        known = self._sounds.get((index, kind))  # audio arrives in pieces
        kind = text_or_none(kind) or "application/octet-stream"
        block = self._builder.media(index, kind, url=url, data=data, block=known)
        if kind.startswith("audio/") and data:
            self._sounds[index, kind] = block
        return block

    def _tool(self, index: int, kind: str, data: dict[str, Any]) -> int:
        """Handle the input or the output of a Google tool."""
        name = string(data.get("toolType")) or ("tool" if "tool" in kind else "code_execution")
        key = (index, string(data.get("id")) or name)
        side = _TOOL_PARTS[kind]
        match kind:
            case "toolCall":
                value = mapping(data.get("args"))
            case "toolResponse":
                value = mapping(data.get("response"))
            case _:
                value = {k: v for k, v in data.items() if k != "id"}
        block = self._tools.get(key) if side == "output" else None
        values: dict[str, Any] = {side: value}
        block = self._builder.provider_tool(index, name, block=block, **values)
        self._tools[key] = block
        return block


def _has_content(part: dict[str, Any]) -> bool:
    """Return whether a part has more than a signature."""
    return bool(part.get("text")) or not part.keys() <= {"text", "thought", "thoughtSignature"}


def parse_ratings(ratings: object) -> dict[str, Any]:
    """Return safety ratings by category, each with `filtered`: whether it blocked."""
    return {
        category: {
            **{k: v for k, v in rating.items() if k not in ("category", "blocked")},
            "filtered": rating.get("blocked") is True,
        }
        for rating in mappings(ratings)
        if (category := string(rating.get("category")))
    }


def _logprobs(result: dict[str, Any]) -> list[Any]:
    """Return the tokens in the form of Chat Completions."""
    chosen, tops = mappings(result.get("chosenCandidates")), result.get("topCandidates")
    tops = tops if isinstance(tops, list) else []
    tokens = [_token(token) for token in chosen]
    for token, top in zip(tokens, tops, strict=False):
        token["top_logprobs"] = [_token(t) for t in mappings(mapping(top).get("candidates"))]
    return tokens


def _token(token: dict[str, Any]) -> dict[str, Any]:
    return {"token": token.get("token"), "logprob": token.get("logProbability")}
