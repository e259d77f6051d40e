"""OAuth tokens for Google Cloud. Needs the extra `vertex`.

They come from Application Default Credentials: a service account's file, a user's, the
machine's metadata server, workload identity. google-auth blocks while it requests a token,
so that runs in a thread, once for all waiting requests.
"""

import asyncio
import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

import structlog

from ..errors import UpstreamError
from .credentials import load_modules
from .redaction import Redactor

SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)

INVALID_FILE_ERRORS = (OSError, ValueError, TypeError, AttributeError)
"""The errors of google-auth for a file that is a directory, or other JSON."""

TIMEOUT_S = 10.0
"""For each call of a refresh; google-auth's default is two minutes."""

log = structlog.get_logger("seseragi.credentials")


class GoogleCredentials:
    """A token that is fresh for every request.

    google-auth considers a token stale some minutes before it expires: then it is renewed, and
    still used if that fails.

    Raises:
        UpstreamError: `upstream_auth`, google-auth is not installed.
    """

    def __init__(self) -> None:
        self._google = load_modules(
            "google",
            ("auth", "auth.credentials", "auth.exceptions", "auth.transport.requests"),
            needs='Google credentials need google-auth; in the checkout: pip install ".[vertex]"',
        )
        self._found: Any = None
        """google-auth's credentials, once found."""
        self._refreshing: asyncio.Task[None] | None = None
        self._redactor = Redactor(max_secrets=2)
        # They log requests, and warn about a missing project.
        for name in ("google.auth", "urllib3"):
            logging.getLogger(name).setLevel(logging.ERROR)

    async def headers(self, method: str, url: str, body: bytes) -> Mapping[str, str]:
        """Return the headers that authorize one request.

        Raises:
            UpstreamError: `upstream_auth`, there is no token.
        """
        states = self._google["credentials"].TokenState
        if self._state() is not states.FRESH:
            if self._refreshing is None or self._refreshing.done():
                self._refreshing = asyncio.create_task(asyncio.to_thread(self._refresh))
            # A cancelled request must not cancel the refresh for others.
            await asyncio.shield(self._refreshing)
        if self._state() in (None, states.INVALID):
            raise UpstreamError(
                "upstream_auth",
                "no Google credentials; "
                "see GOOGLE_APPLICATION_CREDENTIALS, and the log for the reason",
            )
        headers: dict[str, str] = {}
        self._found.apply(headers)
        return {name.lower(): value for name, value in headers.items()}

    def redact(self, text: str) -> str:
        """Return the text with every token replaced."""
        return self._redactor.redact(text)

    def _state(self) -> Any:
        return None if self._found is None else self._found.token_state

    def _refresh(self) -> None:
        """Fetch a token; log a failure, which leaves the state stale or invalid."""
        request = partial(self._google["requests"].Request(), timeout=TIMEOUT_S)
        try:
            if self._found is None:
                # Without scopes google-auth would also request the project's name, which is
                # unused.
                found, _ = self._google["auth"].default(request=request)
                self._found = self._google["credentials"].with_scopes_if_required(found, SCOPES)
            self._found.refresh(request)
        except (self._google["exceptions"].GoogleAuthError, *INVALID_FILE_ERRORS) as error:
            message = self.redact(str(error))[:300]
            log.warning("no Google token", reason=type(error).__name__, error=message)
            if self._state() is not self._google["credentials"].TokenState.STALE:
                self._found = None  # read a replaced file again
            return
        self._redactor.add(self._found.token)
