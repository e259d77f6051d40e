"""Authentication by a function of the host application."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from decimal import Decimal
from typing import Annotated, Final

import msgspec
import structlog
from msgspec import Meta
from starlette.types import Scope

from ..errors import RequestError, ServiceError
from ..ledger.config import UNLIMITED, UsageLimits
from .claims import MAX_MODELS
from .config import Glob, Owner
from .principal import Principal, is_visible

IDENTIFY_S: Final = 10.0
"""Timeout of the function per request, in seconds."""

log = structlog.get_logger("seseragi.identity")


class Caller(msgspec.Struct, frozen=True):
    """The caller of a request, who owns the streams that it starts.

    `user` is the application's own id of the user, the same for all their requests. An `admin`
    may read, stop and delete the streams of all users, and use the operator's page.
    """

    user: Owner
    tenant: Owner = ""
    """Users of different tenants are always different."""
    admin: bool = False
    models: Annotated[Sequence[Glob], Meta(max_length=MAX_MODELS)] | None = None
    """Globs of the models, by public name; None for all."""
    limits: UsageLimits = UNLIMITED
    """The lower of these and `[limits.user]` of the settings applies."""


Identify = Callable[[Scope], Awaitable[Caller | str | None]]
"""Receives the ASGI scope of a request; returns its caller, a user id, or None for a 401."""


class IdentifyHook:
    """Calls the function once per request, and validates its result."""

    def __init__(self, identify: Identify) -> None:
        self._identify = identify
        name = getattr(identify, "__qualname__", None) or type(identify).__qualname__
        self._name = f"{identify.__module__}.{name}"

    async def authenticate(self, scope: Scope) -> Principal:
        """Return the principal of a request.

        Raises:
            RequestError: `unauthenticated`, the function returned None.
            ServiceError: `overloaded`, it timed out; `internal`, it raised, or returned
                something else.
        """
        try:
            async with asyncio.timeout(IDENTIFY_S) as timeout:
                caller = await self._identify(scope)
        except Exception as error:
            if timeout.expired() and isinstance(error, TimeoutError):
                log.error("identify took too long", hook=self._name, limit_s=IDENTIFY_S)
                raise ServiceError(
                    "overloaded", "the application did not identify the caller in time; try again"
                ) from None
            # Its message may quote a cookie or a token.
            raise self._failed(f"{type(error).__name__} at {_place_of(error)}") from None
        if caller is None:
            raise RequestError(
                "unauthenticated", "the application did not identify the caller: sign in to it"
            )
        try:
            return _read(caller)
        except (TypeError, msgspec.ValidationError) as error:
            raise self._failed(f"it must return a user's id, a Caller or None: {error}") from None

    def _failed(self, why: str) -> ServiceError:
        log.error("identify failed", hook=self._name, why=why)
        return ServiceError(
            "internal", "the application could not identify the caller; its log has the reason"
        )


def _read(result: object) -> Principal:
    """Validate the function's result.

    Raises:
        TypeError, msgspec.ValidationError: it is invalid; the message does not quote it.
    """
    if not isinstance(result, Caller | str):
        raise TypeError(f"it returned {type(result).__name__}")
    caller = Caller(result) if isinstance(result, str) else result
    fields = msgspec.to_builtins(caller, builtin_types=(Decimal,))  # such as of an amount of money
    caller = msgspec.convert(fields, Caller)
    if not is_visible(caller.user):
        raise TypeError("user must have visible characters only, at least one")
    if caller.tenant and not is_visible(caller.tenant):
        raise TypeError("tenant must have visible characters only")
    return Principal(
        tenant=caller.tenant,
        user=caller.user,
        models=None if caller.models is None else tuple(caller.models),
        roles=frozenset(("admin",) if caller.admin else ()),
        user_limits=caller.limits,
    )


def _place_of(error: Exception) -> str:
    """Return the file and line that raised an error."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
