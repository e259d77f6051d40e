"""The accounts that an operator is shown: those that the settings and keys name."""

from collections.abc import Iterable, Sequence
from typing import Final

from ..identity.principal import Principal
from ..ledger.accounts import Account
from ..ledger.config import LimitsConfig
from ..ledger.principals import PrincipalAccounts

MAX_ACCOUNTS: Final = 200


class AccountList:
    """Lists the relay's account, and those of tenants and keys that have a name here.

    Those with limits of their own come first. It is made again when the keys have changed.
    """

    def __init__(self, limits: LimitsConfig) -> None:
        self.limits = limits
        self._tenants = tuple(limits.tenants)
        self._accounts = PrincipalAccounts(limits)
        self._of: Sequence[Principal] | None = None
        self._listed: tuple[list[Account], int] = ([], 0)

    def known(self, keys: Sequence[Principal]) -> tuple[list[Account], int]:
        """Return the first accounts, and how many more there are."""
        if self._of is not keys:
            self._of, self._listed = keys, self._choose(keys)
        return self._listed

    def _choose(self, keys: Sequence[Principal]) -> tuple[list[Account], int]:
        tenants = list(dict.fromkeys(_named((*self._tenants, *(key.tenant for key in keys)))))
        limited = [key for key in keys if key.key_limits]
        others = [key for key in keys if not key.key_limits]
        accounts = self._accounts
        found = [accounts.relay()]
        found += [accounts.tenant(name) for name in tenants[: len(self._tenants)][:MAX_ACCOUNTS]]
        found += [accounts.key(key.key, key.key_limits) for key in limited[:MAX_ACCOUNTS]]
        found += [accounts.tenant(name) for name in tenants[len(self._tenants) :][:MAX_ACCOUNTS]]
        found += [accounts.key(key.key, key.key_limits) for key in others[:MAX_ACCOUNTS]]
        total = 1 + len(tenants) + len(keys)
        return found[:MAX_ACCOUNTS], max(0, total - MAX_ACCOUNTS)


def _named(names: Iterable[str]) -> Iterable[str]:
    return (name for name in names if name)
