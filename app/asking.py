"""What upstreams are asked in one call that is answered with one document.

No stream is made of it, and nothing of it is in the log.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import structlog

from app.dialects.count import COUNTS
from app.dialects.estimate import estimate_tokens
from app.dialects.untyped import decode
from app.errors import RelayError, UpstreamError
from app.limits import Limits
from app.requests import ChatRequest
from app.retry import Breaker
from app.upstreams.client import Client
from app.upstreams.http import FAILURES, explain, fetch
from app.upstreams.routes import Upstreams
from app.upstreams.targets import Target
from app.upstreams.transport import Call

COUNT_S: Final = 10.0
"""How long an upstream may take to count: then it is estimated."""

COUNT_BYTES: Final = 64 * 1024

log = structlog.get_logger("seseragi.asking")


class Counted(NamedTuple):
    """How many tokens a request takes."""

    tokens: int
    estimated: bool


class Asking:
    """Asks upstreams for one client; his request's `headers` go with each call."""

    def __init__(
        self, upstreams: Upstreams, client: Client, *, limits: Limits, headers: Mapping[str, str]
    ) -> None:
        self._upstreams = upstreams
        self._client = client
        self._limits = limits
        self._headers = headers
        self._clock = asyncio.get_running_loop().time

    async def count(self, chat: ChatRequest) -> Counted:
        """Count the tokens of a request, by the target that would be tried first.

        Where that cannot count, or fails, they are estimated.

        Raises:
            RequestError: `model_not_found`, and what is wrong with the request by the word of
                the upstream that was to count.
        """
        target = self._first(chat.model)
        count = COUNTS.get(target.upstream.dialect)
        if count is not None:
            try:
                call = await target.build_count(chat, count)
                document = await self._fetch(target, call, timeout_s=COUNT_S, max_bytes=COUNT_BYTES)
            except RelayError as error:
                if error.code in ("upstream_invalid_request", "context_length_exceeded"):
                    raise
                name = target.upstream.name
                log.info("tokens estimated", upstream=name, code=error.code)
            else:
                tokens = count.read(document)
                if tokens is not None:
                    return Counted(tokens, estimated=False)
        return Counted(estimate_tokens(chat), estimated=True)

    def _first(self, model: str | None) -> Target:
        """Give the target that a request for a model would go to now, of equal ones the first."""
        breakers, now = self._upstreams.breakers, self._clock()

        def key(target: Target) -> tuple[bool, int]:
            breaker: Breaker = breakers.named(target.name)
            return not breaker.passes(now), target.choice.order

        return min(self._upstreams.resolve(model).targets, key=key)

    async def _fetch(self, target: Target, call: Call, *, timeout_s: float, max_bytes: int) -> Any:
        """Make a call and decode what it is answered with.

        Raises:
            UpstreamError: whatever goes wrong, in words that may be shown.
        """
        upstream = target.upstream
        call.headers.update(self._headers)  # after signing: a provider need not believe them
        call = call._replace(connect_timeout_s=self._limits.connect_timeout_s)
        try:
            async with asyncio.timeout(timeout_s):
                body = await fetch(self._client, call, upstream=upstream.name, max_bytes=max_bytes)
            return decode(body.decode())
        except RelayError as error:
            told = upstream.redact(error.message)
            raise UpstreamError(error.code, told, retry_after_s=error.retry_after_s) from None
        except TimeoutError:
            raise UpstreamError(
                "upstream_timeout", f"upstream {upstream.name!r} sent no answer for {timeout_s:g} s"
            ) from None
        except FAILURES as failure:
            raise explain(failure, upstream=upstream.name, answered=False) from None
        except ValueError:
            raise UpstreamError(
                "upstream_invalid_response",
                f"upstream {upstream.name!r} answered with what is no JSON; check its base URL",
            ) from None
