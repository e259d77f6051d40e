"""`POST /v1/streams/{id}/share`: read-only links to a stream."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..dialects.client_formats import CLIENT_FORMATS
from ..errors import RequestError
from ..eventlog import LogState
from ..requests import Body
from .endpoints import Endpoints, HttpParts, document
from .request import principal_of, root_of

DEFAULT_S: Final = 86_400
"""The default lifetime of a link, unless its stream is deleted before."""

EXAMPLE: Final = '{"expires_in_s": 3600}'


class ShareOptions(Body, frozen=True):
    """The options of a link."""

    expires_in_s: Annotated[float, Meta(ge=1, le=31_536_000)] | None = None
    format: str | None = None


class ShareLink(msgspec.Struct):
    """A link by which others can read a stream."""

    url: str
    page_url: str
    token: str | None
    expires_at: int
    limited_by: str


_options = msgspec.json.Decoder(ShareOptions)


class ShareLinks(Endpoints):
    """The endpoint that makes share links."""

    async def post(self, request: Request) -> Response:
        """Make a link to a stream of the caller's."""
        principal = principal_of(request)
        if principal.stream is not None:
            raise RequestError(
                "forbidden",
                "share links cannot create share links; use the credential that started the stream",
            )
        stream = await self._streams_of(request).get(request.path_params["stream"])
        if stream.state.owner != principal.owner:  # an admin, whose link would not reach it
            raise RequestError("forbidden", "only the owner of a stream can share it")
        options = await self._read_options(request, _options, example=EXAMPLE)
        if options.format is not None and options.format not in CLIENT_FORMATS:
            known = ", ".join(map(repr, CLIENT_FORMATS))
            raise RequestError(
                "invalid_request", f"format: unknown format {options.format[:40]!r}; use {known}"
            )
        now = self._hub.clock.wall()
        expires_at, limited_by = now + (options.expires_in_s or DEFAULT_S), "expires_in_s"
        readable_until = self._readable_until(stream.state, now)
        if readable_until < expires_at:
            expires_at, limited_by = readable_until, "retention_s"
        token = None
        if principal.owner and self._tokens is not None:
            latest = self._tokens.latest(principal, expires_at)
            if latest < expires_at:
                expires_at, limited_by = latest, "key"
            token = self._tokens.make_stream_token(
                principal, stream.id, may="watch", expires_at=expires_at
            )
        query = {"format": options.format, "token": token}
        parameters = "&".join(f"{name}={value}" for name, value in query.items() if value)
        root = root_of(request.scope)
        link = ShareLink(
            url=f"{root}/v1/streams/{stream.id}/events" + (f"?{parameters}" if parameters else ""),
            # Browsers do not send a fragment, so it is in no log.
            page_url=f"{root}/#watch={stream.id}" + (f"&token={token}" if token else ""),
            token=token,
            expires_at=int(expires_at),
            limited_by=limited_by,
        )
        return document(link)

    def _readable_until(self, state: LogState, now: float) -> float:
        """Return the latest time at which a stream can be read."""
        ends_at = state.started_at + self._http_settings.longest_s
        if state.ended:
            ends_at = state.ended_at or now
        return ends_at + self._http_settings.retention_s


def routes(parts: HttpParts) -> list[Route]:
    links = ShareLinks(parts)
    return [Route("/v1/streams/{stream}/share", links.post, methods=["POST"])]
