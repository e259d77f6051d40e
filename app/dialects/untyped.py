"""JSON that a provider sent, before it is known what it is: decode it, look into it.

The look-ups give an empty value of the type asked for where the provider sent another
type, null, or nothing; a parser needs no other check. Strings may hold lone UTF-16
surrogates, which no event may: `words` and `clean` replace them.
"""

import json
import math
from typing import Any

import msgspec

from app.dialects.surrogates import well_formed


def decode(text: str) -> Any:
    """Decode a JSON document.

    Raises:
        ValueError: it is none, or it is nested too deeply.
    """
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        pass
    # msgspec refuses what the standard library takes: half a surrogate pair, which hosts
    # send when they cut an emoji in two, and the NaN and Infinity of Python servers.
    try:
        return json.loads(text, parse_float=_finite, parse_constant=_finite)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None


def _finite(text: str) -> float | None:
    number = float(text)
    return number if math.isfinite(number) else None


def mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def mappings(value: object) -> list[dict[str, Any]]:
    """The objects of a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def string(value: object) -> str:
    return value if isinstance(value, str) else ""


def words(value: object) -> str | None:
    """A string for a field of an event that may be absent: well-formed, not empty."""
    return well_formed(value) if isinstance(value, str) and value else None


def count(value: object) -> int | None:
    """A number of tokens or characters: a whole number that is not negative."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53:
        return value
    return None


def clean(value: Any) -> Any:
    """Give `value`, decoded JSON, such that it can be encoded again."""
    try:
        msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.loads(well_formed(json.dumps(value, ensure_ascii=False)))
    return value
