"""The log lines of a stream: one for its end, and one for each attempt that failed."""

from typing import Any

import structlog

from ..eventlog.stream_ended import ProviderReply, StreamEnded
from ..eventlog.stream_info import StreamInfo
from .observer import AttemptFailed, Observer

TO_MEND = frozenset(("upstream_auth", "upstream_billing"))
"""What only the operator can mend."""

CLIENTS_FAULT = frozenset(
    ("upstream_invalid_request", "context_length_exceeded", "content_filtered")
)
"""What the provider says of a request: who sent it has to mend that."""

log = structlog.get_logger("seseragi.relay")


class StreamLog(Observer):
    """Logs how streams end, with the id of the request that started them."""

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

    def ended(self, ended: StreamEnded) -> None:
        end, reply = ended.end, ended.reply
        usage, error = end.usage, end.error
        failed = reply is not None and end.ended_by in ("provider", "deadline")
        if failed and ended.target is not None:
            _log_last_attempt(ended, ended.target)
        to_mend = error is not None and error.code in TO_MEND
        tell = log.warning if to_mend else log.info
        tell(
            "stream ended",
            # Not that of the request which this is told in: it may be any.
            **_stream_of(ended.info),
            model=ended.info.route,
            upstream=ended.target,
            attempt=None if ended.target is None else ended.attempts,
            status=end.status,
            finish_reason=end.finish_reason,
            code=error.code if error else None,
            ended_by=end.ended_by,
            # Of others it may quote what the client sent.
            **({"error": error.message} if error is not None and to_mend else {}),
            events=ended.events,
            first_event_s=_rounded(ended.first_event_s),
            duration_s=_rounded(ended.duration_s),
            output_tokens=usage.output_tokens if usage else None,
            estimated=(usage.estimated if usage else None) or False,
            cost=end.cost,
            **({} if failed else _reply_of(reply)),
        )


def _log_last_attempt(ended: StreamEnded, target: str) -> None:
    """Log the failure of an attempt that none has followed."""
    error = ended.end.error
    code = (ended.reply and ended.reply.code) or (error and error.code)
    tell = log.info if code in CLIENTS_FAULT else log.warning
    tell(
        "attempt failed",
        **_stream_of(ended.info),
        upstream=target.partition("/")[0],
        target=target,
        attempt=ended.attempts,
        code=code,
        **_reply_of(ended.reply),
        then="the stream ends",
    )


def _stream_of(record: StreamInfo) -> dict[str, str]:
    trace = {"trace_id": record.trace_id} if record.traceparent else {}
    return {"request_id": record.request_id, "stream": record.id, **trace}


def _reply_of(reply: ProviderReply | None) -> dict[str, Any]:
    """Return what is known of a provider's reply."""
    if reply is None:
        return {}
    told = {
        "http_status": reply.http_status,
        "upstream_request_id": reply.request_id or None,
        "said": reply.said or None,
        "attempt_s": _rounded(reply.duration_s),
    }
    return {name: value for name, value in told.items() if value is not None}


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 4)
