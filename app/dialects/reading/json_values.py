"""Decoding of untyped JSON from providers, and typed access to its values.

The accessors return an empty value of their type where the provider sent another type, null,
or nothing. Strings may contain lone UTF-16 surrogates; `text_or_none` and `clean` replace them,
since events must not contain any.
"""

import json
import math
from collections.abc import Collection
from typing import Any, Final, Literal

import msgspec

from ...bounds import measure
from ...events import Raw
from .answer_bounds import MAX_VALUES
from .split_text import well_formed

MAX_DEPTH: Final = 256
"""Nesting of objects and lists: a quarter of the interpreter's limit, since these values are
encoded again deeper in the stack, and within other values."""

MAX_NAME: Final = 255

_INVALID: Final = object()


def is_json(text: str) -> bool:
    """Return whether a text is JSON, without building its values unless only Python reads it."""
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except (ValueError, RecursionError):
        return decode_or(text, _INVALID) is not _INVALID
    return True


def compact(text: str) -> Any:
    """Return JSON text as a value of one line that can be encoded; see `is_json`.

    Raises:
        ValueError: it is not JSON.
    """
    try:
        return msgspec.Raw(msgspec.json.format(text.encode(), indent=-1))
    except (ValueError, RecursionError):
        return clean(decode(text))


def compact_object(text: str) -> Any:
    """Return a JSON object as `compact` does; None for any other text."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        return compact(text)
    except ValueError:
        return None


def decode(text: str) -> Any:
    """Decode a JSON document.

    Raises:
        ValueError: it is not JSON, or exceeds a bound of `decode_or`.
    """
    value = decode_or(text, _INVALID)
    if value is _INVALID:
        raise ValueError("not JSON, nested too deeply, or too many values")
    return value


def decode_or(text: str, default: Any) -> Any:
    """Decode a JSON document; return `default` for any other text, or one beyond a bound.

    The bounds are `MAX_DEPTH` and `MAX_VALUES`: the text may have come in many messages.
    """
    if len(text) > 2 * MAX_DEPTH and _is_excessive(text):
        return default
    try:
        return msgspec.json.decode(text)
    except UnicodeEncodeError:
        return default
    except (msgspec.DecodeError, RecursionError):
        pass
    # msgspec rejects half a surrogate pair, which hosts send when they split an emoji,
    # and the NaN and Infinity of Python servers; the standard library accepts both.
    try:
        return json.loads(text, parse_float=_finite, parse_constant=_finite)
    except (ValueError, RecursionError):
        return default


def _is_excessive(text: str) -> bool:
    if len(text) <= MAX_VALUES and text.count("{") + text.count("[") <= MAX_DEPTH:
        return False
    values, depth = measure(text.encode(errors="surrogatepass"), most=MAX_VALUES)
    return values > MAX_VALUES or depth > MAX_DEPTH


def _finite(text: str) -> float | None:
    number = float(text)
    return number if math.isfinite(number) else None


def mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def mappings(value: object) -> list[dict[str, Any]]:
    """Return the objects of a list; an empty list for any other value."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def string(value: object) -> str:
    return value if isinstance(value, str) else ""


def text_or_none(value: object) -> str | None:
    """Return a non-empty string, well-formed, else None; for optional fields of events."""
    return well_formed(value) if isinstance(value, str) and value else None


def short(value: object) -> str | None:
    """Return the name of a model or an answer, cut to `MAX_NAME` characters."""
    return text_or_none(value[:MAX_NAME]) if isinstance(value, str) else None


def count(value: object) -> int | None:
    """Return a count of tokens or characters; None for negative and fractional numbers."""
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53:
        return value
    return None


def size(value: Any) -> int:
    """Estimate the memory of decoded JSON, in bytes."""
    data = encode(value)
    return len(data) + 64 * (data.count(b",") + data.count(b"[") + data.count(b"{") + 1)


def make_raw(format: str, fields: dict[str, Any]) -> Raw:
    """Pack a provider's own fields into the `raw` of an event; equal objects give equal values."""
    return Raw(format, encode(fields, order="deterministic").decode())


def read_raw(raw: Raw | None, format: str) -> dict[str, Any] | None:
    """Return the object that `make_raw` packed; None if it is of another dialect."""
    if raw is None or raw.format != format:
        return None
    value = clean(decode_or(raw.data, None))  # unvalidated if the upstream is another relay
    return value if isinstance(value, dict) else None


def leave_out(fields: dict[str, Any], names: Collection[str | None]) -> dict[str, Any]:
    """Return the other members that are not null."""
    return {k: v for k, v in fields.items() if k not in names and v is not None}


def encode(value: Any, *, order: Literal["deterministic"] | None = None) -> bytes:
    """Encode decoded JSON without lone surrogates."""
    try:
        return msgspec.json.encode(value, order=order)
    except UnicodeEncodeError:
        return msgspec.json.encode(clean(value), order=order)


def clean(value: Any) -> Any:
    """Return decoded JSON without lone surrogates, so that it can be encoded."""
    try:
        msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.loads(well_formed(json.dumps(value, ensure_ascii=False)))
    return value
