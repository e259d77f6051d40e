"""Idempotency keys: find the stream that a key started, or replace a failed one."""

import asyncio
from collections.abc import Sequence

from ..errors import RelayError, RequestError, ServiceError
from ..eventlog import Claim, EventLog, cursor_after
from ..eventlog.stream_info import StreamInfo
from ..events import Event, StreamEnd, StreamTarget
from .readers import BATCH
from .run import outcome_of

START_S = 3.0
"""The maximum seconds to wait for the begin of a key's stream, whose process may be lost."""

TRIES = 3
"""How often a request may take over a key whose stream failed or never began."""


async def claim_key(event_log: EventLog, info: StreamInfo) -> Claim:
    """Open a stream, unless its key has one already that did not fail.

    Raises:
        RequestError: `idempotency_mismatch`.
        ServiceError: `overloaded`, the log is full, or the key's stream has not begun.
    """
    claim = await event_log.create(info)
    for _ in range(TRIES):
        check_digest(claim, info.key, info.digest)
        if claim.stream == info.id or not await may_try_again(event_log, claim.stream):
            return claim
        claim = await event_log.create(info, over=claim.stream)
    check_digest(claim, info.key, info.digest)
    return claim


async def may_try_again(event_log: EventLog, stream: str) -> bool:
    """Return whether the key of a stream is free again.

    It is if the stream is gone, or if it failed before anything visible with a retryable error. An
    interrupted stream may have been billed.

    Raises:
        ServiceError: `overloaded`, the stream has not begun, and may never begin.
    """
    try:
        first = await _read_start(event_log, stream)
    except RequestError:
        return True
    end = first[-1]
    if not isinstance(end, StreamEnd) or end.status != "failed":
        return False
    began = any(isinstance(event, StreamTarget) for event in first)
    return not began and bool(end.error and end.error.retryable)


async def await_outcome(event_log: EventLog, stream: str) -> RelayError | None:
    """Wait until a stream of another process has begun or ended; return its error, or None."""
    after = 0
    while True:
        try:
            events = await event_log.read(stream, after, timeout_s=1)
        except RelayError as error:
            return error
        for event in events:
            if isinstance(event, StreamTarget):
                return None
            if isinstance(event, StreamEnd):
                return outcome_of(event)
        after = cursor_after(after, events)


def check_digest(claim: Claim, key: str | None, digest: str) -> None:
    """Refuse a key that was used with another request.

    Raises:
        RequestError: `idempotency_mismatch`.
    """
    if claim.digest != digest:
        raise RequestError(
            "idempotency_mismatch",
            f"the Idempotency-Key {key!r} was used with another request; send a new key",
        )


async def _read_start(event_log: EventLog, stream: str) -> Sequence[Event]:
    """Return the first events of a stream, once there is one."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + START_S
    while (left_s := deadline - loop.time()) > 0:
        if first := await event_log.read(stream, 0, timeout_s=left_s, limit=BATCH):
            return first
    raise ServiceError(
        "overloaded",
        "the stream of this Idempotency-Key has not started and its relay may be lost; try again "
        "with the same key",
        retry_after_s=2,
    )
