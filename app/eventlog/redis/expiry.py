"""How long what is held in Redis holds."""

REMEMBERED_S = 3600
"""How long an expired stream is still told from an unknown one."""

SPARE_S = 10
"""Whether a stream has expired is told by its end; Redis removes it a little later."""


SETTLE_S = 1.5
"""How long all processes may take, at most, to be connected again to a Redis that is back."""


class Lease:
    """The terms on which the process `owner` produces streams.

    A lease holds for `s` seconds and is renewed every `renew_s`. The `_ms` are times to
    live in Redis: of an ended log, of its meta, and of a log and whatever else that is no
    longer renewed. For `settle_s` after Redis was away it may lack what owners know.
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
