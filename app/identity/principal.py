"""Who asks, and whose streams are whose. Pure values."""

from urllib.parse import quote

import msgspec


class Principal(msgspec.Struct, frozen=True):
    """Who makes a request: a user of a tenant, by a key of a name; "" where there is none."""

    tenant: str = ""
    user: str = ""
    key: str = ""

    @property
    def owner(self) -> str:
        """Whose the streams are that it starts: its user's, else its key's; "" without identity.

        So a user's other keys, and a new one in place of an old, reach the same streams.
        """
        who = ("user", self.user) if self.user else ("key", self.key)
        if not (self.tenant or who[1]):
            return ""
        return ":".join(quote(part, safe="") for part in (self.tenant, *who))


ANYONE = Principal()
"""Who asks where there is no identity."""
