"""The history checker: each law is told from a short history that breaks it."""

import json
from typing import Any

import pytest

from tests.simulation import checker

pytestmark = pytest.mark.pure

START = json.dumps({"type": "stream.start"})
END = json.dumps({"type": "stream.end", "status": "completed"})
TEXT = json.dumps({"type": "text.delta", "block": 0, "text": " 00b"})
BEGIN = json.dumps({"type": "text.start", "block": 0})
CLOSE = json.dumps({"type": "text.end", "block": 0})
FRAMES = [["s.1", START], ["s.2", BEGIN], ["s.3", TEXT], ["s.4", CLOSE], ["s.5", END]]

CREATED = {"what": "created", "stream": "s", "marker": "q1", "key": None, "process": "a"}
STORED = {"what": "stored", "stream": "s", "status": 200, "frames": FRAMES}
BILLED = {
    "what": "billed",
    "marker": "q1",
    "target": "a/m",
    "number": 1,
    "nano": 6000,
    "sent": 1,
    "skipped": 0,
    "whole": True,
    "told": True,
}
CHARGE = {"nano": 6000, "counted": True, "estimated": False, "output": 1}
ENDED = {
    "what": "ended",
    "process": "a",
    "stream": "s",
    "status": "completed",
    "nano": 6000,
    "charges": [CHARGE],
    "lost": False,
}
READ = {"what": "read", "session": "r", "stream": "s", "door": "native", "after": ""}
RIGHT: list[dict[str, Any]] = [CREATED, STORED, BILLED, ENDED, READ]


def frame(name: str, data: str) -> dict[str, Any]:
    return {"what": "frame", "session": "r", "id": name, "data": data}


def check(records: list[dict[str, Any]]) -> list[str]:
    return checker.check([{"at": float(at), **record} for at, record in enumerate(records)])


def test_a_right_history_has_no_fault():
    assert [] == check([*RIGHT, *(frame(*one) for one in FRAMES)])


@pytest.mark.parametrize(
    ("law", "record"),
    [
        ("not what is stored", frame("s.3", TEXT)),
        ("does not end once", {**STORED, "frames": FRAMES[:4]}),
        ("does not end once", {**STORED, "frames": [*FRAMES, ["s.6", TEXT]]}),
        ("ended 2 times", ENDED),
        ("appended after", {"what": "append", "process": "a", "stream": "s", "types": [], "end": None}),
        ("and was", frame("s.1", END)),
        ("no beginning", {**STORED, "frames": [*FRAMES[:2], ["s.3", TEXT.replace("00", "01")], *FRAMES[3:]]}),
        ("not where its block", {**STORED, "frames": [FRAMES[0], *FRAMES[2:]]}),
        ("open blocks", {**STORED, "frames": [*FRAMES[:3], FRAMES[4]]}),
        ("has completed no answer", {**BILLED, "whole": False}),
        ("none of the whole", {**BILLED, "sent": 2}),
        ("2 calls were billed", {**BILLED, "number": 2}),
        ("which is 9000", {**BILLED, "nano": 9000}),
        ("stay held", {"what": "account", "name": "relay", "running": 1, "held": 5, "nano": 6000}),
        ("its streams 6000", {"what": "account", "name": "relay", "running": 0, "held": 0, "nano": 0}),
        ("exceed 5000", {"what": "balance", "name": "relay", "running": 0, "most": None, "nano": 6000, "held": 0, "limit": 5000}),
        ("still waits", {"what": "hangs", "what_hangs": "a client", "after_s": 400}),
        ("3 readers stay held", {"what": "held", "process": "a", "readers": 3}),
        ("a task is left", {"what": "left over", "process": "a", "task": "t"}),
        ("not even a heartbeat", {"what": "silence", "session": "r"}),
        ("has logged an error", {"what": "logged", "line": "relay failed", "why": ""}),
    ],
)  # fmt: skip
def test_a_broken_law_is_told(law: str, record: dict[str, Any]):
    over = {"what": "append", "process": "a", "stream": "s", "types": [], "end": "completed"}
    history: list[dict[str, Any]] = [over, *RIGHT, record]

    assert any(law in sentence for sentence in check(history))


def test_a_key_has_one_stream_that_did_not_fail():
    created = {**CREATED, "key": "k"}
    history: list[dict[str, Any]] = [
        created,
        {**created, "stream": "t"},
        ENDED,
        {**ENDED, "stream": "t"},
    ]

    assert any("2 streams" in sentence for sentence in check(history))


WORLD = {"what": "world", "hook": "", "log": "memory", "strict": False, "begins_month": False}
CALL = {"what": "call", "marker": "q1", "target": "a/m", "number": 1, "how": "whole"}
STARTED, FIRST = {"what": "started", "stream": "s"}, {"what": "first", "stream": "s"}
ATTEMPT = {"what": "attempt", "stream": "s"}
WRITTEN = {"what": "append", "process": "a", "stream": "s", "types": ["TextDelta"], "end": "completed"}  # fmt: skip
FAILED = json.dumps({"type": "stream.end", "status": "failed", "error": {"code": "upstream_truncated"}})  # fmt: skip
UNREAD = frame("s.5", json.dumps({"type": "stream.end", "ended_by": "reader_gone"}))
BALANCE = {"what": "balance", "name": "relay", "running": 0, "most": None, "nano": 0, "held": 0, "limit": None}  # fmt: skip


def simulate(*others: dict[str, Any], text_at: float = 2, **ended: Any) -> list[str]:
    """Check a simulated history with other records, and other words of its end."""
    whole: dict[str, Any] = {**BILLED, "how": "whole", "times": [1.5]}
    before: list[dict[str, Any]] = [WORLD, CREATED, CALL, STARTED, ATTEMPT, whole, STORED, READ]
    end = {**ENDED, "target": "a/m", **ended}
    history: list[dict[str, Any]] = [{"at": 1.0, **one} for one in before]
    history += [{"at": text_at, **one} for one in (WRITTEN, end)]
    return check([*history, *({"at": 1.2, **one} for one in others)])


def test_a_right_simulation_has_no_fault():
    assert [] == simulate(FIRST)


@pytest.mark.parametrize(
    ("law", "found"),
    [
        ("no first event", lambda: simulate()),
        ("9 tokens were charged", lambda: simulate(FIRST, charges=[{**CHARGE, "output": 9}])),
        ("was sent at 1.5", lambda: simulate(FIRST, text_at=4)),
        ("0 streams run", lambda: simulate(FIRST, BALANCE, text_at=5)),
        ("1 attempts were made, 2 were", lambda: simulate(FIRST, charges=[CHARGE, CHARGE])),
        ("ended without readers", lambda: simulate(FIRST, UNREAD, text_at=5)),
        ("no provider has failed", lambda: simulate(FIRST, {**STORED, "frames": [["s.1", FAILED]]})),
    ],
)  # fmt: skip
def test_a_broken_law_of_simulations_is_told(law, found):
    assert any(law in sentence for sentence in found())


@pytest.mark.parametrize("kind", ["stream.target", "notice"])
def test_a_key_is_not_taken_from_a_stream_that_may_have_been_billed(kind):
    frames = [["s.1", json.dumps({"type": kind})], ["s.2", FAILED]]
    created = {**CREATED, "key": "k"}
    history: list[dict[str, Any]] = [
        created,
        {**created, "stream": "t"},
        {**STORED, "frames": frames},
    ]

    assert any("t has replaced s" in sentence for sentence in check(history))
