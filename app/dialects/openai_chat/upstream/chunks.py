"""Conversion of Chat Completions chunks, as any vendor sends them, to events.

A chunk's parts are processed in a fixed order: reasoning, text, tool calls, and last the
finish reason beside them [mistral/text-nonascii]. Parts of unexpected types and unknown fields
are ignored.
"""

import re
from typing import Any

from ....events import Raw
from ...reading.answer_bounds import ENTRY
from ...reading.event_builder import EventBuilder
from ...reading.finish_reasons import parse_finish
from ...reading.json_values import (
    count,
    decode_or,
    make_raw,
    mapping,
    mappings,
    string,
    text_or_none,
)
from ...reasoning_signatures import GOOGLE_SIGNATURE, OPENAI_CUSTOM_CALL
from ..member_records import FORMAT
from .provider_members import ProviderMembers
from .request import LITELLM, LITELLM_REDACTED
from .text_chunk import MAX_CHOICES, SameDialectChunk, TextChunk
from .thought import Thought

_MEDIA_TYPE = re.compile(r"[\w.+-]++/[\w.+-]++")
_COMMON_FIELDS = frozenset(
    ("role", "content", "reasoning", "reasoning_content", "refusal", "tool_calls")
)
_FUNCTION_CALL = -1
"""The key of the deprecated `function_call`, which has no index."""


class Deltas:
    """Feeds the chunks of one stream to an event builder."""

    def __init__(self, builder: EventBuilder) -> None:
        self.whole = False
        """Whether a chunk was a complete response (`chat.completion`)."""
        self.alone = False
        """Whether the next chunk is the whole body."""
        self.reasoning_field: str | None = None
        """The delta field that contained reasoning."""
        self.error: Any = None
        """The error of a choice, if any."""
        self.usage: Any = None
        """The usage of a choice of the last chunk; Kimi may send it only there."""
        self.members: ProviderMembers | None = None
        """The record of what no event has, for a client of the same dialect."""
        self._builder = builder
        self._messages: dict[int, list[str]] = {}
        """The contents of the messages of each choice that sends these instead of deltas."""
        self._thoughts: dict[int, Thought] = {}
        self._sounds: dict[int, int] = {}
        self._thinking: frozenset[int] = frozenset()
        """The choices whose last content was a thought, on Gemini's Chat Completions route."""
        self._call_ids: dict[tuple[int, int], str] = {}
        """The ids of calls without an index, by choice and position in a delta."""
        self._tools: dict[tuple[int, int], tuple[int, dict[str, Any]]] = {}

    def feed_text_chunk(self, chunk: TextChunk) -> bool:
        """Process a text chunk as `feed` does; return False if it needs the full parser."""
        if self._thinking:
            return False
        if isinstance(chunk, SameDialectChunk) and not (
            self.members and self.members.read_text_chunk(chunk)
        ):
            return False
        self.usage = None
        for choice in chunk.choices:
            index = choice.index if 0 <= choice.index < MAX_CHOICES else 0
            delta = choice.delta
            if reasoning := delta.reasoning_content or delta.reasoning:
                field = "reasoning_content" if delta.reasoning_content else "reasoning"
                self._reason(index, reasoning, field, ends=bool(delta.content))
            if delta.content:
                self._builder.text(index, delta.content)
            elif not reasoning:
                self._builder.choice(index)
            if choice.finish_reason:
                self._builder.finish(index, choice.finish_reason)
        return True

    def feed(self, chunk: dict[str, Any]) -> None:
        """Process a chunk except for its usage, error, model and id."""
        self.usage = None
        if self.members is not None:
            self.members.read_chunk(chunk)
        for choice in mappings(chunk.get("choices")):
            index = choice.get("index")
            if type(index) is not int or not 0 <= index < MAX_CHOICES:
                index = 0
            delta = choice.get("delta")
            if not isinstance(delta, dict):
                # Annotations of Azure's asynchronous content filter have no delta.
                delta = self._message(chunk, choice, index)
            if self.members is None:
                self._delta(index, delta, choice)
                self._choice(index, choice)
            else:
                at = self._builder.position
                found, finish = self.members.read_choice(index, choice, delta)
                self._delta(index, delta, choice)
                self._choice(index, choice, make_raw(FORMAT, finish) if finish else None)
                self.members.record(index, found, at=at)
        if "moderation" in chunk:
            moderation = mapping(chunk["moderation"])
            self._builder.content_filter(0, "prompt", mapping(moderation.get("input")))
            self._builder.content_filter(0, "completion", mapping(moderation.get("output")))
        if "prompt_filter_results" in chunk:
            for result in mappings(chunk["prompt_filter_results"]):
                verdict = mapping(result.get("content_filter_results"))
                self._builder.content_filter(0, "prompt", verdict)
        if "search_results" in chunk or "citations" in chunk or "web_search" in chunk:
            self._citations(chunk)

    def _message(self, chunk: dict[str, Any], choice: dict[str, Any], index: int) -> dict[str, Any]:
        """Return the `message` of a choice without delta, {} if it repeats earlier deltas.

        It is the complete answer, or a piece of it from hosts without deltas, whose last one may
        repeat them all.
        """
        message, kind = mapping(choice.get("message")), chunk.get("object")
        if not message:
            return message
        piece = kind == "chat.completion.chunk"
        if self.alone and not piece:
            self.whole = True
        # Perplexity's "chat.completion.done" repeats the preceding deltas.
        if not piece and index not in self._messages and self._builder.has_content(index):
            return {}
        pieces, content = self._messages.setdefault(index, []), string(message.get("content"))
        if content and choice.get("finish_reason") and content == "".join(pieces):
            return {**message, "content": None}
        self._builder.reserve(len(content))
        pieces.append(content)
        return message

    def _choice(self, index: int, choice: dict[str, Any], finish: Raw | None = None) -> None:
        """Process the fields beside the delta; `finish` has the other ones of its end."""
        builder = self._builder
        builder.choice(index)
        if logprobs := choice.get("logprobs"):
            builder.logprobs(index, mappings(mapping(logprobs).get("content")))
            builder.logprobs(index, mappings(mapping(logprobs).get("refusal")))
        if verdict := choice.get("content_filter_results"):
            builder.content_filter(index, "completion", mapping(verdict))
        reason = choice.get("finish_reason")
        if reason and isinstance(reason, str):
            native = string(choice.get("native_finish_reason"))
            if native and parse_finish(native) == "length" and builder.is_torn(index):
                reason = native  # OpenRouter reports `tool_calls` for a truncated call
            # vLLM's `stop_reason` is the stop string, or a token id.
            stop = text_or_none(choice.get("stop_reason"))
            builder.finish(index, reason, stop_sequence=stop, more=finish)
        if "usage" in choice:
            self.usage = choice["usage"]
        if "error" in choice:
            self.error = self.error or choice["error"]

    def _delta(self, index: int, delta: dict[str, Any], beside: dict[str, Any]) -> None:
        """Process a delta; `beside` has the log probabilities."""
        builder = self._builder
        content = delta.get("content")
        # vLLM renamed the field; if both are present, they are equal.
        reasoning = string(delta.get("reasoning_content")) or string(delta.get("reasoning"))
        if reasoning:
            field = "reasoning_content" if string(delta.get("reasoning_content")) else "reasoning"
            self._reason(index, reasoning, field, ends=bool(content))
        if logprobs := beside.get("logprobs"):
            # DeepSeek's of reasoning, which the content would end.
            thoughts = mappings(mapping(logprobs).get("reasoning_content"))
            builder.logprobs(index, thoughts, reasoning=True)
        google = _google(delta) if "extra_content" in delta else {}
        if isinstance(content, str) and (self._thinking or google):
            content = self._thought(index, content, thought=google.get("thought") is True)
        if details := delta.get("reasoning_details"):
            self._details(index, mappings(details), has_text=bool(reasoning))
        if blocks := delta.get("thinking_blocks"):
            self._thinking_blocks(index, mappings(blocks), has_text=bool(reasoning))
        if isinstance(content, str):
            builder.text(index, content)
        elif content:
            for part in mappings(content):
                self._part(index, part)
        if refusal := string(delta.get("refusal")):
            builder.refusal(index, refusal)
        if calls := delta.get("tool_calls"):
            # TGI sends one call instead of a list.
            calls = [calls] if isinstance(calls, dict) else mappings(calls)
            for position, call in enumerate(calls):
                self._tool_call(index, call, position=position if len(calls) > 1 else None)
        if signature := string(google.get("thought_signature")):
            # Gemini's native format accepts it back; this route only accepts signatures of
            # calls.
            builder.opaque(index, GOOGLE_SIGNATURE, signature, block=builder.text_block(index))
        if not _COMMON_FIELDS.issuperset(delta):
            self._rare_fields(index, delta)

    def _reason(
        self, index: int, text: str, field: str | None = None, *, ends: bool = False
    ) -> None:
        """Process reasoning, unless it repeats what came in a delta or field before.

        `field` is one of the two that hosts use, and `ends` tells that the answer stands beside.
        """
        self.reasoning_field = self.reasoning_field or field
        thought = self._thoughts.get(index)
        if thought is None:
            thought = self._thoughts[index] = Thought()
        ends = ends or self._builder.text_block(index) is not None
        if thought.take(text, ended=ends, elsewhere=field != self.reasoning_field):
            self._builder.reasoning(index, text)

    def _thought(self, index: int, content: str, *, thought: bool) -> str:
        """Process the thoughts that Gemini marks beside the content; return the remaining text.

        "<thought>" precedes the first thought, "</thought>" the answer in its first delta.
        """
        if thought:
            if index not in self._thinking:
                content = content.removeprefix("<thought>")
                self._thinking |= {index}
            reasoning, end, content = content.partition("</thought>")
            self._builder.reasoning(index, reasoning)
            if not end:
                return ""
        elif content and index in self._thinking:
            content = content.removeprefix("</thought>")
        if content:
            self._thinking -= {index}
        return content

    def _rare_fields(self, index: int, delta: dict[str, Any]) -> None:
        """Process the rare fields of a delta."""
        if function := mapping(delta.get("function_call")):
            self._function(index, function, number=_FUNCTION_CALL, id="")
        if audio := mapping(delta.get("audio")):
            self._audio(index, audio)
        for image in mappings(delta.get("images")):
            self._image(index, image)
        for annotation in mappings(delta.get("annotations")):
            self._annotation(index, annotation)
        for position, tool in enumerate(mappings(delta.get("executed_tools"))):
            self._executed(index, tool, position=position)

    def _details(self, index: int, details: list[dict[str, Any]], *, has_text: bool) -> None:
        """Process `reasoning_details`; `reasoning` repeats their text
        [openrouter/reasoning-details].
        """
        for detail in details:
            text = string(detail.get("text")) or string(detail.get("summary"))
            if text and not has_text:
                self._reason(index, text)
            name = string(detail.get("format"))
            if text:
                self._builder.name_reasoning(index, name)
            signature, data = string(detail.get("signature")), string(detail.get("data"))
            self._builder.sign(index, "signature", signature, format=name)
            self._builder.sign(index, "encrypted", data, format=name)

    def _thinking_blocks(self, index: int, blocks: list[dict[str, Any]], *, has_text: bool) -> None:
        """Process LiteLLM's copy of Claude's thinking; `reasoning_content` repeats its text."""
        for block in blocks:
            if not has_text and (text := string(block.get("thinking"))):
                self._reason(index, text)
            signature, data = string(block.get("signature")), string(block.get("data"))
            self._builder.sign(index, "signature", signature, format=LITELLM)
            if signature or data:  # each ends its block
                self._builder.end_text(index)
            self._builder.opaque(index, LITELLM_REDACTED, data)

    def _part(self, index: int, part: dict[str, Any]) -> None:
        """Process a part of list content, from Mistral [mistral/reasoning-hybrid] or Databricks."""
        builder = self._builder
        match part.get("type"):
            case "text":
                builder.text(index, string(part.get("text")))
            case "thinking":
                thinking = part.get("thinking")
                builder.reasoning(index, string(thinking))
                for piece in mappings(thinking):
                    builder.reasoning(index, string(piece.get("text")))
                signature = string(part.get("signature"))
                builder.sign(index, "signature", signature, format="")
            case "reasoning":
                for piece in mappings(part.get("summary")):
                    builder.reasoning(index, string(piece.get("text")))
            case "refusal":
                builder.refusal(index, string(part.get("refusal")))
            case "reference":
                names = part.get("reference_ids")
                for name in names if isinstance(names, list) else []:
                    builder.source(index, document=text_or_none(str(name)))
            case "image_url":
                self._image(index, part)

    def _tool_call(self, index: int, call: dict[str, Any], *, position: int | None) -> None:
        """Process a fragment of a call; `position` is its index in a delta with several."""
        function = mapping(call.get("function")) or mapping(call.get("custom"))
        if not function and not call.get("id"):
            return
        number = call.get("index")
        number = number if type(number) is int else None
        call_id = string(call.get("id"))
        if number is None and position is not None:
            if not call_id and not function.get("name"):
                call_id = self._call_ids.get((index, position), "")
            if self._call_ids.get((index, position)) != call_id:
                self._builder.reserve(ENTRY + len(call_id))
                self._call_ids[index, position] = call_id
        raw = None
        if self.members is not None and (others := self.members.read_call(call, function)):
            raw = make_raw(FORMAT, others)
        if call.get("custom") and function.get("name"):
            # Before its text, which is no JSON.
            begun = {"name": function["name"], "input": ""}
            block = self._function(index, begun, number=number, id=call_id, raw=raw)
            self._builder.opaque(index, OPENAI_CUSTOM_CALL, call_id or "1", block=block)
            function, raw = {"input": function.get("input")}, None
        block = self._function(index, function, number=number, id=call_id, raw=raw)
        # Gemini's Chat Completions route requires the signature in the next turn.
        signature = string(_google(call).get("thought_signature"))
        self._builder.opaque(index, GOOGLE_SIGNATURE, signature, block=block)

    def _function(
        self,
        index: int,
        function: dict[str, Any],
        *,
        number: int | None,
        id: str,
        raw: Raw | None = None,
    ) -> int | None:
        return self._builder.tool_call(
            index,
            index=number,
            id=id,
            name=string(function.get("name")),
            arguments=function.get("arguments", function.get("input")),
            free="input" in function and "arguments" not in function,
            raw=raw,
        )

    def _audio(self, index: int, audio: dict[str, Any]) -> None:
        """Process audio, which OpenAI streams as 16-bit PCM only, and its transcript as text."""
        self._builder.text(index, string(audio.get("transcript")))
        if data := text_or_none(audio.get("data")):
            block = self._sounds.get(index)
            self._sounds[index] = self._builder.media(index, "audio/pcm", data=data, block=block)

    def _image(self, index: int, image: dict[str, Any]) -> None:
        image_url = image.get("image_url")
        url = text_or_none(image_url) or text_or_none(mapping(image_url).get("url"))
        if url is None:
            return
        self._builder.end_text(index)
        head, comma, data = url.partition(",")
        if comma and head.startswith("data:"):
            kind = _MEDIA_TYPE.match(head, len("data:"))
            self._builder.media(index, kind[0] if kind else "text/plain", data=data)
        else:
            self._builder.media(index, "image/*", url=url)

    def _annotation(self, index: int, annotation: dict[str, Any]) -> None:
        kind = string(annotation.get("type"))
        fields = mapping(annotation.get(kind)) or annotation
        self._builder.source(
            index,
            url=text_or_none(fields.get("url")),
            document=text_or_none(fields.get("filename")) or text_or_none(fields.get("file_id")),
            title=text_or_none(fields.get("title")),
            cited_text=text_or_none(fields.get("content")),
            span=(count(fields.get("start_index")), count(fields.get("end_index"))),
        )

    def _citations(self, chunk: dict[str, Any]) -> None:
        """Process lists that Perplexity repeats in every chunk, and xAI and Z.ai send once."""
        for result in mappings(chunk.get("search_results")):
            self._builder.source(
                0, url=text_or_none(result.get("url")), title=text_or_none(result.get("title"))
            )
        citations = chunk.get("citations")
        for citation in citations if isinstance(citations, list) else []:
            url = text_or_none(citation) or text_or_none(mapping(citation).get("url"))
            self._builder.source(0, url=url, title=text_or_none(mapping(citation).get("title")))
        for result in mappings(chunk.get("web_search")):
            url, title = text_or_none(result.get("link")), text_or_none(result.get("title"))
            self._builder.source(
                0, url=url, title=title, cited_text=text_or_none(result.get("content"))
            )

    def _executed(self, index: int, tool: dict[str, Any], *, position: int) -> None:
        """Process a tool executed by Groq, sent once at its start and again with its output."""
        values: dict[str, Any] = {}
        if arguments := tool.get("arguments"):
            text = isinstance(arguments, str)
            values["input"] = decode_or(arguments, arguments) if text else arguments
        if (output := tool.get("output")) is not None:
            values["output"] = output
        number = count(tool.get("index"))
        key = (index, position if number is None else number)
        block, known = self._tools.get(key, (None, None))
        if known == values:
            return
        name = string(tool.get("name")) or string(tool.get("type")) or "tool"
        block = self._builder.provider_tool(index, name, block=block, **values)
        self._tools[key] = (block, values)


def _google(delta: dict[str, Any]) -> dict[str, Any]:
    """Return the Google-specific fields beside a delta or a call."""
    return mapping(mapping(delta.get("extra_content")).get("google"))
