"""Requests to Amazon, signed with Signature Version 4. Needs the extra `bedrock`.

The keys come from where Amazon's own tools look: the environment, the shared files, the
container, the machine. botocore looks there, which may wait for a server, so it does that
in a thread, of its own, so that nothing else waits for it; it remembers keys and renews those
that expire.
"""

import asyncio
import importlib
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

import structlog

from ..errors import UpstreamError
from .credentials import Secret

SERVICE = "bedrock"

log = structlog.get_logger("seseragi.credentials")


class AwsCredentials:
    """Signs requests to one region, with the keys of a profile or of the usual place.

    `open_session` opens what looks for keys, by default a session of botocore.

    Raises:
        UpstreamError: `upstream_auth`, botocore is not installed.
    """

    def __init__(
        self,
        region: str,
        profile: str | None = None,
        *,
        open_session: Callable[..., Any] | None = None,
    ) -> None:
        self._region = region
        self._profile = profile
        self._botocore = _load()
        self._open_session = open_session or self._botocore["session"].Session
        self._found: Any = None
        """botocore's credentials, once there are some."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="aws-keys")
        self._secrets: tuple[Secret, ...] = ()
        """Those of the last two sets of keys: an error may quote the one before."""
        # At the level of debugging botocore writes down what it signs, the token included.
        logging.getLogger("botocore").setLevel(logging.WARNING)

    async def headers(self, method: str, url: str, body: bytes) -> Mapping[str, str]:
        """Return the headers that sign one request, all that are signed but the host.

        Raises:
            UpstreamError: `upstream_auth`, there are no keys.
        """
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._sign, method, url, body)

    def redact(self, text: str) -> str:
        """Take every secret out of a text."""
        for secret in self._secrets:
            text = secret.redact(text)
        return text

    def _sign(self, method: str, url: str, body: bytes) -> dict[str, str]:
        keys = self._keys()
        sent = {"content-type": "application/json"} if body else {}
        request = self._botocore["awsrequest"].AWSRequest(method, url, headers=sent, data=body)
        self._botocore["auth"].SigV4Auth(keys, SERVICE, self._region).add_auth(request)
        return {name.lower(): str(value) for name, value in request.headers.items()}

    def _keys(self) -> Any:
        """Return the current keys."""
        exceptions = self._botocore["exceptions"]
        try:
            if self._found is None:
                session = self._open_session(profile=self._profile)
                self._found = session.get_credentials()
            keys = self._found and self._found.get_frozen_credentials()
        # The last two where a program gives the keys: there is none, or it gives no JSON.
        except (exceptions.BotoCoreError, exceptions.ClientError, OSError, ValueError) as error:
            told = self.redact(str(error)[:300])  # to the log only: it names files and addresses
            log.warning("no AWS keys", reason=type(error).__name__, error=told)
            keys = None
        if not (keys and keys.access_key and keys.secret_key):
            raise UpstreamError(
                "upstream_auth",
                "the relay has no AWS credentials that work; "
                "give it some in the environment, a profile or a role",
            )
        self._remember(keys)
        return keys

    def _remember(self, keys: Any) -> None:
        values = filter(None, (keys.secret_key, keys.token, keys.access_key))
        now = tuple(Secret(value) for value in values)
        known = {secret.reveal() for secret in self._secrets}
        if not {secret.reveal() for secret in now} <= known:
            self._secrets = (*now, *self._secrets)[:6]


def _load() -> dict[str, ModuleType]:
    """Import the parts of botocore that are used."""
    names = ("auth", "awsrequest", "exceptions", "session")
    try:
        return {name: importlib.import_module(f"botocore.{name}") for name in names}
    except ImportError:
        raise UpstreamError(
            "upstream_auth",
            'AWS credentials need botocore; in the checkout: pip install ".[bedrock]"',
        ) from None
