"""How a cassette is to be replayed: the name of a model, `NAME?speed=0&cut_at=5`. No I/O.

The options stand in the name since every client can say one, in every dialect.
"""

import difflib
import re
from typing import Annotated, Final
from urllib.parse import parse_qsl

import msgspec
from msgspec import Meta

from ..errors import CODES, RequestError

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
"""Of a cassette: its file without the `.jsonl`. No slash, and no dot at its beginning."""

ERRORS: Final = tuple(
    code
    for code in CODES
    if code.startswith("upstream_") or code in ("context_length_exceeded", "content_filtered")
)
"""What `error` may say: what an upstream fails with."""

MAX_OPTIONS: Final = 500
"""Characters."""

Place = Annotated[int, Meta(ge=1, le=10_000_000)]


class Playback(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One replay. Places are numbers of events, as the native ids have them, from 1."""

    name: str
    speed: Annotated[float, Meta(ge=0, le=1000)] = 1
    """How many times as fast as it was; 0: without any wait."""
    cut_at: Place | None = None
    """After this event the connection breaks."""
    stall_at: Place | None = None
    """After this event nothing comes."""
    stall_s: Annotated[float, Meta(ge=0, le=3600)] | None = None
    """For so long; None: for ever."""
    error_at: Place | None = None
    """After this event the upstream fails."""
    error: str = "upstream_unavailable"
    """With this code."""
    seed: Annotated[int, Meta(ge=0, le=2**53)] | None = None
    """How the waits and the reads vary; None: as they were."""


OPTIONS: Final = Playback.__struct_fields__[1:]


def name_of(model: str) -> str:
    """Return the cassette that a model's name means, without its options."""
    return model.partition("?")[0]


def parse_playback(model: str) -> Playback:
    """Read what stands behind `cassette/`.

    Raises:
        RequestError: `model_not_found`, no cassette can be called so; `invalid_request`, with
            the option that cannot be used.
    """
    name, _, query = model.partition("?")
    if not NAME.fullmatch(name):
        raise RequestError(
            "model_not_found",
            f"unknown model 'cassette/{name[:100]}': the name of a cassette is made of letters, "
            "digits, '.', '_' and '-', 100 at most, and begins with a letter or a digit",
        )
    try:
        pairs = parse_qsl(
            query[: MAX_OPTIONS + 1], keep_blank_values=True, strict_parsing=True, max_num_fields=20
        )
    except ValueError:
        pairs = [] if not query else [("", "")]
    if len(query) > MAX_OPTIONS or any(not option for option, _ in pairs):
        raise _refuse(f"'?{query[:80]}' is no list of options such as '?speed=0&cut_at=5'")
    said = dict(pairs)
    if len(said) < len(pairs):
        raise _refuse("an option is there twice; send it once")
    for option, value in said.items():
        if option not in OPTIONS:
            near = difflib.get_close_matches(option, OPTIONS, 1)
            hint = f" (do you mean {near[0]!r}?)" if near else ""
            raise _refuse(f"unknown option {option[:40]!r}{hint}; options: {', '.join(OPTIONS)}")
        if value == "null":  # which would be taken for an option that is not there
            raise _refuse(f"{option}: it has no value; leave it out")
    try:
        playback = msgspec.convert({"name": name, **said}, Playback, strict=False)
    except msgspec.ValidationError as error:
        reason, _, place = str(error).rpartition(" - at `$.")
        option = place.rstrip("`")
        # Each value is a text, which says more than the name of its type.
        reason = reason.replace(" | null", "").replace("got `str`", f"got {said[option][:40]!r}")
        raise _refuse(f"{option}: {reason[:1].lower()}{reason[1:]}") from None
    if playback.error not in ERRORS:
        raise _refuse(f"error: use one of {', '.join(ERRORS)}")
    if playback.stall_s is not None and playback.stall_at is None:
        raise _refuse("stall_s: it needs a stall_at, the event after which nothing comes")
    return playback


def _refuse(reason: str) -> RequestError:
    return RequestError("invalid_request", f"model: {reason}")
