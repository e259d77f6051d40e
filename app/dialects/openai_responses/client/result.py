"""Renderer of response objects, of running and of ended streams."""

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, assert_never

import msgspec

from ....errors import CODES, UpstreamError
from ....events import (
    ContentFilter,
    ErrorInfo,
    Event,
    FinishReason,
    StreamEnd,
    StreamStart,
    StreamTarget,
    TokenCounts,
)
from ...answering.ids import public_token
from ...answering.moderation import Moderation
from ...answering.openai_errors import code_of, message_of
from ...answering.stream_end import error_of_end, render_cost
from ...client_format import PROVIDER_STATUSES
from ...reading.json_values import mapping
from .output_items import Output
from .tool_mapping import parse_label

ECHO: Final = "response"
"""The label with the request fields that the response repeats, as JSON."""
BACKGROUND: Final = "background"
"""The label of a stream with `background`."""
COMPACTS: Final = "compaction"
"""The label of a stream whose text is a summary for a compaction item."""

_RESPONSE_ID: Final = re.compile(r"resp_[\w-]{22}", re.ASCII)

Milestone = StreamStart | StreamTarget | ContentFilter | StreamEnd
"""The events that change the response itself; all others are about its output."""

Status = Literal["queued", "in_progress", "completed", "incomplete", "cancelled", "failed"]

DEFAULTS: Final[dict[str, Any]] = {
    "completed_at": None,  # not recorded in any event
    "frequency_penalty": 0.0,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "presence_penalty": 0.0,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "service_tier": "default",
    "store": True,  # the event log stores it
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
}
"""OpenAI's defaults for fields absent from the request; its clients require them."""

_COMPLETED: Final = ("reasoning", "text")
"""The fields of the request whose defaults a provider adds."""
_REPLACED: Final = {*DEFAULTS, "moderation"} - {"previous_response_id", "store"}
"""The fields in which a provider's value replaces the relay's default."""

_INCOMPLETE: Final[dict[FinishReason, str]] = {
    "length": "max_output_tokens",
    "pause": "max_output_tokens",
    "content_filter": "content_filter",
    "refusal": "content_filter",
}
"""`incomplete_details.reason` by finish reason of an incomplete answer."""


class Response:
    """The response object of a stream: `feed` it milestones, and `output` all other events."""

    def __init__(self, stream: str) -> None:
        self.output = Output(stream)
        self.background = False
        self._id = response_id(stream)
        self._created = 0
        self._model = ""
        self._echo: Mapping[str, Any] = {}
        self._status: Status = "queued"
        self._end: StreamEnd | None = None
        self.failure: UpstreamError | None = None
        """The failure of a completed stream as a response, if any."""
        self._moderation = Moderation()

    @property
    def status(self) -> Status:
        return self._status

    def feed(self, event: Milestone) -> None:
        """Apply an event that changes the state of the response."""
        match event:
            case StreamStart():
                labels = event.labels or {}
                self._created, self._model = event.created, event.model
                # Saved states share what does not change.
                self._echo = MappingProxyType(msgspec.json.decode(labels.get(ECHO, "{}")))
                self.output.tools = MappingProxyType(parse_label(labels))
                self.output.compacts = COMPACTS in labels
                self.background = BACKGROUND in labels
                self._status = "queued" if self.background else "in_progress"
            case StreamTarget():
                self._model, self._status = event.model, "in_progress"
                self.output.upstream = event.upstream
            case ContentFilter():
                self._moderation.feed(event)
            case StreamEnd():
                self._end = end = self._check(event)
                self._status = _status(end)
            case _:
                assert_never(event)

    def _check(self, end: StreamEnd) -> StreamEnd:
        """Return the end event, changed to a failure if a requested compaction is missing."""
        if _status(end) == "completed" and self.output.lacks_compaction:
            self.failure = no_summary("its answer had no text")
            return msgspec.structs.replace(end, status="failed", error=self.failure.info())
        return end

    def render_error_event(self) -> dict[str, Any] | None:
        """Return the fields of the event `error` if the answer did not complete, else None.

        They are flat in OpenAI's schema and in an object in its streams; clients read either.
        """
        failed = error_of_end(self._end) if self._end else None
        if failed is None:
            return None
        error = {**_error(failed.info()), "param": None}
        if self._status == "cancelled":
            error["code"] = "cancelled"  # not among OpenAI's codes
        return {"code": error["code"], "message": error["message"], "param": None, "error": error}

    def render(self) -> dict[str, Any]:
        """Return the current response object."""
        end = self._end
        reason = (
            _INCOMPLETE.get(end.finish_reason) if end and self._status == "incomplete" else None
        )
        moderation = self._moderation.render_singles()
        failed = error_of_end(end) if end and end.error else None
        response = {
            "id": self._id,
            "object": "response",
            "created_at": self._created,
            "status": self._status,
            "background": self.background,
            "error": _error(failed.info()) if failed else None,
            "incomplete_details": {"reason": reason} if reason else None,
            "model": self._model,
            "output": self.output.items,
            "usage": self._usage(),
            **DEFAULTS,
            **self._echo,
            **({"moderation": moderation} if moderation else {}),
        }
        if end is not None:
            self._add_provider_fields(response)
        return response

    def _add_provider_fields(self, response: dict[str, Any]) -> None:
        """Add the fields of a Responses provider; the relay's and the client's own remain."""
        for name, theirs in self.output.provider_fields.items():
            ours = response.get(name)
            if name in _COMPLETED and isinstance(ours, dict) and isinstance(theirs, dict):
                response[name] = {**ours, **theirs}
            elif name == "usage":
                response[name] = ours and _merge(mapping(theirs), ours)
            elif name not in response or name in _REPLACED.difference(self._echo):
                response[name] = theirs

    def _usage(self) -> dict[str, Any] | None:
        """Return the token counts; 0 for unknown ones, since clients require numbers."""
        end = self._end
        if end is None or (end.usage is None and self._status in ("failed", "cancelled")):
            return None
        return _usage(end.usage or TokenCounts()) | render_cost(end)


def response_id(stream: str) -> str:
    """Return the response id of a stream; item ids do not contain it."""
    return f"resp_{public_token(stream, 'openai_responses')}"


def name_of(response: str) -> str:
    """Return the name of a response's stream."""
    return f"response:{response}"


def is_response_id(text: str) -> bool:
    """Return whether a string has the form of a response id."""
    return _RESPONSE_ID.fullmatch(text) is not None


def no_summary(reason: str) -> UpstreamError:
    """Return the error for a missing summary; the client would lose its conversation."""
    return UpstreamError(
        "upstream_invalid_response", f"the model wrote no summary of the conversation: {reason}"
    )


def render_answer(stream: str, events: Iterable[Event]) -> dict[str, Any]:
    """Return the response object of an ended stream.

    Raises:
        UpstreamError: `upstream_invalid_response`, see `Response.failure`.
    """
    response = _replay(stream, events)
    if response.failure is not None:
        raise response.failure
    return response.render()


def render_result(stream: str, events: Iterable[Event]) -> dict[str, Any]:
    """Return the response object of a stream so far."""
    return _replay(stream, events).render()


def _replay(stream: str, events: Iterable[Event]) -> Response:
    response = Response(stream)
    for event in events:
        if isinstance(event, Milestone):
            response.feed(event)
        else:
            for _ in response.output.feed(event):
                pass
    close_items(response)
    return response


def close_items(response: Response) -> list[tuple[str, dict[str, Any]]]:
    """Close the open items of an ended stream; return the stream events for that."""
    match response.status:
        case "queued" | "in_progress":
            response.output.write_down()
            return []
        case "completed":
            return [*response.output.finish("completed")]
        case "incomplete" | "cancelled":
            return [*response.output.finish("incomplete")]
        case _:  # failed
            response.output.abandon()
            return []


def _status(end: StreamEnd) -> Status:
    if end.error is not None or end.status in ("failed", "interrupted"):
        return "failed"
    if end.status == "cancelled":
        return "cancelled"
    return "incomplete" if end.finish_reason in _INCOMPLETE else "completed"


def _error(error: ErrorInfo) -> dict[str, Any]:
    """Return the error; `code` is one of the format's few, `type` is the relay's.

    Two codes occur in OpenAI's streams but not in its schema: Codex compacts on
    `context_length_exceeded`, gives up on `insufficient_quota`, and retries unknown codes.
    """
    match PROVIDER_STATUSES.get(error.code, CODES[error.code].status):
        case _ if (code := code_of(error)) in ("context_length_exceeded", "insufficient_quota"):
            pass
        case 429:
            code = "rate_limit_exceeded"
        case status if status < 500:
            code = "invalid_prompt"
        case _:
            code = "server_error"
    return {"code": code, "message": message_of(error), "type": error.code}


def _merge(theirs: dict[str, Any], ours: dict[str, Any]) -> dict[str, Any]:
    """Return our counts, and those that only the provider has.

    Older hosts do not count written tokens, and their clients do not expect it.
    """
    merged = {**theirs, **ours}
    for name in ("input_tokens_details", "output_tokens_details"):
        merged[name] = {**mapping(theirs.get(name)), **ours[name]}
    found = mapping(theirs.get("input_tokens_details"))
    if found and "cache_write_tokens" not in found:
        del merged["input_tokens_details"]["cache_write_tokens"]
    return merged


def _usage(counts: TokenCounts) -> dict[str, Any]:
    """Return the token counts; unknown ones are 0, as the format requires numbers."""
    input_tokens, output_tokens = counts.input_tokens or 0, counts.output_tokens or 0
    return {
        "input_tokens": input_tokens,
        "input_tokens_details": {
            "cached_tokens": counts.cached_input_tokens or 0,
            "cache_write_tokens": counts.cache_write_tokens or 0,
        },
        "output_tokens": output_tokens,
        "output_tokens_details": {"reasoning_tokens": counts.reasoning_tokens or 0},
        "total_tokens": input_tokens + output_tokens
        if counts.total_tokens is None
        else counts.total_tokens,
    }
