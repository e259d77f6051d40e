"""The function of a host application that names the caller of each request."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from decimal import Decimal
from typing import Annotated, Any, Final

import msgspec
import structlog
from msgspec import Meta

from ..errors import RequestError, ServiceError
from ..ledger.limits import UNLIMITED, UsageLimits
from .claims import MAX_MODELS
from .config import Glob, Owner
from .principal import Principal, is_visible

IDENTIFY_S: Final = 10.0
"""How long the function may take for one request, in seconds."""

log = structlog.get_logger("seseragi.identity")


class InvalidCaller(ValueError):
    """A field of a `Caller` cannot be used; the text names it and quotes no value."""


class Caller(msgspec.Struct, frozen=True):
    """The caller of a request, who owns the streams that it starts.

    `user` is the application's own id of the user, the same for each of their requests. An
    `admin` may read, stop and delete the streams of everybody, and use the operator's page.
    """

    user: Owner
    tenant: Owner = ""
    """Users of two tenants are never the same."""
    admin: bool = False
    models: Annotated[Sequence[Glob], Meta(max_length=MAX_MODELS)] | None = None
    """Globs of the models, by the names that clients use; None for all."""
    limits: UsageLimits = UNLIMITED
    """Of these and `[limits.user]` of the settings the smaller count."""

    def __post_init__(self) -> None:
        """Check the limits.

        Raises:
            InvalidCaller: one of them cannot be used.
        """
        if self.limits is UNLIMITED:
            return
        try:
            msgspec.convert(_as_builtins(self.limits), UsageLimits)
        except (TypeError, msgspec.ValidationError) as error:
            raise InvalidCaller(f"limits: {error}") from None


Identify = Callable[[MutableMapping[str, Any]], Awaitable[Caller | str | None]]
"""Gets the ASGI scope of a request; returns its caller, the id of a user, or None for a 401."""


class IdentifyHook:
    """Awaits the function once for each request, and checks what it returns."""

    def __init__(self, identify: Identify) -> None:
        self._identify = identify
        name = getattr(identify, "__qualname__", None) or type(identify).__qualname__
        self._name = f"{identify.__module__}.{name}"

    async def authenticate(self, scope: MutableMapping[str, Any]) -> Principal:
        """Return the caller of a request.

        Raises:
            RequestError: `unauthenticated`, the function returns None.
            ServiceError: `overloaded`, it takes too long; `internal`, it raises, or returns
                something else.
        """
        try:
            async with asyncio.timeout(IDENTIFY_S) as timeout:
                caller = await self._identify(scope)
        except InvalidCaller as error:
            raise self._failed(str(error)) from None
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


def _read(found: object) -> Principal:
    """Check what the function has returned.

    Raises:
        TypeError, msgspec.ValidationError: it cannot be used; the text quotes none of it.
    """
    if not isinstance(found, Caller | str):
        raise TypeError(f"it returned {type(found).__name__}")
    given = Caller(found) if isinstance(found, str) else found
    caller = msgspec.convert(_as_builtins(given), Caller)
    if not is_visible(caller.user):
        raise TypeError("user has to be of visible characters, at least one")
    if caller.tenant and not is_visible(caller.tenant):
        raise TypeError("tenant has to be of visible characters")
    return Principal(
        tenant=caller.tenant,
        user=caller.user,
        models=None if caller.models is None else tuple(caller.models),
        roles=frozenset(("admin",) if caller.admin else ()),
        user_limits=caller.limits,
    )


def _as_builtins(given: object) -> Any:
    """Return a struct as plain values, with amounts of money that are decimals."""
    return msgspec.to_builtins(given, builtin_types=(Decimal,))


def _place_of(error: Exception) -> str:
    """Return the file and line that raised an error."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
