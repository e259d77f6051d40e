"""Redaction of an upstream's secrets in the events of its answer."""

from collections.abc import Callable
from typing import Any

import msgspec

from ..events import ErrorInfo, Event, Raw, StreamEnd

Redact = Callable[[str], str]


def redact_event(event: Event, redact: Redact) -> Event:
    """Return an event with all its texts redacted; the same object if none changes."""
    if isinstance(event, StreamEnd) and event.error is None:
        return event  # its other texts are the relay's
    changed = {}
    for name in event.__struct_fields__:
        value = getattr(event, name)
        if value is not None and (redacted := _redact(value, redact)) != value:
            changed[name] = redacted
    return msgspec.structs.replace(event, **changed) if changed else event


def _redact(value: Any, redact: Redact) -> Any:
    """Redact every text of a field's value: JSON, or an object of an event."""
    match value:
        case str():
            return redact(value)
        case list():
            return [_redact(item, redact) for item in value]
        case dict():
            return {redact(str(k)): _redact(v, redact) for k, v in value.items()}
        case Raw():
            return msgspec.structs.replace(value, data=redact(value.data))
        case ErrorInfo():
            return msgspec.structs.replace(
                value,
                message=redact(value.message),
                provider_code=value.provider_code and redact(value.provider_code),
                param=value.param and redact(value.param),
            )
        case _:
            return value
