"""The settings of the HTTP side, as values."""

import msgspec


class Policy(msgspec.Struct, frozen=True):
    """Seconds, milliseconds and bytes."""

    gate_s: float = 5
    heartbeat_s: float = 10
    retry_ms: int = 2000
    send_timeout_s: float = 30
    linger_s: float = 60
    max_request_bytes: int = 8 * 2**20
    body_timeout_s: float = 30
