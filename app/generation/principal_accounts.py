"""Accounts of a principal, with their limits.

The last one is the caller's: the user's, or the client secret's, else the key's; the relay's if
authentication is off.
"""

from functools import lru_cache
from typing import Final
from urllib.parse import quote

from ..identity.principal import Principal
from ..ledger.accounts import Account
from ..ledger.config import LimitsConfig
from ..ledger.limits import UNLIMITED, UsageLimits, over, smaller

REMEMBERED: Final = 4096
"""The maximum number of cached principals: about 1 KiB each."""


class PrincipalAccounts:
    """Creates accounts from the limits of the settings.

    Limits of a principal's key, issuer or client secret can only lower those of the settings:
    the lower one applies.
    """

    def __init__(self, limits: LimitsConfig) -> None:
        self.limits = limits
        self._cached = lru_cache(REMEMBERED)(self._make)

    def of(self, principal: Principal) -> tuple[Account, ...]:
        """Return the accounts that a principal's streams draw on."""
        return self._cached(
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
            accounts.append(Account.of(f"secret:{quote(secret, safe='')}", limits))
        elif user:
            accounts.append(self.user(tenant, user, user_limits))
        return tuple(accounts)

    def relay(self) -> Account:
        """Return the account of the relay."""
        return Account.of("relay", self.limits.relay)

    def tenant(self, name: str) -> Account:
        """Return the account of a tenant."""
        limits = self.limits
        own = over(limits.tenants.get(name, UNLIMITED), limits.tenant)
        return Account.of(f"tenant:{quote(name, safe='')}", own)

    def key(self, name: str, own: UsageLimits = UNLIMITED) -> Account:
        """Return the account of a key, which may have limits of its own."""
        return Account.of(f"key:{quote(name, safe='')}", smaller(self.limits.key, own))

    def user(self, tenant: str, name: str, own: UsageLimits = UNLIMITED) -> Account:
        """Return the account of a user, for whom a credential may have limits."""
        parts = ":".join(quote(part, safe="") for part in (tenant, name))
        return Account.of(f"user:{parts}", smaller(self.limits.user, own))
