"""The tables of hooks."""

import importlib
import inspect
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from ..upstreams.routes import Route
from .convert import SettingsError, convert_rows, suggest
from .upstreams import Text, check_url
from .values import HookConfig

BUILT_IN = ("redact",)
"""Each is a module of `app.hooks`, with a function of the same name."""


class HookTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[[hook]]`: a function or an endpoint that checks texts."""

    call: Text | None = None
    url: Text | None = None
    key_env: Text | None = None
    name: Text | None = None
    on: Annotated[tuple[Literal["request", "answer"], ...], Meta(min_length=1)] = (
        "request",
        "answer",
    )
    hold: Annotated[int, Meta(ge=1, le=10_000)] | Literal["sentence"] = 200
    timeout_s: Annotated[float, Meta(gt=0, le=60)] = 2.0
    on_failure: Literal["closed", "open"] = "closed"
    routes: tuple[str, ...] | None = None


def build_hooks(
    rows: Any, routes: Sequence[Route], environ: Mapping[str, str], where: str
) -> tuple[HookConfig, ...]:
    """Build the hooks, in order.

    Raises:
        SettingsError: a table, a key or a value is invalid.
    """
    found = []
    known = [route.name for route in routes]
    for number, table in enumerate(convert_rows(rows, HookTable, f"{where}hook", label="name"), 1):
        place = f"{where}hook[{number}]"
        if (table.call is None) == (table.url is None):
            raise SettingsError(f"{place}: set call or url, one of both")
        for name in table.routes or ():
            if name not in known:
                raise SettingsError(
                    f"{place}.routes: there is no route {name[:80]!r}{suggest(name, known)}"
                )
        found.append(
            HookConfig(
                name=table.name or table.call or f"{number}",
                function=None if table.call is None else _find(table.call, f"{place}.call"),
                url="" if table.url is None else check_url(table.url, f"{place}.url"),
                secret=_find_secret(table, environ, place),
                stages=frozenset(table.on),
                routes=None if table.routes is None else frozenset(table.routes),
                hold=0 if table.hold == "sentence" else table.hold,
                timeout_s=table.timeout_s,
                fails_open=table.on_failure == "open",
            )
        )
    return tuple(found)


def _find_secret(table: HookTable, environ: Mapping[str, str], place: str) -> str:
    """Return the value of the `authorization` header; "" for none."""
    if table.key_env is None:
        return ""
    if table.url is None:
        raise SettingsError(f"{place}.key_env: only a hook with a url takes a key")
    if table.key_env not in environ:
        raise SettingsError(f"{place}.key_env: the variable is not set")
    return f"Bearer {environ[table.key_env]}"


def _import(module: str) -> ModuleType:
    """Import a module, also from the working directory, which the command has not in its path."""
    sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(module)
    finally:
        sys.path.pop(0)


def _find(path: str, place: str) -> Any:
    """Import a function; a name without a module is a built-in one."""
    module, _, name = path.partition(":")
    if path in BUILT_IN:
        module, name = f"{__name__.partition('.')[0]}.hooks.{path}", path
    if not name:
        raise SettingsError(
            f"{place}: {path[:80]!r} is not of the form module:function; "
            f"built-in: {', '.join(BUILT_IN)}"
        )
    try:
        function = getattr(_import(module), name)
    except (ImportError, AttributeError) as error:
        raise SettingsError(f"{place}: {path[:80]!r} cannot be imported: {error}") from None
    if not inspect.iscoroutinefunction(function):
        raise SettingsError(f"{place}: {path[:80]!r} is not an `async def` function")
    return function
