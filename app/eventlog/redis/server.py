"""Checks that a Redis is usable and explains why it is not. No URL in any message."""

import structlog

from ..errors import LogUnusable
from .link import SLOW, Link

OLDEST = 7
"""The first version whose scripts may read the clock and then write."""

log = structlog.get_logger("seseragi.eventlog")


async def check(link: Link) -> None:
    """Refuse a Redis that lacks a needed feature; warn if it may evict keys.

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
