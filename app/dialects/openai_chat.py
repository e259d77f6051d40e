"""OpenAI Chat Completions as an upstream speaks it, and all who speak it alike.

Vendors differ in what they add, leave out and repeat, not in the format: the parser takes
what any of them sends, and `Quirks` says what one of them wants in a request.

An answer is complete with `[DONE]`, or at the end of input when every choice that was seen
has a finish reason, and whole tool calls unless the reason explains it. If the connection is
lost instead, this holds for every choice that was asked for. Any other end is a truncation.
What follows the end is ignored.
"""

from typing import Any, Literal

import msgspec

from app.dialects.failure import parse_error, parse_finish_error
from app.dialects.openai_delta import Deltas
from app.dialects.shape import Shape
from app.dialects.untyped import count, decode, mapping, words
from app.errors import RelayError, UpstreamError
from app.events import Event, Status, TokenCounts
from app.framing.sse import Message
from app.requests import ChatRequest


class Parser:
    """One answer: `feed` it messages, then `close`, `cut` or `stop` it.

    `upstream` is the name that errors give the provider, `choices` how many answers were
    asked for. Every call returns the events that it completes. Once `ended` is true,
    `stream.end` was returned and nothing else comes.
    """

    def __init__(self, *, upstream: str, choices: int = 1) -> None:
        self.upstream_id: str | None = None
        self.model: str | None = None
        self._upstream = upstream
        self._choices = choices
        self._shape = Shape()
        self._deltas = Deltas(self._shape)
        self._fed = False

    @property
    def ended(self) -> bool:
        return self._shape.ended

    @property
    def finished(self) -> bool:
        """Whether every choice is finished, those too that were not seen yet."""
        return self._shape.finished and self._shape.seen >= self._choices

    def feed(self, message: Message) -> list[Event]:
        """Take the next message."""
        self._fed = True
        if not self._shape.ended:
            self._message(message)
        return self._shape.take()

    def close(self, tail: Message | None) -> list[Event]:
        """Take the end of input, and `tail`, the message that it left unterminated.

        A tail that is complete lost only its blank line; any other was cut.
        """
        if tail is not None and not self._shape.ended:
            self._tail(tail)
        if not self._shape.ended:
            if self._shape.finished or self._deltas.whole:
                self._complete()
            else:
                self._fail("upstream_truncated", "ended its answer before it was complete")
        return self._shape.take()

    def cut(self, error: RelayError) -> list[Event]:
        """Take the loss of the connection: too late to matter if `finished`, else a failure."""
        if not self.finished:
            return self.stop("failed", error)
        if not self._shape.ended:
            self._note(error)
            self._complete()
        return self._shape.take()

    def stop(self, status: Status, error: RelayError | None = None) -> list[Event]:
        """End now, whatever was seen: cancelled, interrupted, or failed with `error`."""
        if not self._shape.ended:
            self._shape.end(status, error.info() if error else None)
        return self._shape.take()

    def _message(self, message: Message) -> None:
        data = message.data.strip()
        if data.startswith("[DONE]"):
            self._complete()
            return
        if not data and message.event != "error":
            return
        try:
            document = decode(data)
        except ValueError:
            document = data
        if message.event == "error":
            # Groq [groq/error-event], LM Studio, and llama.cpp's `error:` field line.
            self._end_with(parse_error(document, upstream=self._upstream))
            return
        for chunk in document if isinstance(document, list) else (document,):
            if self._shape.ended:
                return
            if isinstance(chunk, dict):
                self._chunk(chunk)
            elif message.event == "message":
                self._garbage()

    def _garbage(self) -> None:
        """Take a message that is no JSON object: it fails an answer that is not finished."""
        what = f"upstream {self._upstream!r} sent a message that is no JSON object"
        error = UpstreamError("upstream_invalid_response", what)
        if self.finished:
            self._note(error)
        else:
            self._end_with(error)

    def _note(self, error: RelayError) -> None:
        """Tell of a failure that came too late to matter."""
        self._shape.notice(error.code, f"after the whole answer: {error.message}")

    def _chunk(self, chunk: dict[str, Any]) -> None:
        if self.model is None or self.upstream_id is None:
            # Both are "" in Azure's first chunk [azure-openai/chat-gpt52-usage].
            self.model = self.model or words(chunk.get("model"))
            self.upstream_id = self.upstream_id or words(chunk.get("id"))
        self._deltas.feed(chunk)
        usage = chunk.get("usage")
        if "x_groq" in chunk:
            x_groq = mapping(chunk["x_groq"])
            usage = usage or x_groq.get("usage")
            self._deltas.error = self._deltas.error or x_groq.get("error")
        if usage:
            self._shape.usage(parse_usage(mapping(usage)))
        if chunk.get("error") or chunk.get("object") == "error" or chunk.get("type") == "error":
            self._end_with(parse_error(chunk, upstream=self._upstream))
        elif self._deltas.error:
            self._end_with(parse_error({"error": self._deltas.error}, upstream=self._upstream))

    def _tail(self, tail: Message) -> None:
        data = tail.data.strip()
        document: object = None
        if tail.event != "error" and not data.startswith("[DONE]"):
            try:
                document = decode(data)
            except ValueError:
                return
            if not isinstance(document, dict | list):
                return  # such as the first digits of a number
        # As the first message it is a body of one JSON document, not the rest of a stream.
        self._deltas.alone = not self._fed
        self._message(tail)
        if not self._shape.ended and not self._shape.seen:
            self._refuse(mapping(document))

    def _refuse(self, document: dict[str, Any]) -> None:
        """Fail on a whole answer that is no chat completion, such as {"detail": "..."}."""
        if not document.keys().isdisjoint(("message", "detail", "msg")):
            self._end_with(parse_error(document, upstream=self._upstream))
        else:
            self._fail("upstream_invalid_response", "answered with JSON that is no completion")

    def _complete(self) -> None:
        """End at an end marker, or where the rules take the end of input for one."""
        if (raw := self._shape.finish_error) is not None:
            self._end_with(parse_finish_error(raw, upstream=self._upstream))
        elif self._shape.empty:
            self._fail("upstream_unavailable", "ended its answer before generating anything")
        else:
            self._shape.end("completed")

    def _fail(self, code: str, what: str) -> None:
        self._end_with(UpstreamError(code, f"upstream {self._upstream!r} {what}"))

    def _end_with(self, error: UpstreamError) -> None:
        self._shape.end("failed", error.info())


def parse_usage(usage: dict[str, Any]) -> TokenCounts:
    """Read a `usage` object; details count as parts of the totals, except where xAI says so."""
    input_details = mapping(usage.get("prompt_tokens_details"))
    output_details = mapping(usage.get("completion_tokens_details"))
    input_tokens = count(usage.get("prompt_tokens"))
    output_tokens = count(usage.get("completion_tokens"))
    total_tokens = count(usage.get("total_tokens"))
    reasoning = _first(output_details.get("reasoning_tokens"), usage.get("reasoning_tokens"))
    if output_tokens is not None and reasoning:
        # xAI counts reasoning beside the completion: 432 + 68 + 136 = 636 [xai/tools-parallel].
        beside = total_tokens == (input_tokens or 0) + output_tokens + reasoning
        output_tokens += reasoning if beside else 0
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
    )


def _first(*values: object) -> int | None:
    return next((number for v in values if (number := count(v)) is not None), None)


class Quirks(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one vendor wants in a request."""

    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """OpenAI's reasoning models refuse the older name; most others know no other."""
    stream_options: bool = True
    """Whether to ask for usage; Mistral gives it unasked and refuses the field."""
    send_reasoning: bool = False
    """Whether assistant messages carry `reasoning_content`: DeepSeek wants it, OpenAI not."""


def render_request(
    request: ChatRequest, *, model: str, quirks: Quirks | None = None
) -> dict[str, Any]:
    """Give the body that asks an upstream for `model` as a stream.

    `provider_options` overrules all but the model and that it is a stream.
    """
    quirks = quirks or Quirks()
    body: dict[str, Any] = msgspec.to_builtins(request)
    options = body.pop("provider_options", {})
    limits = [body.pop(name, None) for name in ("max_completion_tokens", "max_tokens")]
    limit = next((value for value in limits if value is not None), None)
    if limit is not None:
        body[quirks.max_tokens_field] = limit
    body.pop("on_disconnect", None)
    for message in body["messages"]:
        _edit_message(message, quirks=quirks)
    # msgspec leaves out a `type` that has its default.
    for tool in body.get("tools", ()):
        tool["type"] = "function"
    if isinstance(body.get("tool_choice"), dict):
        body["tool_choice"]["type"] = "function"
    if quirks.stream_options:
        body["stream_options"] = {"include_usage": True}
    return {**body, **options, "model": model, "stream": True}


def _edit_message(message: dict[str, Any], *, quirks: Quirks) -> None:
    if message["role"] != "assistant":
        return
    message.setdefault("content", None)
    if not quirks.send_reasoning:
        message.pop("reasoning_content", None)
    for call in message.get("tool_calls", ()):
        call["type"] = "function"
