"""The relay as an ASGI app with a lifespan.

`app` is what ASGI servers serve. `create_app` returns one of its own settings, to be mounted.
"""

import os
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import structlog
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from .api import problems
from .api.request import path_of
from .dialects.client_formats import client_format_of
from .errors import ServiceError
from .eventlog import LogUnusable
from .identity.hook import Identify
from .relay import Relay
from .settings import Settings, SettingsError, load_settings
from .settings.access import settle_hook, settle_identity
from .telemetry.logs import LineCounter, configure_logs, hide_tokens_in_access_logs


class App:
    """The relay as an ASGI app.

    Its lifespan opens and closes the relay. ASGI servers run it; an app that mounts this one has
    to run it itself: `Starlette(..., lifespan=relay.lifespan)`.
    """

    def __init__(
        self, settings: Settings | None = None, *, identify: Identify | None = None
    ) -> None:
        if settings is not None and identify is not None:
            settle_hook(settings)  # to raise here rather than on open
        self._settings = settings
        self._identify = identify
        self._served: ASGIApp | None = None

    @asynccontextmanager
    async def lifespan(self, _: object = None) -> AsyncIterator[None]:
        """Open the relay, and close it at the end.

        Without settings they are read from the environment and `seseragi.toml`.

        Raises:
            SettingsError: they cannot be used.
            LogUnusable: the log cannot be opened.
        """
        settings = self._settings or load_settings(os.environ)
        start = settle_identity(settings) if self._identify is None else None
        settings = settle_hook(settings) if start is None else start.settings
        lines = LineCounter()
        if not structlog.is_configured():  # else the host application has configured logs
            lines = configure_logs(
                format=settings.log_format,
                level=settings.log_level,
                libraries=False,
            )
        hide_tokens_in_access_logs()
        async with Relay.open(settings, identify=self._identify, lines=lines) as relay:
            self._served = relay.app
            if start is not None:
                start.announce(None)
            try:
                yield
            finally:
                self._served = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _run_lifespan(self.lifespan(), receive, send)
        elif self._served is None:
            error = ServiceError(
                "internal",
                "the relay is not open; run its lifespan in the app that mounts it, as in "
                "Starlette(..., lifespan=relay.lifespan)",
            )
            response = problems.failure(
                client_format_of(path_of(scope), scope["headers"]), error, Request(scope)
            )
            await response(scope, receive, send)
        else:
            await self._served(scope, receive, send)


def create_app(settings: Settings | None = None, *, identify: Identify | None = None) -> App:
    """Build the relay as an ASGI app, to be served or to be mounted.

    Without settings they are read from the environment and `seseragi.toml` when it is opened.
    `identify` names the caller of each request, in place of credentials in the settings: it gets
    the ASGI scope, and returns the id of a user, a `Caller`, or None for a 401.

    Raises:
        SettingsError: the settings cannot be used with `identify`.
    """
    return App(settings, identify=identify)


async def _run_lifespan(
    lifespan: AbstractAsyncContextManager[None], receive: Receive, send: Send
) -> None:
    """Run ASGI's lifespan protocol; errors of the settings become one line."""
    await receive()
    try:
        async with lifespan:
            await send({"type": "lifespan.startup.complete"})
            await receive()
    except (SettingsError, LogUnusable) as error:
        await send({"type": "lifespan.startup.failed", "message": f"seseragi: {error}"})
        return
    await send({"type": "lifespan.shutdown.complete"})


app = App()
"""For `uvicorn app.main:app`, and every other ASGI server."""
