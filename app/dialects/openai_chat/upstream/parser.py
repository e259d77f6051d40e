"""Parser of Chat Completions streams, from OpenAI and compatible APIs.

Vendors differ in the fields that they add, omit and repeat, not in the format: the parser
accepts all of them; `Quirks` describes what one vendor requires in a request.

An answer is complete with `[DONE]`, or at the end of input if every choice seen has a finish
reason and, unless the reason explains it, complete tool calls. After a connection error
every requested choice must be finished. Any other end is a truncation. Input after the end is
ignored.
"""

from typing import Any, Final

from ....events import Event, TokenCounts
from ....framing.sse import Message
from ...reading.answer_parser import AnswerParser
from ...reading.billing import parse_cost, parse_service_tier
from ...reading.json_values import count, decode_or, mapping, short
from . import text_chunk
from .chunks import Deltas
from .provider_members import ProviderMembers
from .repeated_chunk import TRIES, RepeatedChunk


class Parser(AnswerParser):
    """See `AnswerParser`."""

    def __init__(self, *, upstream: str, choices: int = 1) -> None:
        super().__init__(upstream=upstream, choices=choices)
        self._deltas = Deltas(self._builder)
        self._last: RepeatedChunk | None = None
        """The last message, if it was a text chunk."""
        self._tries = TRIES
        self._decode: text_chunk.Decode[Any] = text_chunk.decode_any

    @property
    def finished(self) -> bool:
        """Whether every requested choice is finished."""
        return self._builder.finished and self._builder.seen >= self._choices

    @property
    def reasoning_field(self) -> str | None:
        return self._deltas.reasoning_field

    def keep_provider_data(self) -> None:
        super().keep_provider_data()
        self._decode = text_chunk.decode_same_dialect
        self._deltas.members = ProviderMembers(self._builder)

    def _complete(self) -> None:
        if self._deltas.members is not None:
            self._deltas.members.end()
        super()._complete()

    def _is_whole(self) -> bool:
        return self._builder.finished or self._deltas.whole

    def feed(self, *messages: Message) -> list[Event]:
        last = self._last
        if last is None or self._builder.ended:
            return super().feed(*messages)
        texts = last.match(messages)
        self._builder.texts(last.choice, texts)
        if len(texts) == len(messages):  # nearly every read
            return self._builder.take()
        return super().feed(*messages[len(texts) :])

    def _message(self, message: Message) -> None:
        data = message.data
        if message.event != "error":
            last = self._last
            if last is not None and (texts := last.match((message,))):
                self._builder.texts(last.choice, texts)
                return
            chunk = None if data == "[DONE]" else text_chunk.parse(data, self._decode)
            if chunk is not None and self._deltas.feed_text_chunk(chunk):
                if self.model is None or self.upstream_id is None:
                    self._name(chunk.model, chunk.id)
                if chunk.usage:
                    self._count(chunk.usage, chunk.service_tier)
                self._last = RepeatedChunk.of(data, chunk) if self._tries else None
                self._tries -= self._last is not None
                return
        self._last = None
        data = data.strip()
        if data.startswith("[DONE]"):
            self._complete()
            return
        if not data and message.event != "error":
            return
        document = decode_or(data, data)
        if message.event == "error":
            # Groq [groq/error-event], LM Studio, and llama.cpp's `error:` field.
            self._refuse(document)
            return
        if isinstance(document, dict):
            self._chunk(document)
            return
        for chunk in document if isinstance(document, list) else (document,):
            if self._builder.ended:
                return
            if isinstance(chunk, dict):
                self._chunk(chunk)
            elif message.event == "message":
                self._garbage()

    def _chunk(self, chunk: dict[str, Any]) -> None:
        if self.model is None or self.upstream_id is None:
            self._name(chunk.get("model"), chunk.get("id"))
        self._deltas.feed(chunk)
        usage = chunk.get("usage") or self._deltas.usage
        if "x_groq" in chunk:
            x_groq = mapping(chunk["x_groq"])
            usage = usage or x_groq.get("usage")
            self._deltas.error = self._deltas.error or x_groq.get("error")
        if usage:
            self._count(mapping(usage), chunk.get("service_tier"))
        if chunk.get("error") or chunk.get("object") == "error" or chunk.get("type") == "error":
            self._refuse(chunk)
        elif "base_resp" in chunk and mapping(chunk["base_resp"]).get("status_code"):
            self._refuse(chunk)  # MiniMax; 0 is success
        elif self._deltas.error:
            self._refuse({"error": self._deltas.error})

    def _name(self, model: object, id: object) -> None:
        # Both are "" in Azure's first chunk [azure-openai/chat-gpt52-usage].
        self.model = self.model or short(model)
        self.upstream_id = self.upstream_id or short(id)

    def _count(self, usage: dict[str, Any], service_tier: object) -> None:
        self._builder.usage(parse_usage(usage, service_tier))
        if self._deltas.members is not None:
            self._deltas.members.read_usage(usage)
        self.counted_early = not self._builder.finished

    def _tail(self, tail: Message) -> None:
        data = tail.data.strip()
        document: object = None
        if tail.event != "error" and not data.startswith("[DONE]"):
            document = decode_or(data, None)
            if not isinstance(document, dict | list):
                return  # truncated, such as the first digits of a number
        # Without a preceding message, it is one JSON document, not the rest of a stream.
        self._deltas.alone = not self._fed
        self._message(tail)
        if not self._builder.seen:
            self._refuse_body(mapping(document), "a completion")


_PERPLEXITY_FIELDS: Final = frozenset(
    ("citation_tokens", "num_search_queries", "search_context_size")
)
"""Fields of `usage` that only Perplexity sends."""


def parse_usage(usage: dict[str, Any], service_tier: object = None) -> TokenCounts:
    """Parse a `usage` object; details are parts of the totals, except for xAI and Perplexity."""
    input_details = mapping(usage.get("prompt_tokens_details"))
    output_details = mapping(usage.get("completion_tokens_details"))
    input_tokens = count(usage.get("prompt_tokens"))
    output_tokens = count(usage.get("completion_tokens"))
    total_tokens = count(usage.get("total_tokens"))
    cost = parse_cost(usage)
    reasoning = _first(output_details.get("reasoning_tokens"), usage.get("reasoning_tokens"))
    if output_tokens is not None and reasoning:
        # xAI's completion tokens exclude reasoning: 432 + 68 + 136 = 636
        # [xai/tools-parallel]. Gateways to it leave the total out: a part is never more.
        separate = total_tokens == (input_tokens or 0) + output_tokens + reasoning or (
            total_tokens is None and reasoning > output_tokens
        )
        if reasoning > output_tokens and not _PERPLEXITY_FIELDS.isdisjoint(usage):
            # Perplexity's deep research excludes reasoning from the completion and the
            # total.
            separate, total_tokens = True, (total_tokens or 0) + reasoning
        output_tokens += reasoning if separate else 0
    return TokenCounts(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        total_tokens=total_tokens,
        cached_input_tokens=_first(
            input_details.get("cached_tokens"),
            usage.get("prompt_cache_hit_tokens"),  # DeepSeek
            usage.get("cached_tokens"),  # Together
        ),
        cache_write_tokens=_first(
            input_details.get("cache_write_tokens"), usage.get("cache_creation_input_tokens")
        ),
        reasoning_tokens=reasoning,
        audio_input_tokens=count(input_details.get("audio_tokens")) or None,
        audio_output_tokens=count(output_details.get("audio_tokens")) or None,
        service_tier=parse_service_tier(service_tier),
        cost=cost,
        cost_from=None if cost is None else "provider",
    )


def _first(*values: object) -> int | None:
    for value in values:
        if (number := count(value)) is not None:
            return number
    return None
