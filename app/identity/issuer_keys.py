"""Cached keys of one identity provider, fetched on demand and retained during its outages.

At most one fetch runs at a time. Requests wait for it if there are no keys yet, or none were
used for so long that a key may have been revoked; otherwise it runs in the background.
"""

import asyncio
from collections.abc import Callable

import structlog

from ..errors import ServiceError
from .config import IssuerConfig, is_loopback, why_unusable
from .jwks import Fetcher, JwksUnusable, KeySet, SigningKey, parse_jwks, parse_object

REFRESH_S = 600
"""Seconds after which keys in use are fetched again in the background."""

IDLE_S = 1200
"""Seconds without a fetch after which requests wait for the next one, since a key may have been
revoked meanwhile. More than `REFRESH_S`, so that no request waits under steady use.
"""

AGAIN_S = 60
"""The minimum seconds between fetches."""

FIRST_AGAIN_S = 5
"""The same after a failure while there are no keys; doubled each time, up to `AGAIN_S`."""

FETCH_S = 5
"""Timeout of a fetch in seconds, including discovery."""

Keys = tuple[SigningKey, ...]

log = structlog.get_logger("seseragi.issuers")


class IssuerKeys:
    """The current keys of one issuer; `clock` returns monotonic seconds."""

    def __init__(
        self, config: IssuerConfig, fetcher: Fetcher, *, clock: Callable[[], float]
    ) -> None:
        self._issuer = config.issuer
        self._url = config.jwks_url
        self._found_url: str | None = None
        self._fetcher = fetcher
        self._clock = clock
        self._keys: Keys = ()
        self._started = self._due = float("-inf")
        self._failures = 0
        """Since the last successful fetch."""
        self._idle = False
        """Whether requests wait for the running fetch, although there are keys."""
        self._task: asyncio.Task[None] | None = None

    async def get(self) -> Keys:
        """Return the keys; fetch them first if there are none, or they are too old.

        Raises:
            ServiceError: `overloaded`, there are none, and they cannot be fetched.
        """
        now = self._clock()
        if now >= self._due:
            if self._task is None:
                self._idle = now >= self._started + IDLE_S
            task = self._start()
            if self._idle or not self._keys:
                await asyncio.wait([task])
        if not self._keys:
            raise self._unavailable()
        return self._keys

    async def get_other(self, keys: Keys) -> Keys:
        """Return the keys after a refetch, unless that just happened.

        For a signature that matches none of `keys`.

        Raises:
            ServiceError: `overloaded`, the last fetch failed, so that the signature is
                undecided.
        """
        if self._keys is not keys:
            return self._keys
        if self._task is not None or self._clock() >= self._started + AGAIN_S:
            await asyncio.wait([self._start()])
        if self._failures and self._keys is keys:
            raise self._unavailable()
        return self._keys

    async def aclose(self) -> None:
        """Cancel a running fetch."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _start(self) -> asyncio.Task[None]:
        if self._task is None:
            self._started = self._clock()
            self._task = asyncio.create_task(self._refresh())
        return self._task

    async def _refresh(self) -> None:
        """Fetch the keys; retain the current ones after a failure."""
        self._failures += 1  # until it succeeds
        try:
            async with asyncio.timeout(FETCH_S):
                found = await self._fetch()
        except (JwksUnusable, TimeoutError) as error:
            reason = str(error) or f"it took longer than {FETCH_S} s"
            self._found_url = None
            log.warning(
                "keys of an issuer not fetched",
                issuer=self._issuer,
                reason=reason,
                kept=len(self._keys),
            )
        else:
            self._failures = 0
            if found.keys != self._keys:  # an equal set would invalidate cached verdicts
                self._keys = found.keys
                log.info(
                    "keys of an issuer fetched",
                    issuer=self._issuer,
                    keys=len(found.keys),
                    skipped=found.skipped,
                )
        finally:
            self._task = None
            self._due = self._started + self._pause()

    def _pause(self) -> float:
        if not self._failures:
            return REFRESH_S
        if self._keys:
            return AGAIN_S
        return min(FIRST_AGAIN_S * 2.0 ** min(self._failures - 1, 10), AGAIN_S)

    async def _fetch(self) -> KeySet:
        url = self._url or self._found_url
        if url is None:
            url = self._found_url = await self._discover()
        return parse_jwks(await self._fetcher.fetch(url))

    async def _discover(self) -> str:
        """Return the issuer's `jwks_uri` (OpenID Connect Discovery 1.0)."""
        body = await self._fetcher.fetch(
            f"{self._issuer.rstrip('/')}/.well-known/openid-configuration"
        )
        document = parse_object(body)
        if document.get("issuer") != self._issuer:
            raise JwksUnusable("its openid-configuration is for another issuer")
        url = document.get("jwks_uri")
        if not isinstance(url, str) or len(url) > 2000 or why_unusable(url) is not None:
            raise JwksUnusable("its openid-configuration has no valid jwks_uri")
        # Otherwise it could direct requests to services on this machine.
        if is_loopback(url) and not is_loopback(self._issuer):
            raise JwksUnusable("the jwks_uri of its openid-configuration is on this machine")
        return url

    def _unavailable(self) -> ServiceError:
        wait = max(1.0, (self._due if not self._keys else self._started + AGAIN_S) - self._clock())
        return ServiceError(
            "overloaded",
            f"the keys of the issuer {self._issuer!r} cannot be fetched now; try again",
            retry_after_s=float(round(wait)),
        )
