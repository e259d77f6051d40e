"""The log lines of a stream: one for its end, and one for each attempt that failed before."""

import structlog

from ..eventlog.record import StreamRecord
from .observer import AttemptFailed, Ended, Observer

TO_MEND = frozenset(("upstream_auth", "upstream_billing"))
"""What only the operator can mend."""

log = structlog.get_logger("seseragi.relay")


class StreamLog(Observer):
    """Logs how streams end, with the id of the request that started them."""

    def attempt_failed(self, failed: AttemptFailed) -> None:
        log.warning(
            "attempt failed",
            request_id=failed.record.request_id,
            stream=failed.record.id,
            **_trace(failed.record),
            upstream=failed.upstream,
            code=failed.error.code,
            error=failed.error.message,
            then=failed.then,
            wait_s=round(failed.wait_s, 2),
        )

    def ended(self, ended: Ended) -> None:
        usage, error = ended.usage, ended.error
        to_mend = error is not None and error.code in TO_MEND
        tell = log.warning if to_mend else log.info
        tell(
            "stream ended",
            # Not that of the request which this is told in: it may be any.
            request_id=ended.record.request_id,
            stream=ended.record.id,
            **_trace(ended.record),
            model=ended.record.route,
            upstream=ended.target,
            attempt=ended.attempt,
            status=ended.status,
            finish_reason=ended.finish_reason,
            code=error.code if error else None,
            # Of others it may quote what the client sent.
            **({"error": error.message} if error is not None and to_mend else {}),
            events=ended.events,
            first_event_s=_rounded(ended.first_event_s),
            duration_s=_rounded(ended.duration_s),
            output_tokens=usage.output_tokens if usage else None,
            estimated=(usage.estimated if usage else None) or False,
            cost=ended.cost,
        )


def _trace(record: StreamRecord) -> dict[str, str]:
    return {"trace_id": record.trace_id} if record.traceparent else {}


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 4)
