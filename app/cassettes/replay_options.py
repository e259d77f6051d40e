"""Replay options in a model name, `NAME?speed=0&cut_at=5`. No I/O.

They are in the name because every client can set that, in every dialect.
"""

import re
from typing import Annotated, Final
from urllib.parse import parse_qsl

import msgspec
from msgspec import Meta

from ..errors import CODES, RequestError

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
"""The name of a cassette: its file without `.jsonl`. No slash, and no leading dot."""

ERRORS: Final = tuple(
    code
    for code in CODES
    if code.startswith("upstream_") or code in ("context_length_exceeded", "content_filtered")
)
"""The values of `error`: errors of an upstream."""

MAX_OPTIONS: Final = 500
"""Characters."""

EventNumber = Annotated[int, Meta(ge=1, le=10_000_000)]


class CassetteOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One replay. The `_at` options are event numbers, as in the native ids, from 1."""

    name: str
    speed: Annotated[float, Meta(ge=0, le=1000)] = 1
    """Relative to the recording; 0: without delays."""
    cut_at: EventNumber | None = None
    """The connection breaks after this event."""
    stall_at: EventNumber | None = None
    """The stream stalls after this event."""
    stall_s: Annotated[float, Meta(ge=0, le=3600)] | None = None
    """For that long; None: forever."""
    error_at: EventNumber | None = None
    """The upstream fails after this event."""
    error: str = "upstream_unavailable"
    """With this code."""


OPTIONS: Final = CassetteOptions.__struct_fields__[1:]


def name_of(model: str) -> str:
    """Return the cassette in a model name, without options."""
    return model.partition("?")[0]


def parse_options(model: str) -> CassetteOptions:
    """Parse a model name after `cassette/`.

    Raises:
        RequestError: `model_not_found`, no cassette can have this name; `invalid_request`, with
            the invalid option.
    """
    name, _, query = model.partition("?")
    if not NAME.fullmatch(name):
        raise RequestError(
            "model_not_found",
            f"unknown model 'cassette/{name[:100]}': the name of a cassette is made of letters, "
            "digits, '.', '_' and '-', 100 at most, and begins with a letter or a digit",
        )
    try:
        pairs = parse_qsl(query[:MAX_OPTIONS], keep_blank_values=True, strict_parsing=bool(query))
    except ValueError:
        pairs = []
    if len(query) > MAX_OPTIONS or bool(query) != bool(pairs):
        raise _error(f"'?{query[:80]}' is not a list of options such as '?speed=0&cut_at=5'")
    given = dict(pairs)
    if len(given) < len(pairs):
        raise _error("an option occurs twice; send it once")
    if unknown := given.keys() - set(OPTIONS):
        raise _error(f"unknown option {min(unknown)[:40]!r}; options: {', '.join(OPTIONS)}")
    try:
        options = msgspec.convert({"name": name, **given}, CassetteOptions, strict=False)
    except msgspec.ValidationError as error:
        reason, _, option = str(error).removesuffix("`").rpartition(" - at `$.")
        reason = reason.partition(", got")[0].replace(" | null", "")  # all values are strings
        raise _error(f"{option}={given[option][:40]}: {reason}") from None
    if options.error not in ERRORS:
        raise _error(f"error: use one of {', '.join(ERRORS)}")
    if options.stall_s is not None and options.stall_at is None:
        raise _error("stall_s: requires stall_at")
    return options


def _error(reason: str) -> RequestError:
    return RequestError("invalid_request", f"model: {reason}")
