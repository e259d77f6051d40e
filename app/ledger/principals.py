"""The accounts of whoever asks, each with its limits.

The last one is that of who asks: the user's, or the client secret's, else the key's; the relay's
where nobody says who he is.
"""

from functools import lru_cache
from typing import Final
from urllib.parse import quote, unquote

from ..identity.principal import Principal
from .accounts import Account
from .config import LimitsConfig
from .limits import UNLIMITED, UsageLimits, over, smaller
from .money import to_nano

REMEMBERED: Final = 4096
"""How many principals' accounts are remembered: about 1 KiB each."""


class PrincipalAccounts:
    """Makes accounts by the limits of the settings.

    What a principal brings, of its key, issuer or client secret, only narrows those of the
    settings: of each limit the smaller counts.
    """

    def __init__(self, limits: LimitsConfig) -> None:
        self.limits = limits
        self._made = lru_cache(REMEMBERED)(self._make)

    def of(self, principal: Principal) -> tuple[Account, ...]:
        """Return the accounts that a stream of a principal takes from."""
        return self._made(
            principal.tenant,
            principal.key,
            principal.user,
            principal.secret,
            principal.key_limits,
            principal.user_limits,
        )

    def _make(
        self,
        tenant: str,
        key: str,
        user: str,
        secret: str,
        key_limits: UsageLimits,
        user_limits: UsageLimits,
    ) -> tuple[Account, ...]:
        accounts = [self.relay()]
        if tenant:
            accounts.append(self.tenant(tenant))
        if key:
            accounts.append(self.key(key, key_limits))
        if secret:
            limits = smaller(self.limits.user, user_limits)
            accounts.append(_account(f"secret:{quote(secret, safe='')}", limits))
        elif user:
            accounts.append(self.user(tenant, user, user_limits))
        return tuple(accounts)

    def relay(self) -> Account:
        """Return the account of the whole relay."""
        return _account("relay", self.limits.relay)

    def tenant(self, name: str) -> Account:
        """Return the account of a tenant."""
        limits = self.limits
        own = over(limits.tenants.get(name, UNLIMITED), limits.tenant)
        return _account(f"tenant:{quote(name, safe='')}", own)

    def key(self, name: str, own: UsageLimits = UNLIMITED) -> Account:
        """Return the account of a key that may have limits of its own."""
        return _account(f"key:{quote(name, safe='')}", smaller(self.limits.key, own))

    def user(self, tenant: str, name: str, own: UsageLimits = UNLIMITED) -> Account:
        """Return the account of a user, to whom a credential may have set limits."""
        parts = ":".join(quote(part, safe="") for part in (tenant, name))
        return _account(f"user:{parts}", smaller(self.limits.user, own))


def describe(account: Account) -> dict[str, str]:
    """Return the kind of an account, and whose it is, by its name."""
    kind, *parts = map(unquote, account.name.split(":"))
    match kind, parts:
        case "user", [tenant, user]:
            return {"kind": kind, "tenant": tenant, "user": user}
        case (("tenant" | "key"), [name]):
            return {"kind": kind, kind: name}
        case _:  # which secret it is says nothing to anybody
            return {"kind": kind}


def _account(name: str, limits: UsageLimits) -> Account:
    return Account(
        name,
        limits.requests_per_minute,
        limits.tokens_per_minute,
        limits.streams,
        None if limits.usd_per_day is None else to_nano(limits.usd_per_day),
        None if limits.usd_per_month is None else to_nano(limits.usd_per_month),
        strict=bool(limits.strict),
    )
