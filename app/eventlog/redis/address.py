"""URLs of Redis, and connections to them. No credentials in any message."""

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from redis.asyncio import Connection
from redis.asyncio.connection import parse_url
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff

from .link import REPLY_S

SENTINEL_PORT = 26379
SENTINEL_S = 0.5
"""The time limit of one Sentinel's answer."""

LEASE_S = 15.0
"""How long a process may be silent until others end its streams."""

_OURS: dict[str, Any] = {
    "protocol": 2,
    "socket_timeout": None,  # the link has one timer over a whole round trip
    "socket_connect_timeout": REPLY_S,
    "health_check_interval": 0,
    "decode_responses": False,
    "client_name": "seseragi",
    "driver_info": None,
}
_OWN = frozenset({"retry", "parser_class", "encoder_class", *_OURS}) - {"socket_connect_timeout"}
_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^:\[\]]+)(?::(\d{1,5}))?")


class RedisAddress:
    """A URL of Redis; `connect` returns a connection to it, not yet connected.

    `redis://[[USER]:PASSWORD@]HOST[:PORT][/DB]`, `rediss://` for TLS, and with `+sentinel` a
    list of Sentinels and the name of the set they watch, `HOST[:PORT],HOST/NAME[/DB]`.
    Options of redis-py may follow as a query, such as `ssl_ca_certs`; `lease_s` is ours.
    """

    def __init__(self, url: str) -> None:
        """Parse a URL.

        Raises:
            ValueError: it cannot be used; the message says why.
        """
        self.connect: Callable[[], Connection]
        self.lease_s = LEASE_S
        self._sentinel: Sentinel | None = None
        scheme, _, rest = url.partition("://")
        if scheme.endswith("+sentinel"):
            self._parse_sentinels(scheme.partition("+")[0], rest)
        else:
            self._parse_url(url)

    async def close(self) -> None:
        if self._sentinel is not None:
            for sentinel in self._sentinel.sentinels:
                await sentinel.aclose()

    def _parse_url(self, url: str) -> None:
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            raise ValueError("it is not a URL") from None
        if not host or port == 0:
            raise ValueError("it names no host")
        if not re.fullmatch(r"/?\d*", parts.path):
            raise ValueError("only the number of a database may follow the host")
        try:
            options: dict[str, Any] = dict(parse_url(url))
        except ValueError as error:
            raise ValueError(f"{error}".replace(url, "it")) from None
        kind: type[Connection] = options.pop("connection_class", Connection)
        self._take_options(options)
        self.connect = lambda: kind(**{**options, **_OURS})
        _try(self.connect)

    def _parse_sentinels(self, scheme: str, rest: str) -> None:
        place, _, query = rest.partition("?")
        who, at, place = place.rpartition("@")
        hosts, _, path = place.partition("/")
        name, _, database = path.partition("/")
        if not name or not re.fullmatch(r"\d*", database):
            raise ValueError("it must be HOST:PORT,HOST:PORT/NAME, or .../NAME/DB")
        options: dict[str, Any] = dict(parse_qsl(query))
        self._take_options(options)
        if at:
            user, _, password = who.partition(":")
            options |= {"username": unquote(user) or None, "password": unquote(password) or None}
        asking: dict[str, Any] = {
            "retry": Retry(NoBackoff(), 0),  # the next Sentinel is tried instead
            "socket_timeout": SENTINEL_S,
            "socket_connect_timeout": SENTINEL_S,
            "password": options.pop("sentinel_password", None),
            "username": options.pop("sentinel_username", None),
        }
        if scheme == "rediss":
            options["ssl"] = asking["ssl"] = True
        self._sentinel = Sentinel(  # type: ignore[no-untyped-call]
            [_host(host) for host in hosts.split(",")],
            sentinel_kwargs=asking,
            db=int(database or 0),
            **{**options, **_OURS},
        )
        pool = self._sentinel.master_for(unquote(name)).connection_pool
        self.connect = lambda: pool.connection_class(**pool.connection_kwargs)
        _try(self.connect)

    def _take_options(self, options: dict[str, Any]) -> None:
        """Remove our own options, and refuse those that cannot be set."""
        for name in sorted(_OWN & options.keys()):
            raise ValueError(f"the option {name!r} cannot be set")
        try:
            self.lease_s = float(options.pop("lease_s", LEASE_S))
        except ValueError:
            raise ValueError("lease_s must be a number of seconds") from None
        if not 0.3 <= self.lease_s <= 3600:
            raise ValueError("lease_s must be between 0.3 and 3600 seconds")


def _host(text: str) -> tuple[str, int]:
    found = _HOST.fullmatch(text)
    if found is None:
        raise ValueError("a Sentinel must be HOST or HOST:PORT")
    return found[1].strip("[]"), int(found[2] or SENTINEL_PORT)


def _try(connect: Callable[[], Connection]) -> None:
    try:
        connect()
    except TypeError as error:  # such as an unknown option
        name = re.search(r"argument '(\w+)'", str(error))
        raise ValueError(f"unknown option {name[1]!r}" if name else "it has bad options") from None
