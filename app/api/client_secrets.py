"""`POST /v1/client_secrets`: short-lived credentials for pages, in OpenAI's form."""

import secrets
from typing import Annotated, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..errors import RequestError
from ..identity.config import Glob, Origin
from ..identity.principal import is_visible
from ..ledger.config import UNLIMITED, UsageLimits
from ..requests import Body
from .endpoints import Endpoints, HttpParts, document
from .request import principal_of

DEFAULT_S: Final = 600
"""The default lifetime of a secret, unless `client_secret_s` is less."""

MAX_MODELS: Final = 32
MAX_ORIGINS: Final = 16

EXAMPLE: Final = '{"user": "an id of yours", "expires_in_s": 600}'

Name = Annotated[str, Meta(min_length=1, max_length=128)]


class ExpiresAfter(Body, frozen=True):
    """The lifetime in the form of OpenAI's clients."""

    seconds: Annotated[float, Meta(ge=1)]
    anchor: Literal["created_at"] = "created_at"


class SecretOptions(Body, frozen=True):
    """The restrictions of a client secret."""

    user: Name | None = None
    tenant: Name | None = None
    models: Annotated[tuple[Glob, ...], Meta(max_length=MAX_MODELS)] | None = None
    origins: Annotated[tuple[Origin, ...], Meta(max_length=MAX_ORIGINS)] | None = None
    limits: UsageLimits | None = None
    expires_in_s: Annotated[float, Meta(ge=1)] | None = None
    expires_after: ExpiresAfter | None = None


class ClientSecret(msgspec.Struct):
    """A client secret, with its restrictions."""

    value: str
    expires_at: int
    user: str
    tenant: str | None
    models: tuple[str, ...] | None
    origins: tuple[str, ...] | None
    limits: UsageLimits | UnsetType = UNSET


_options = msgspec.json.Decoder(SecretOptions)


class ClientSecrets(Endpoints):
    """The endpoint that makes client secrets."""

    async def post(self, request: Request) -> Response:
        """Make a client secret for a key with the role `client_secrets`."""
        principal = principal_of(request)
        if self._tokens is None:
            raise RequestError(
                "forbidden",
                "client secrets need authentication, which is off: create a key with `seseragi key "
                "new --role client_secrets`, and set [auth] keys_file to its file",
            )
        if "client_secrets" not in principal.roles or principal.stream is not None:
            raise RequestError(
                "forbidden",
                "this credential cannot create client secrets; call from your backend, with a key "
                "that has the role 'client_secrets'",
            )
        options = await self._read_options(request, _options, example=EXAMPLE)
        for place, name in (("user", options.user), ("tenant", options.tenant)):
            if name is not None and not is_visible(name):
                raise RequestError(
                    "invalid_request",
                    f"{place}: {name[:80]!r} contains invisible characters; use visible ones",
                )
        user, secret = options.user or principal.user, ""
        if not user:
            # Without a user, all holders of secrets of this key would own each other's streams.
            secret = secrets.token_urlsafe(16)
            user = f"visitor_{secret}"
        value = self._tokens.make_client_secret(
            principal,
            user=user,
            tenant=options.tenant,
            models=options.models,
            origins=options.origins or (),
            limits=options.limits or UNLIMITED,
            secret=secret,
            expires_at=self._hub.clock.wall() + self._seconds(options),
        )
        resolved = await self._tokens.verify(value)
        assert resolved is not None  # noqa: S101
        return document(
            ClientSecret(
                value,
                int(resolved.expires_at or 0),
                user=resolved.user,
                tenant=resolved.tenant or None,
                models=resolved.models,
                origins=resolved.origins or None,
                limits=resolved.user_limits or UNSET,
            )
        )

    def _seconds(self, options: SecretOptions) -> float:
        """Return the lifetime of a secret in seconds."""
        most, place = self._http_settings.client_secret_s, "expires_in_s"
        seconds = options.expires_in_s
        if options.expires_after is not None:
            if seconds is not None:
                raise RequestError(
                    "invalid_request", "expires_in_s, expires_after: send one of them"
                )
            place, seconds = "expires_after.seconds", options.expires_after.seconds
        if seconds is None:
            return min(DEFAULT_S, most)
        if seconds > most:
            raise RequestError(
                "invalid_request",
                f"{place}: a client secret is valid for {most:g} s at most (the setting "
                f"client_secret_s), not for {seconds:g}",
            )
        return seconds


def routes(parts: HttpParts) -> list[Route]:
    return [Route("/v1/client_secrets", ClientSecrets(parts).post, methods=["POST"])]
