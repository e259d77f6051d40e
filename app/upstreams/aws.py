"""AWS Signature Version 4 for Bedrock. Needs the extra `bedrock`.

botocore finds the credentials as Amazon's own tools do: environment, shared files, container,
machine. That may block on a server, so it runs in a dedicated thread. botocore caches
credentials and renews expiring ones.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import structlog

from ..errors import UpstreamError
from .credentials import load_modules
from .redaction import Redactor

SERVICE = "bedrock"

log = structlog.get_logger("seseragi.credentials")


class AwsCredentials:
    """Signs requests to one region, with the credentials of a profile or the default ones.

    `open_session` creates the session that finds credentials, by default botocore's.

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
        self._botocore = load_modules(
            "botocore",
            ("auth", "awsrequest", "exceptions", "session"),
            needs='AWS credentials need botocore; in the checkout: pip install ".[bedrock]"',
        )
        self._open_session = open_session or self._botocore["session"].Session
        self._found: Any = None
        """botocore's credentials, once found."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="aws-keys")
        self._redactor = Redactor(max_secrets=6)
        """Of the last two sets of credentials."""
        # At debug level botocore logs what it signs, including the token.
        logging.getLogger("botocore").setLevel(logging.WARNING)

    async def headers(self, method: str, url: str, body: bytes) -> Mapping[str, str]:
        """Return the headers that sign one request: all signed headers except the host.

        Raises:
            UpstreamError: `upstream_auth`, there are no credentials.
        """
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._sign, method, url, body)

    def redact(self, text: str) -> str:
        """Return the text with every secret replaced."""
        return self._redactor.redact(text)

    def _sign(self, method: str, url: str, body: bytes) -> dict[str, str]:
        keys = self._keys()
        headers = {"content-type": "application/json"} if body else {}
        request = self._botocore["awsrequest"].AWSRequest(method, url, headers=headers, data=body)
        self._botocore["auth"].SigV4Auth(keys, SERVICE, self._region).add_auth(request)
        return {name.lower(): str(value) for name, value in request.headers.items()}

    def _keys(self) -> Any:
        """Return the current credentials."""
        exceptions = self._botocore["exceptions"]
        try:
            if self._found is None:
                session = self._open_session(profile=self._profile)
                self._found = session.get_credentials()
            keys = self._found and self._found.get_frozen_credentials()
        # The last two come from `credential_process`: no such program, or output that is
        # not JSON.
        except (exceptions.BotoCoreError, exceptions.ClientError, OSError, ValueError) as error:
            # Only to the log: it contains files and addresses.
            message = self.redact(str(error))[:300]
            log.warning("no AWS keys", reason=type(error).__name__, error=message)
            keys = None
        if not (keys and keys.access_key and keys.secret_key):
            raise UpstreamError(
                "upstream_auth",
                "no AWS credentials; configure the relay's environment, a profile or a role",
            )
        self._redactor.add(*filter(None, (keys.secret_key, keys.token, keys.access_key)))
        return keys
