"""A summary of a relay with much to do, in PROTOCOL.md's words, for the page of `/admin`."""

from typing import Any

STREAMS = 500
NOW = 1_795_358_000.0
MARKUP = "<img src=x onerror=alert(1)>"


def stream(number: int, *, step: int) -> dict[str, Any]:
    """One of many running streams; with each step it has gone on."""
    return {
        "id": f"st_{number:022}",
        "request_id": f"req_{number}",
        "owner": "acme",
        "tenant": "ac\u202eme" if number % 5 == 4 else "acme",
        "key": None if number % 7 else "web",
        "user": "x" * 200 if number % 9 == 8 else f"user-{number}",
        "route": "fast",
        "target": None if number % 11 == 10 else "openai/gpt-6",
        "attempt": 1 + number % 2,
        "started_at": NOW - 3000 + number,
        "first_event_s": None if number % 11 == 10 else 0.31,
        "events": 40 + (number * 37 + step * 13) % 900,
        "gap_s": 0.04 + (number + step) % 3,
        "longest_gap_s": 3,
        "process": "p1",
    }


def account(kind: str, name: str | None, used: str, limit: str | None) -> dict[str, Any]:
    day = {"cost": used, "held": "0.10"}
    limits: dict[str, Any] = {"streams": {"limit": 10, "remaining": 8}}
    limits["tokens_per_minute"] = {"limit": 20_000, "remaining": 19_700}
    if limit is not None:
        limits["usd_per_day"] = {"limit": limit, "remaining": "0"}
    return {
        "account": {"kind": kind} if name is None else {"kind": kind, kind: name},
        "today": day,
        "month": day,
        "streams": 2,
        "limits": limits,
    }


def target(name: str, state: str, **more: Any) -> dict[str, Any]:
    return {
        "target": name,
        "routes": ["fast"],
        "state": state,
        "failures": 0,
        "retry_at": None,
        "last_error": None,
        "processes": {"open": 0, "of": 3},
        **more,
    }


def trouble(number: int) -> dict[str, Any]:
    return {
        "at": NOW - number,
        "kind": "refused",
        "code": "rate_limited",
        "message": MARKUP * (1 + number % 3),
        "model": "fast",
        "request_id": f"req_{number}",
        "stream": f"st_{number:022}" if number % 2 else None,
        "owner": "acme\u2066",
    }


def ended(number: int) -> dict[str, Any]:
    return {
        "id": f"st_e{number:021}",
        "ended_at": NOW - number,
        "status": "failed" if number % 3 else "completed",
        "code": "upstream_timeout" if number % 3 else None,
        "route": "fast",
        "target": "openai/gpt-6",
        "cost": "0.0012",
        "output_tokens": 412,
        "duration_s": 9.8,
        "tenant": "acme",
        "key": None,
        "user": None,
    }


def summary(*, step: int) -> dict[str, Any]:
    """What is told at a step, with which each stream has gone on."""
    minute = int(NOW // 60)
    process = {
        "host": "relay",
        "pid": 1,
        "started_at": NOW - 90_000,
        "at": NOW,
        "streams": 256,
        "readers": 200,
        "log_streams": 500_000,
        "log_bytes": 61_728_394,
    }
    last_error = {"code": "upstream_timeout", "at": NOW - 40}
    return {
        "at": NOW,
        "version": "1.2.3",
        "processes": [
            {**process, "id": "p1", "draining": False, "log_healthy": True},
            {**process, "id": "p2", "draining": True, "log_healthy": False},
        ],
        "log": "redis",
        "live": [stream(number, step=step) for number in range(STREAMS)],
        "readers": {f"st_{number:022}": (number + step) % 3 for number in range(STREAMS)},
        "money": {
            "known": True,
            "more": 3,
            "accounts": [
                account("relay", None, "42.10", "50"),
                account("tenant", "acme", "12.30", "12"),
                account("key", "ssk\u202e", "0.00012", None),
            ],
        },
        "targets": [
            target("openai/gpt-6", "closed"),
            target(
                "anthropic/claude", "open", failures=5, retry_at=NOW + 17, last_error=last_error
            ),
            target("gemini/pro", "half-open"),
        ],
        "counts": {
            "refused": {"rate_limited": {f"{minute - 59 + n}": n % 7 for n in range(60)}},
            "failed": {"upstream_timeout": {f"{minute}": 6}},
        },
        "last": [trouble(number) for number in range(50)],
        "recent": [ended(number) for number in range(50)],
        "records": "postgresql",
        "rows_waiting": 2,
    }
