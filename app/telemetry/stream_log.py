"""The log lines of a stream: one for its end, and one for each failed attempt."""

from typing import Any

import structlog

from ..eventlog.stream_ended import ProviderReply, StreamEnded
from ..eventlog.stream_info import StreamInfo
from .observer import AttemptDropped, AttemptFailed, Observer

OPERATOR_ERRORS = frozenset(("upstream_auth", "upstream_forbidden", "upstream_billing"))
"""Errors that only the operator can fix."""

CLIENT_ERRORS = frozenset(
    ("upstream_invalid_request", "context_length_exceeded", "content_filtered")
)
"""Errors of the request, which only its sender can fix."""

log = structlog.get_logger("seseragi.generation")


class StreamLog(Observer):
    """Logs ends of streams and failed attempts, with the id of the request that started each."""

    def attempt_failed(self, failed: AttemptFailed) -> None:
        log.warning(
            "attempt failed",
            **_stream_of(failed.info),
            upstream=failed.upstream,
            target=failed.target,
            attempt=failed.attempt,
            code=failed.error.code,
            error=failed.error.message,
            **_reply_of(failed.reply),
            then=failed.then,
            wait_s=round(failed.wait_s, 2),
        )

    def attempt_dropped(self, dropped: AttemptDropped) -> None:
        log.info(
            "attempt dropped",
            **_stream_of(dropped.info),
            target=dropped.target,
            attempt=dropped.attempt,
            **_reply_of(dropped.reply),
        )

    def ended(self, ended: StreamEnded) -> None:
        info, end, reply = ended.info, ended.end, ended.reply
        usage, error = end.usage, end.error
        failed = reply is not None and end.ended_by in ("provider", "deadline")
        if failed and ended.target is not None:
            _log_last_attempt(ended, ended.target)
        operator_error = error is not None and error.code in OPERATOR_ERRORS
        bound = log.bind()  # structlog finds `log.info` only by a failure, which takes 5 us
        write = bound.warning if operator_error else bound.info
        write(
            "stream ended",
            # Overrides the request id of the context, which may be any request's.
            **_stream_of(info),
            key=info.key_name or None,
            tenant=info.tenant or None,
            user=info.user or None,
            model=info.route,
            client_format=info.client_format,
            upstream=ended.target,
            attempt=None if ended.target is None else ended.attempts,
            status=end.status,
            finish_reason=end.finish_reason,
            code=error.code if error else None,
            ended_by=end.ended_by,
            # Other messages may quote the request.
            **({"error": error.message} if error is not None and operator_error else {}),
            events=ended.events,
            first_event_s=_rounded(ended.first_event_s),
            duration_s=_rounded(ended.duration_s),
            input_tokens=usage.input_tokens if usage else None,
            output_tokens=usage.output_tokens if usage else None,
            estimated=(usage.estimated if usage else None) or False,
            cost=end.cost,
            **({} if failed else _reply_of(reply)),
        )


def _log_last_attempt(ended: StreamEnded, target: str) -> None:
    """Log the failure of the last attempt."""
    error = ended.end.error
    code = (ended.reply and ended.reply.code) or (error and error.code)
    write = log.info if code in CLIENT_ERRORS else log.warning
    write(
        "attempt failed",
        **_stream_of(ended.info),
        upstream=target.partition("/")[0],
        target=target,
        attempt=ended.attempts,
        code=code,
        **_reply_of(ended.reply),
        then="the stream ends",
    )


def _stream_of(info: StreamInfo) -> dict[str, str]:
    trace = {"trace_id": info.trace_id} if info.traceparent else {}
    return {"request_id": info.request_id, "stream": info.id, **trace}


def _reply_of(reply: ProviderReply | None) -> dict[str, Any]:
    """Return the known fields of a provider's reply."""
    if reply is None:
        return {}
    fields = {
        "http_status": reply.http_status,
        "upstream_request_id": reply.request_id or None,
        "provider_message": reply.provider_message or None,
        "cause": reply.cause or None,
        "reconnects": reply.reconnects or None,
        "attempt_s": _rounded(reply.duration_s),
    }
    return {name: value for name, value in fields.items() if value is not None}


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 4)
