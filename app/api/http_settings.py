"""The settings of the HTTP interface."""

import random

import msgspec


class HttpSettings(msgspec.Struct, frozen=True):
    """Seconds, milliseconds and bytes."""

    status_wait_s: float = 5
    heartbeat_s: float = 10
    retry_ms: int = 2000
    linger_s: float = 60
    send_timeout_s: float = 30
    drain_s: float = 5
    max_request_bytes: int = 32 * 2**20
    body_timeout_s: float = 30
    """The time for a body, and as much again for each `endpoints.TIMED_BYTES` of it."""
    retention_s: float = 900
    """How long the log keeps an ended stream."""
    longest_s: float = 1800
    """How long a stream may run."""
    client_secret_s: float = 600
    """How long a client secret may be valid."""

    def retry(self, *, spread: bool, least_s: float = 0) -> int:
        """Return the reconnection time for a client, in milliseconds.

        `spread` adds jitter, for clients that all disconnect at once.
        """
        retry_ms = max(self.retry_ms, least_s * 1000)
        return int(retry_ms * random.uniform(1, 2) if spread else retry_ms)  # noqa: S311
