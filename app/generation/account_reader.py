"""Reads the usage of accounts, for `GET /v1/usage`, `/metrics` and the admin page."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from ..eventlog.accounts import Accounts
from ..identity.principal import Principal
from ..ledger.accounts import Account, AccountState
from ..ledger.usage import AccountUsage, usage_of
from .parts import Parts
from .reservation import Reservations

MAX_ACCOUNTS: Final = 200


class AccountReader:
    """Reads accounts; `keys` returns the same tuple until a key changes."""

    def __init__(
        self, parts: Parts, accounts: Accounts, keys: Callable[[], Sequence[Principal]]
    ) -> None:
        self._parts = parts
        self._accounts = accounts
        self._keys = keys
        self._listed_for: tuple[object, object] = (None, None)
        self._listed: tuple[list[Account], int] = ([], 0)

    @property
    def accounts(self) -> Reservations:
        """The accounts of principals, with their current limits."""
        return self._parts.reservations

    async def usage(self, accounts: Sequence[Account]) -> AccountUsage:
        """Return the usage and the limits of a request that all these accounts pay for."""
        states = await self._states(accounts)
        return usage_of(accounts, states, self._parts.clock.wall())

    async def read(self, accounts: Sequence[Account]) -> list[tuple[Account, AccountState]]:
        """Return accounts with their current numbers.

        Raises:
            RelayError: the log cannot be read.
        """
        states = await self._states(accounts)
        now = self._parts.clock.wall()
        for state in states:
            state.turn_to(now)
        return list(zip(accounts, states, strict=True))

    def list_named(self) -> tuple[list[Account], int]:
        """Return the first named accounts, and the number of the others."""
        accounts, keys = self.accounts, self._keys()
        if self._listed_for[0] is not accounts or self._listed_for[1] is not keys:
            self._listed_for, self._listed = (accounts, keys), list_named(accounts, keys)
        return self._listed

    async def _states(self, accounts: Sequence[Account]) -> Sequence[AccountState]:
        return await self._accounts.read_accounts([account.name for account in accounts])


def list_named(accounts: Reservations, keys: Sequence[Principal]) -> tuple[list[Account], int]:
    """List the relay's account, and those of the tenants and keys in the settings and keys file.

    Accounts with their own limits come first; the number of omitted ones is returned too.
    """
    limited_tenants = tuple(accounts.limits.tenants)
    tenants = list(dict.fromkeys(_named((*limited_tenants, *(key.tenant for key in keys)))))
    limited = [key for key in keys if key.key_limits]
    others = [key for key in keys if not key.key_limits]
    split = len(limited_tenants)
    found = [accounts.relay()]
    found += [accounts.tenant(name) for name in tenants[:split][:MAX_ACCOUNTS]]
    found += [accounts.key(key.key, key.key_limits) for key in limited[:MAX_ACCOUNTS]]
    found += [accounts.tenant(name) for name in tenants[split:][:MAX_ACCOUNTS]]
    found += [accounts.key(key.key, key.key_limits) for key in others[:MAX_ACCOUNTS]]
    total = 1 + len(tenants) + len(keys)
    return found[:MAX_ACCOUNTS], max(0, total - MAX_ACCOUNTS)


def _named(names: Iterable[str]) -> Iterable[str]:
    return (name for name in names if name)
