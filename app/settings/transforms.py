"""Changes of requests from the tables of upstreams, routes and targets."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..dialects.writing.output_ceiling import CHOICES, LENGTHS
from ..errors import suggest
from ..requests import ChatBody
from ..upstreams.transforms import DEFAULTS, RequestChanges, Transform
from .convert import SettingsError, convert

OWN_FIELDS: Final = frozenset(("model", "stream", "messages", "input", "contents"))
"""The fields of a body that the relay needs as they are."""

_PATH: Final = re.compile(r"[^.\s]+(?:\.[^.\s]+){0,9}")


def build_transform(
    rename: Mapping[str, str], drop: Sequence[str], values: Mapping[str, Any], place: str
) -> Transform | None:
    """Build the changes of finished bodies; None without any.

    Raises:
        SettingsError: a field cannot be changed.
    """
    for old, new in rename.items():
        _check_path(old, f"{place}.rename")
        _check_path(new, f"{place}.rename.{old}")
    for path in drop:
        _check_path(path, f"{place}.drop")
    for path in values:
        _check_path(path, f"{place}.set")
    if not (rename or drop or values):
        return None
    return Transform(dict(rename), tuple(drop), dict(values))


def _check_path(path: str, place: str) -> None:
    if not _PATH.fullmatch(path):
        raise SettingsError(f"{place}: {path[:80]!r} is not a field; separate steps by one dot")
    if path.partition(".")[0] in OWN_FIELDS:
        raise SettingsError(f"{place}: {path!r} cannot be changed: the relay sets it")
    name = path.rpartition(".")[2].casefold().replace("_", "").replace("-", "")
    if name in LENGTHS or name in CHOICES:
        raise SettingsError(
            f"{place}: {path!r} cannot be changed, since it determines what is reserved; set "
            "max_tokens in the defaults of a route, or max_output_tokens of the upstream"
        )


def build_changes(
    defaults: Mapping[str, Any], *, system_prefix: str, cache_prompt: bool, place: str
) -> RequestChanges | None:
    """Build the changes of a route's requests; None without any.

    Raises:
        SettingsError: a default is unknown or invalid.
    """
    if not (defaults or system_prefix or cache_prompt):
        return None
    for name in defaults:
        if name not in DEFAULTS:
            raise SettingsError(
                f"{place}.defaults: {name[:80]!r} cannot have a default"
                f"{suggest(name, DEFAULTS)}; fields that can: {', '.join(sorted(DEFAULTS))}"
            )
    message = {"role": "user", "content": "x"}
    chat = convert({**defaults, "messages": [message]}, ChatBody, f"{place}.defaults")
    return RequestChanges(
        {name: getattr(chat, name) for name in defaults},
        system_prefix=system_prefix.strip(),
        cache_prompt=cache_prompt,
    )
