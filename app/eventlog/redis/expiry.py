"""Leases, and expiry times of keys in Redis."""

REMEMBERED_S = 3600
"""How long an expired stream is reported as expired, not unknown."""

SPARE_S = 10
"""How much later than a stream expires Redis removes its keys."""

SETTLE_S = 1.5
"""How long all processes may take to reconnect to a Redis that is back."""


class Lease:
    """The lease of the process `owner` on its streams.

    It lasts `s` seconds and is renewed every `renew_s`. The `_ms` are times to live in Redis:
    `log_ms` and `meta_ms` after a stream's end, `running_*` while it runs. For `settle_s` after
    Redis was away, it may lack streams that their owners are about to restore.
    """

    def __init__(self, owner: str, *, s: float, retention_s: float) -> None:
        self.owner = owner
        self.s = s
        self.retention_s = retention_s
        self.renew_s = s / 3
        self.settle_s = max(self.renew_s, SETTLE_S)
        self.ms = int(s * 1000)
        self.log_ms = int((retention_s + SPARE_S) * 1000)
        self.meta_ms = self.log_ms + REMEMBERED_S * 1000
        self.running_log_ms = self.log_ms + self.ms
        self.running_ms = self.meta_ms + self.ms
