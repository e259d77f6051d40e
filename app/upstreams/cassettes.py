"""Cassettes as targets: a recorded stream replaces a provider."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import httpx2

from ..cassettes.player import encode_options
from ..cassettes.replay_options import CassetteOptions, name_of, parse_options
from ..dialects.native import NAME as NATIVE
from ..dialects.native.upstream.format import FORMAT
from ..dialects.upstream_format import UpstreamFormat
from ..errors import RequestError
from ..policies.retry import TargetPolicy
from ..requests import ChatRequest
from .endpoints import Upstream
from .http_call import CallUrl, HttpCall
from .request_builder import TargetRequest
from .targets import Target

CASSETTE: Final = Upstream("cassette", "http://cassette.invalid", dialect=NATIVE)
"""The upstream of all cassettes: `cassette/NAME`, with options as in `cassette/NAME?speed=0`."""

PREFIX: Final = f"{CASSETTE.name}/"

_URL: Final = CallUrl.of(httpx2.URL(CASSETTE.base_url))  # a reserved host name: RFC 6761, 6.4


class CassetteTarget(Target, frozen=True):
    """One replay; it has one attempt, since another would not differ."""

    replays: ClassVar[bool] = True
    dialect: ClassVar[UpstreamFormat] = FORMAT

    options: CassetteOptions = CassetteOptions("")

    @classmethod
    def of(cls, options: CassetteOptions) -> "CassetteTarget":
        """Return the target that replays a cassette."""
        return cls(CASSETTE, options.name, TargetPolicy(attempts=1), options=options)

    def build_request(self, chat: ChatRequest, *, last: bool = True) -> TargetRequest:
        """Return an empty request: the recorded answer does not depend on it."""
        return TargetRequest({})

    async def build_call(self, request: TargetRequest, **fields: Any) -> HttpCall:
        """Build the call that starts the replay, with further fields."""
        content = encode_options(self.options)
        return HttpCall("POST", _URL, {}, content=content, **fields)

    async def build_json(self, path: str, body: Mapping[str, Any]) -> HttpCall:
        """Raise for any other call."""
        raise RequestError("invalid_request", "model: cassettes only support streams")

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Accept all options: none has an effect."""

    def list_refused(self, fields: Mapping[str, Any]) -> list[str]:
        """Return nothing: no option has an effect."""
        return []


def find_cassette(model: str) -> CassetteTarget | None:
    """Return the target for a model name that refers to a cassette; None for any other name.

    Raises:
        RequestError: `model_not_found`, `invalid_request`: see `parse_options`.
    """
    if not model.startswith(PREFIX):
        return None
    return CassetteTarget.of(parse_options(model[len(PREFIX) :]))


def public_name(model: str) -> str:
    """Return a model's name without replay options."""
    return name_of(model) if model.startswith(PREFIX) else model
