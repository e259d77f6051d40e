"""Frames of Converse, written by hand."""

from typing import Any

from tests.framing.frames import event


def start(index: int, **block: Any) -> bytes:
    return event("contentBlockStart", {"contentBlockIndex": index, "start": block})


def delta(index: int, **piece: Any) -> bytes:
    return event("contentBlockDelta", {"contentBlockIndex": index, "delta": piece})


def stop(index: int) -> bytes:
    return event("contentBlockStop", {"contentBlockIndex": index})


def finish(reason: str = "end_turn", **more: Any) -> bytes:
    return event("messageStop", {"stopReason": reason, **more})


USED = {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3}


def metadata(**more: Any) -> bytes:
    return event("metadata", {"usage": USED, "metrics": {"latencyMs": 1}, **more})


BEGIN = event("messageStart", {"role": "assistant", "p": "abc"})
BEGUN = BEGIN + delta(0, text="a")
