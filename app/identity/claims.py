"""Validation of an issuer's JWT claims: audience, times, user, tenant, models. Pure.

The signature is verified before. Errors may quote claims: their reader has the token.
"""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from ..errors import RequestError
from ..ledger.config import UsageLimits, smaller
from .config import Claim, IssuerConfig
from .principal import Principal, is_visible

MAX_VALUE = 256
"""Characters of a user's or a tenant's name, which is part of stream names."""

MAX_MODELS = 100
LAST_TIME = 253_402_300_799
"""The end of the year 9999. Times in milliseconds, a common mistake, are beyond it."""


def refusal(reason: str) -> RequestError:
    """Return the error for a rejected token, with a reason for its owner."""
    return RequestError("unauthenticated", f"The token cannot be used: {reason}")


def quoted(value: object) -> str:
    """Quote a value of a token, truncated."""
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:99]}…"


def read_claims(
    claims: Mapping[str, Any], config: IssuerConfig, *, now: float, reserved: Collection[str] = ()
) -> Principal:
    """Return the principal of a token, if it is valid now and for this relay.

    `reserved` are tenants of other issuers, which this one may not name.

    Raises:
        RequestError: `unauthenticated`, with the reason.
    """
    expires_at = _check_times(claims, now, config.leeway_s)
    _check_audience(claims, config)
    user = _read_name(claims, config.user_claim)
    if user is None:
        raise refusal(f"it has no claim {_named(config.user_claim)}, which names the user")
    tenant = None if config.tenant_claim is None else _read_name(claims, config.tenant_claim)
    if tenant in reserved:
        raise refusal(f"its tenant {quoted(tenant)} is another issuer's")
    return Principal(
        tenant=config.all_users if tenant is None else tenant,
        user=user,
        models=_read_models(claims, config),
        origins=config.origins,
        user_limits=_read_limits(claims, config),
        expires_at=expires_at,
    )


def _check_times(claims: Mapping[str, Any], now: float, leeway_s: float) -> float:
    """Check `exp`, `nbf` and `iat`; return the expiry in unix seconds.

    It includes the leeway, so that it is comparable with the relay's clock.
    """
    expires_at = _read_time(claims, "exp")
    if expires_at is None:
        raise refusal("it has no claim 'exp', so it would never expire")
    if now >= expires_at + leeway_s:
        raise refusal(f"it expired at {_format_time(expires_at)}; get a new one")
    for name in ("nbf", "iat"):
        start = _read_time(claims, name)
        if start is not None and now < start - leeway_s:
            raise refusal(
                f"it is not valid before {_format_time(start)} ({name!r}); compare the clocks"
            )
    return expires_at + leeway_s


def _read_time(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LAST_TIME:
        raise refusal(f"its claim {name!r} is not a time in seconds since 1970")
    return float(value)


def _format_time(time: float) -> str:
    return f"{datetime.fromtimestamp(time, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _check_audience(claims: Mapping[str, Any], config: IssuerConfig) -> None:
    name, value = _named(config.audience_claim), _look_up(claims, config.audience_claim)
    if value is None:
        raise refusal(f"it has no claim {name} (the audience)")
    audiences = [value] if isinstance(value, str) else value
    if not isinstance(audiences, list) or not all(isinstance(one, str) for one in audiences):
        raise refusal(f"its claim {name} must be a string or a list of strings")
    own = (config.audience,) if isinstance(config.audience, str) else config.audience
    if not set(own) & set(audiences):
        raise refusal(f"it is for {quoted(value)} ({name}) and not for this relay")


def _look_up(claims: Mapping[str, Any], claim: Claim) -> Any:
    """Return the value of a claim; None if absent."""
    value: Any = claims
    for name in (claim,) if isinstance(claim, str) else claim:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _named(claim: Claim) -> str:
    return repr(claim if isinstance(claim, str) else ".".join(claim))


def _read_name(claims: Mapping[str, Any], claim: Claim) -> str | None:
    """Return the name of a user or tenant; None if absent.

    Empty names are rejected, since all users would share them, and fractions, which may
    lose digits.
    """
    value = _look_up(claims, claim)
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**128:
        return str(value)
    if not isinstance(value, str) or not is_visible(value) or len(value) > MAX_VALUE:
        raise refusal(
            f"its claim {_named(claim)} must be a string of 1 to {MAX_VALUE} visible characters, "
            "or an integer"
        )
    return value


def _read_limits(claims: Mapping[str, Any], config: IssuerConfig) -> UsageLimits:
    """Return a user's limits; an invalid claim is rejected rather than treated as unlimited."""
    value = None if config.limits_claim is None else _look_up(claims, config.limits_claim)
    if value is None:
        return config.limits
    try:
        return smaller(config.limits, msgspec.convert(value, UsageLimits))
    except msgspec.ValidationError as error:
        name = _named(config.limits_claim or "")
        message = str(error)[:MAX_VALUE]
        raise refusal(f"its claim {name} has limits that cannot be used: {message}") from None


def _read_models(claims: Mapping[str, Any], config: IssuerConfig) -> tuple[str, ...] | None:
    if config.models_claim is None:
        return config.models
    value = _look_up(claims, config.models_claim)
    if value is None:
        return config.models or ()
    globs = value.split() if isinstance(value, str) else value
    if (
        not isinstance(globs, list)
        or len(globs) > MAX_MODELS
        or not all(isinstance(glob, str) and 0 < len(glob) <= MAX_VALUE for glob in globs)
    ):
        raise refusal(
            f"its claim {_named(config.models_claim)} must be a list of up to {MAX_MODELS} names "
            "of models, or a string with spaces between them"
        )
    return tuple(globs)
