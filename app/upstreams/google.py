"""Tokens for Google's cloud. Needs the extra `vertex`.

They come from Application Default Credentials: a service account's file, a user's, the
machine's metadata server, another cloud's identity. google-auth asks for them and blocks,
so it does that in a thread, once at a time however many requests wait.
"""

import asyncio
import importlib
import logging
from collections.abc import Mapping
from functools import partial
from types import ModuleType
from typing import Any

import structlog

from ..errors import UpstreamError
from .credentials import Secret

SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)

ODD_FILE = (OSError, ValueError, TypeError, AttributeError)
"""What google-auth fails with for a file that is a folder, or JSON of another kind."""

TIMEOUT_S = 10.0
"""For each call that a refresh takes; google-auth would wait for two minutes."""

log = structlog.get_logger("seseragi.credentials")


class GoogleCredentials:
    """A token that is fresh whenever a request is sent.

    google-auth calls a token stale some minutes before it expires: it is replaced then, and
    still used should that fail.

    Raises:
        UpstreamError: `upstream_auth`, google-auth is not installed.
    """

    def __init__(self) -> None:
        self._google = _load()
        self._found: Any = None
        """google-auth's credentials, once there are some."""
        self._refreshing: asyncio.Task[None] | None = None
        self._tokens: tuple[Secret, ...] = ()
        """The last two: an error may quote the one before."""
        # They write down requests, and that there is no project.
        for name in ("google.auth", "urllib3"):
            logging.getLogger(name).setLevel(logging.ERROR)

    async def headers(self, method: str, url: str, body: bytes) -> Mapping[str, str]:
        """Return the headers that authorise one request.

        Raises:
            UpstreamError: `upstream_auth`, there is no token.
        """
        states = self._google["credentials"].TokenState
        if self._state() is not states.FRESH:
            if self._refreshing is None or self._refreshing.done():
                self._refreshing = asyncio.create_task(asyncio.to_thread(self._refresh))
            # A request that goes away leaves the refresh to the others.
            await asyncio.shield(self._refreshing)
        if self._state() in (None, states.INVALID):
            raise UpstreamError(
                "upstream_auth",
                "the relay has no Google credentials that work; "
                "see GOOGLE_APPLICATION_CREDENTIALS, and the log for the reason",
            )
        headers: dict[str, str] = {}
        self._found.apply(headers)
        return {name.lower(): value for name, value in headers.items()}

    def redact(self, text: str) -> str:
        """Take the tokens out of a text."""
        for token in self._tokens:
            text = token.redact(text)
        return text

    def _state(self) -> Any:
        return None if self._found is None else self._found.token_state

    def _refresh(self) -> None:
        """Fetch a token; a failure is logged and kept in the state."""
        request = partial(self._google["requests"].Request(), timeout=TIMEOUT_S)
        try:
            if self._found is None:
                # With scopes it would ask Google for the project's name, which is not needed.
                found, _ = self._google["auth"].default(request=request)
                self._found = self._google["credentials"].with_scopes_if_required(found, SCOPES)
            self._found.refresh(request)
        except (self._google["exceptions"].GoogleAuthError, *ODD_FILE) as error:
            told = self.redact(str(error)[:300])
            log.warning("no Google token", reason=type(error).__name__, error=told)
            if self._state() is not self._google["credentials"].TokenState.STALE:
                self._found = None  # a file that was replaced is read again
            return
        if self._found.token not in {token.reveal() for token in self._tokens}:
            self._tokens = (Secret(self._found.token), *self._tokens)[:2]


def _load() -> dict[str, ModuleType]:
    """Import the parts of google-auth that are used."""
    names = ("auth", "auth.credentials", "auth.exceptions", "auth.transport.requests")
    try:
        return {
            name.rpartition(".")[2]: importlib.import_module(f"google.{name}") for name in names
        }
    except ImportError:
        raise UpstreamError(
            "upstream_auth",
            'Google credentials need google-auth; in the checkout: pip install ".[vertex]"',
        ) from None
