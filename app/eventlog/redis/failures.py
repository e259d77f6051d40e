"""Translates failures of Redis into errors of the log."""

import struct
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import structlog

from ...errors import RequestError, ServiceError
from .link import Away, Broken, CommandRefused

T = TypeVar("T")
log = structlog.get_logger("seseragi.eventlog")


async def result_of(reply: Awaitable[T], *, what: str = "") -> T:
    """Await a reply of Redis, and raise its failures as errors of the log.

    `what` names the key in the log line if Redis refuses the command.
    """
    try:
        return await reply
    except (Away, Broken):
        raise away() from None
    except CommandRefused as error:
        log.error("Redis refused a command", error=str(error), **({"what": what} if what else {}))
        if error.full:
            raise _full() from None
        raise _failed() from None


@contextmanager
def parsing(what: str) -> Iterator[None]:
    """Raise a failure of the log for a value that the relay cannot have written."""
    try:
        yield
    except (ValueError, TypeError, LookupError, ArithmeticError, struct.error) as error:
        log.error("Redis has a value that is not the relay's", what=what, error=str(error))
        raise _failed() from None


def _failed() -> ServiceError:
    return ServiceError("internal", "the event log failed; its log tells more")


def away(why: str = "the event log cannot be reached; try again shortly") -> ServiceError:
    """Return the error for calls that need an unreachable Redis."""
    return ServiceError("overloaded", why, retry_after_s=2)


def _full() -> ServiceError:
    return ServiceError(
        "overloaded", "the event log takes nothing at the moment; try again", retry_after_s=5
    )


def conflict(stream: str, last: int) -> RequestError:
    """Return the error for a cursor at an event that was lost with its owner."""
    return RequestError(
        "conflict",
        f"stream {stream} was kept up to event {last} only: what you have seen after it was "
        "lost before it could be stored; read it again from the beginning",
    )
