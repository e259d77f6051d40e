"""The history of a process over the last hour: refusals, failures, and ended streams.

Bounded by error codes, minutes and counts. Updated once a stream.
"""

import time
from collections import deque
from collections.abc import Callable, Container

from ..errors import CODES, RelayError
from ..eventlog.stream_ended import StreamEnded
from ..telemetry.observer import AttemptFailed, Observer, Refused
from .process_snapshot import (
    MAX_LAST,
    MAX_MESSAGE,
    MINUTES,
    LastError,
    Minutes,
    Recent,
    Trouble,
    cut,
)

OTHER = "other"
"""The label of codes that this version does not know."""

FAILED = frozenset(("failed", "interrupted"))
"""The statuses of failed streams."""


class History(Observer):
    """Counts refusals and failures by minute, and stores the newest, and the newest streams.

    `names` and `targets` are those of the settings: routes, models and upstreams. `wall` returns
    unix seconds.
    """

    def __init__(
        self,
        names: Container[str],
        targets: Container[str],
        *,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.rename(names, targets)
        self._wall = wall
        self._refused: dict[str, Minutes] = {}
        self._failed: dict[str, Minutes] = {}
        self.last: deque[Trouble] = deque(maxlen=MAX_LAST)
        self.recent: deque[Recent] = deque(maxlen=MAX_LAST)
        """The newest last."""
        self._errors: dict[str, LastError] = {}

    def rename(self, names: Container[str], targets: Container[str]) -> None:
        """Use the names of new settings."""
        self._names = names
        self._targets = targets

    def counts(self, *, failed: bool) -> dict[str, Minutes]:
        """Count failed streams, or refused requests, by code and minute of the last hour."""
        oldest = int(self._wall() // 60) - MINUTES
        counted = self._failed if failed else self._refused
        fresh = {
            code: {minute: n for minute, n in minutes.items() if minute > oldest}
            for code, minutes in counted.items()
        }
        return {code: minutes for code, minutes in fresh.items() if minutes}

    def last_error(self, target: str) -> LastError | None:
        """Return the last error of a configured target."""
        return self._errors.get(target)

    # Events

    def attempt_failed(self, failed: AttemptFailed) -> None:
        self._note_error(failed.target, failed.error)

    def refused(self, refused: Refused) -> None:
        error, model = refused.error, refused.model
        self._count(self._refused, error.code)
        self.last.append(
            Trouble(
                at=self._wall(),
                failed=False,
                code=error.code,
                message=cut(error.message, MAX_MESSAGE),
                model=self._name_of(model or ""),
                request_id=cut(refused.request_id),
                owner=cut(refused.owner),
            )
        )

    def ended(self, ended: StreamEnded) -> None:
        info, end, now = ended.info, ended.end, self._wall()
        error = end.error
        self.recent.append(
            Recent(
                id=info.id,
                ended_at=now,
                status=end.status,
                code=error.code if error else None,
                route=cut(info.route),
                target=cut(ended.target) if ended.target else None,
                cost=end.cost,
                output_tokens=end.usage.output_tokens if end.usage else None,
                duration_s=round(ended.duration_s, 3),
                owner=cut(info.owner),
                tenant=cut(info.tenant),
                user=cut(info.user),
                key=cut(info.key_name),
            )
        )
        if error is None or end.status not in FAILED:
            return
        self._count(self._failed, error.code)
        self._note_error(ended.target, RelayError.of(error))
        self.last.append(
            Trouble(
                at=now,
                failed=True,
                code=error.code,
                message=cut(error.message, MAX_MESSAGE),
                model=self._name_of(info.route),
                request_id=cut(info.request_id),
                stream=info.id,
                owner=cut(info.owner),
            )
        )

    def _count(self, counted: dict[str, Minutes], code: str) -> None:
        minutes = counted.setdefault(code if code in CODES else OTHER, {})
        minute = int(self._wall() // 60)
        minutes[minute] = minutes.get(minute, 0) + 1
        if len(minutes) > MINUTES + 1:
            del minutes[min(minutes)]

    def _name_of(self, model: str) -> str | None:
        """Return the configured name for a client's model, or its upstream's name."""
        if model in self._names:
            return model
        upstream = model.partition("/")[0]
        return upstream if upstream in self._names else None

    def _note_error(self, target: str | None, error: RelayError) -> None:
        if target is not None and target in self._targets:
            self._errors[target] = LastError(code=error.code, at=self._wall())
