"""The trace of the current request, readable without importing OpenTelemetry."""

from contextvars import ContextVar
from typing import Final

TRACEPARENT: Final[ContextVar[str]] = ContextVar("seseragi_traceparent", default="")
"""The request's span in the format of W3C's `traceparent`; "" without tracing.

Tasks that the request starts inherit it, like the request's id.
"""
