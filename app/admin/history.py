"""The history of a process over the last hour: refusals, failures, and ended streams.

Bounded by error codes, minutes and counts. Updated once a stream.
"""

import time
from collections import deque
from collections.abc import Callable, Container
from typing import Any

import msgspec

from ..errors import CODES, RelayError
from ..eventlog.stream_ended import StreamEnded
from ..telemetry.observer import AttemptFailed, Observer, Refused
from .snapshot import (
    MAX_LAST,
    MAX_MESSAGE,
    MINUTES,
    EndedStream,
    LastError,
    LastTrouble,
    Minutes,
    Trouble,
    cut,
    describe_stream,
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
        self._counts: dict[Trouble, dict[str, Minutes]] = {"refused": {}, "failed": {}}
        self.last: deque[LastTrouble] = deque(maxlen=MAX_LAST)
        self._recent: deque[tuple[float, StreamEnded]] = deque(maxlen=MAX_LAST)
        """When each ended, in unix seconds; the newest last."""
        self._errors: dict[str, LastError] = {}

    def rename(self, names: Container[str], targets: Container[str]) -> None:
        """Use the names of new settings."""
        self._names = names
        self._targets = targets

    def counts(self) -> dict[Trouble, dict[str, Minutes]]:
        """Return the counts of the last hour, by kind, code and minute."""
        oldest = int(self._wall() // 60) - MINUTES
        found: dict[Trouble, dict[str, Minutes]] = {}
        for kind, codes in self._counts.items():
            fresh = {
                code: {minute: n for minute, n in minutes.items() if minute > oldest}
                for code, minutes in codes.items()
            }
            found[kind] = {code: minutes for code, minutes in fresh.items() if minutes}
        return found

    def last_error(self, target: str) -> LastError | None:
        """Return the last error of a configured target."""
        return self._errors.get(target)

    # Events

    def attempt_failed(self, failed: AttemptFailed) -> None:
        self._note_error(failed.target, failed.error)

    def refused(self, refused: Refused) -> None:
        self._note(
            "refused",
            refused.error,
            refused.model or "",
            request_id=cut(refused.request_id),
            stream=None,
            owner=cut(refused.owner),
        )

    def ended(self, ended: StreamEnded) -> None:
        info, end = ended.info, ended.end
        if ended.content or ended.traced_content:  # may be large, and is not shown
            ended = msgspec.structs.replace(ended, content=b"", traced_content=b"")
        self._recent.append((self._wall(), ended))
        if end.error is not None and end.status in FAILED:
            error = RelayError.of(end.error)
            self._note_error(ended.target, error)
            self._note(
                "failed",
                error,
                info.route,
                request_id=cut(info.request_id),
                owner=cut(info.owner),
                stream=info.id,
            )

    def list_recent(self) -> list[EndedStream]:
        """Return the newest ended streams, the newest first."""
        return [
            EndedStream(
                **describe_stream(ended.info),
                target=cut(ended.target) if ended.target else None,
                output_tokens=ended.end.usage.output_tokens if ended.end.usage else None,
                cost=ended.end.cost,
                ended_at=at,
                status=ended.end.status,
                code=ended.end.error.code if ended.end.error else None,
                duration_s=round(ended.duration_s, 3),
            )
            for at, ended in reversed(self._recent)
        ]

    def _note(self, kind: Trouble, error: RelayError, model: str, **fields: Any) -> None:
        """Count an error, and store it."""
        now = self._wall()
        code = error.code if error.code in CODES else OTHER
        minutes = self._counts[kind].setdefault(code, {})
        minute = int(now // 60)
        minutes[minute] = minutes.get(minute, 0) + 1
        if len(minutes) > MINUTES + 1:
            del minutes[min(minutes)]
        message, name = cut(error.message, MAX_MESSAGE), self._name_of(model)
        self.last.append(
            LastTrouble(at=now, kind=kind, code=error.code, message=message, model=name, **fields)
        )

    def _name_of(self, model: str) -> str | None:
        """Return the configured name for a client's model, or its upstream's name."""
        if model in self._names:
            return model
        upstream = model.partition("/")[0]
        return upstream if upstream in self._names else None

    def _note_error(self, target: str | None, error: RelayError) -> None:
        if target is not None and target in self._targets:
            self._errors[target] = LastError(code=error.code, at=self._wall())
