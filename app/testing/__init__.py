"""Test kit for applications that use the relay: a relay to test against, and a scripted provider.

See docs/testing.md, which also covers the pytest fixture. Nothing here needs pytest.
"""

from typing import TYPE_CHECKING, Any

from .relay import Relay, start_relay
from .upstream import (
    DONE,
    FINISH,
    LAST_CHUNK,
    USAGE,
    Call,
    Endless,
    Hold,
    Reset,
    Send,
    Step,
    Until,
    Upstream,
    Wait,
    answer,
    chunk,
    chunked_head,
    event,
    head,
    reply,
    send,
    serve_upstream,
    start_upstream,
    text,
    wait,
)

if TYPE_CHECKING:
    from .served import Clock, ServedRelay, Substitutes, serve_relay

__all__ = [
    "DONE",
    "FINISH",
    "LAST_CHUNK",
    "USAGE",
    "Call",
    "Clock",
    "Endless",
    "Hold",
    "Relay",
    "Reset",
    "Send",
    "ServedRelay",
    "Step",
    "Substitutes",
    "Until",
    "Upstream",
    "Wait",
    "answer",
    "chunk",
    "chunked_head",
    "event",
    "head",
    "reply",
    "send",
    "serve_relay",
    "serve_upstream",
    "start_relay",
    "start_upstream",
    "text",
    "wait",
]


def __getattr__(name: str) -> Any:
    """Import the relay itself, which takes a second, only where its parts are used."""
    if name in ("Clock", "ServedRelay", "Substitutes", "serve_relay"):
        from . import served

        return getattr(served, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
