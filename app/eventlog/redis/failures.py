"""Failures of Redis as errors of the log, and checks that it is usable. No URL in any message."""

import struct
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import structlog

from ...errors import RequestError, ServiceError
from ..contract import LogUnusable
from .account_scripts import FORMAT, FORMAT_KEY
from .link import SLOW, Away, Broken, CommandRefused, Link

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


OLDEST = 7
"""The first version whose scripts may read the clock and then write."""


async def check_server(link: Link) -> None:
    """Refuse a Redis that lacks a needed feature or has a newer format; warn if it may evict keys.

    Raises:
        LogUnusable: it cannot be used; the message says why.
    """
    info = (await link.send("INFO")).decode()
    facts = dict(line.split(":", 1) for line in info.splitlines() if ":" in line)
    version = facts.get("valkey_version") or facts.get("redis_version", "0")
    if int(version.partition(".")[0]) < OLDEST:
        raise LogUnusable(f"log: this Redis is {version}; version {OLDEST} or later is needed")
    if facts.get("role") == "slave":
        raise LogUnusable("log: this Redis is a read-only replica; use the URL of its master")
    if facts.get("cluster_enabled", "0") != "0":
        raise LogUnusable(
            "log: this Redis is a cluster, which is not supported; use a single server or Sentinel"
        )
    number = b"%d" % FORMAT
    found = int(await link.send("SET", FORMAT_KEY, number, "NX", "GET") or FORMAT)
    if found > FORMAT:
        raise LogUnusable(
            f"log: this Redis has format {found}, this version reads {FORMAT}: a newer version of "
            "seseragi uses it; start that version, or use another database"
        )
    if found < FORMAT:
        await link.send("SET", FORMAT_KEY, number)
    if facts.get("maxmemory_policy", "noeviction") != "noeviction":
        log.warning(
            "Redis may evict running streams; set maxmemory-policy to noeviction",
            policy=facts["maxmemory_policy"],
        )


def why(error: Exception) -> str:
    """Explain why a Redis could not be connected to or queried."""
    text = str(error)
    if isinstance(error, SLOW):
        return "Redis does not answer; check the URL and that it runs"
    for sign, reason in (
        ("WRONGPASS", "Redis refuses the user name or password"),
        ("invalid username-password", "Redis refuses the user name or password"),
        ("NOAUTH", "Redis requires a password; add it to the URL"),
        ("Authentication required", "Redis requires a password; add it to the URL"),
        ("no permissions", "the user lacks rights that are needed in Redis"),
        ("No master", "the Sentinels know no such master"),
        ("DB index", "Redis has no database of this number"),
    ):
        if sign.lower() in text.lower():
            return reason
    return f"Redis cannot be used: {text}"
