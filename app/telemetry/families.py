"""Every metric with its labels. docs/metrics.md has the same table."""

from typing import Final, Literal

import msgspec

SECONDS_TO_BEGIN: Final = (0.1, 0.25, 0.5, 1, 2, 3, 5, 10, 20, 30, 60, 120, 300)
SECONDS_OF_SILENCE: Final = (0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
SECONDS_OF_STREAM: Final = (0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1800)
SECONDS_OF_LAG: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)

Over = Literal["sum", "min", "max"]
"""How a gauge's values in several workers are combined."""


class Family(msgspec.Struct, frozen=True):
    """One metric. A counter's name has no `_total`: the exposition adds it."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    over: Over = "sum"

    @property
    def size(self) -> int:
        """The numbers of a series: a histogram has its buckets, +Inf, and the sum."""
        return len(self.buckets) + 2 if self.buckets else 1


def _counter(name: str, help: str, *labels: str) -> Family:
    return Family(f"seseragi_{name}", "counter", help=help, labels=labels)


def _gauge(name: str, help: str, *labels: str, over: Over = "sum") -> Family:
    return Family(f"seseragi_{name}", "gauge", help=help, labels=labels, over=over)


def _histogram(name: str, help: str, buckets: tuple[float, ...], *labels: str) -> Family:
    return Family(f"seseragi_{name}", "histogram", help=help, labels=labels, buckets=buckets)


HTTP_REQUESTS: Final = _counter(
    "http_requests", "Answered HTTP requests.", "endpoint", "method", "status"
)
STARTED: Final = _counter("streams_started", "Started streams.", "route", "client_format")
ENDED: Final = _counter("streams_ended", "Ended streams.", "route", "status", "code", "ended_by")
ORPHANED: Final = _counter("streams_orphaned", "Streams of dead processes, ended by another one.")
REFUSALS: Final = _counter("refusals", "Requests answered with an error and no stream.", "code")
ATTEMPTS: Final = _counter("attempts", "Finished attempts.", "target", "outcome")
RETRIES: Final = _counter(
    "retries", "Failed attempts followed by one at the same target.", "target"
)
FALLBACKS: Final = _counter(
    "fallbacks", "Failed attempts followed by one at another target.", "target"
)
DROPPED: Final = _counter(
    "attempts_dropped", "Attempts cancelled because another one answered first.", "target"
)
RESUMES: Final = _counter("resumes", "Readers that joined a stream with a cursor.")
TOKENS: Final = _counter("tokens", "Tokens of ended streams, by kind.", "target", "kind")
COST: Final = _counter("cost_usd", "Cost of ended streams, over all attempts.", "route", "target")
UNPRICED: Final = _counter("streams_unpriced", "Ended streams with an unknown price.", "target")
FIRST_EVENT: Final = _histogram(
    "time_to_first_event_seconds",
    "From the request to the first event of the answer.",
    SECONDS_TO_BEGIN,
    "route",
)
LONGEST_GAP: Final = _histogram(
    "longest_gap_seconds", "The longest pause within an answer.", SECONDS_OF_SILENCE, "route"
)
DURATION: Final = _histogram(
    "stream_duration_seconds", "From the request to the end.", SECONDS_OF_STREAM, "route"
)
LAG: Final = _histogram(
    "event_loop_lag_seconds",
    "How late a timer of one second fired.",
    SECONDS_OF_LAG,
)
LOG_LINES: Final = _counter("log_lines", "Log lines.", "level")
STREAMS: Final = _gauge("streams_running", "Running streams.")
READERS: Final = _gauge("readers", "Readers of streams.")
DRAINING: Final = _gauge(
    "draining", "1 while the process drains and accepts no new streams.", over="max"
)
LOG_HEALTHY: Final = _gauge("log_healthy", "1 if the event log is usable.", over="min")
LOG_STREAMS: Final = _gauge("log_streams", "Streams in the memory of the event log.")
LOG_BYTES: Final = _gauge("log_memory_bytes", "Estimated memory of the streams in the event log.")
REQUEST_BYTES: Final = _gauge("requests_memory_bytes", "Estimated memory of requests.")
BREAKERS: Final = _gauge(
    "breakers", "Workers in which a target's breaker has this state.", "target", "state"
)
RECORDS_WAITING: Final = _gauge(
    "records_waiting", "Rows waiting to be written to the records.", over="max"
)
WEBHOOK_CALLS: Final = _counter(
    "webhook_calls", "Calls of webhooks, and ends that were given up.", "webhook", "outcome"
)
WEBHOOK_WAITING: Final = _gauge(
    "webhook_waiting", "Ends of streams waiting for a webhook.", "webhook", over="max"
)
WEBHOOK_OLDEST: Final = _gauge(
    "webhook_oldest_seconds",
    "The age of the oldest end whose last call failed.",
    "webhook",
    over="max",
)
WORKERS: Final = _gauge("workers", "Serving workers.")
ACCOUNT_USD: Final = _gauge("account_usd", "Amount that an account has spent.", "account", "period")
ACCOUNT_USD_LIMIT: Final = _gauge(
    "account_usd_limit", "Amount that an account may spend.", "account", "period"
)

FAMILIES: Final = tuple(one for one in list(vars().values()) if isinstance(one, Family))
