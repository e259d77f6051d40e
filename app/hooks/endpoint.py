"""Hooks behind an HTTP endpoint: a POST with the check as JSON, whose reply is the verdict."""

import httpx2
import msgspec

from ..upstreams.http import HttpClient, fetch
from ..upstreams.http_call import CallUrl, HttpCall
from .contract import Check, Verdict

MORE_BYTES = 65_536
"""Bytes of a verdict beyond six times those of the check: JSON may escape each character."""


class Endpoint:
    """Calls an endpoint; `secret` is the value of its `authorization` header."""

    def __init__(self, name: str, url: str, client: HttpClient, *, secret: str = "") -> None:
        self._name = f"hook {name}"
        self._url = CallUrl.of(httpx2.URL(url))
        self._client = client
        self._headers = {
            "accept": "application/json",
            "accept-encoding": "identity",
            "content-type": "application/json",
            "user-agent": "seseragi",
            **({"authorization": secret} if secret else {}),
        }

    async def __call__(self, check: Check) -> Verdict | None:
        """Return the verdict of the endpoint; None, or null, passes everything.

        Raises:
            Exception: it cannot be reached, or its reply is not a verdict.
        """
        content = msgspec.json.encode(check)
        call = HttpCall("POST", self._url, {**self._headers}, content)
        most = 6 * len(content) + MORE_BYTES
        body = await fetch(self._client, call, upstream=self._name, max_bytes=most)
        return msgspec.json.decode(body, type=Verdict | None)
