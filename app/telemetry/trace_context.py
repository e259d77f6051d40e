"""The trace that a request belongs to, for whoever works for it, also where nobody traces."""

from contextvars import ContextVar
from typing import Final

TRACEPARENT: Final[ContextVar[str]] = ContextVar("seseragi_traceparent", default="")
"""The span of the request as W3C's `traceparent` says it; "" where there are no traces.

What the request starts takes it along, as it does the request's id.
"""
