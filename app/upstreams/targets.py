"""Targets: a model of an upstream, and the builders of its HTTP calls."""

from collections.abc import Mapping
from functools import cached_property, lru_cache
from typing import Any, ClassVar, NamedTuple
from urllib.parse import quote

import httpx2
import msgspec

from ..dialects.reading.refusal_wordings import read_refusal
from ..dialects.upstream_format import MODEL, Quirks, UpstreamFormat
from ..dialects.upstream_formats import UPSTREAM_FORMATS
from ..dialects.writing.token_counts import CountCall
from ..errors import RelayError, RequestError
from ..events import Notice
from ..policies.capacity import TargetLimits
from ..policies.deadlines import Limits
from ..policies.retry import TargetPolicy
from ..requests import ChatRequest
from .endpoints import Door, Upstream
from .http_call import CallUrl, HttpCall
from .refusals import Change, advise, find_changes, fit, left_out_notices, list_names
from .request_builder import RequestBuilder, TargetRequest
from .transforms import NO_CHANGES, RequestChanges


class Refit(NamedTuple):
    """A refused call without what its provider names; see `Target.refit`."""

    call: HttpCall
    changes: list[Change]
    left_out: list[str]


class Target(msgspec.Struct, frozen=True, dict=True):
    """A model of an upstream that may answer."""

    replays: ClassVar[bool] = False
    """Whether its answer is a recorded stream."""

    upstream: Upstream
    model: str
    policy: TargetPolicy = TargetPolicy()
    timeouts: Mapping[str, float] = {}
    """The fields of `Timeouts` that differ here."""
    changes: RequestChanges | None = None
    """The changes of requests by its route."""
    capacity: TargetLimits | None = None
    """Its limits in the settings; None without any."""

    @cached_property
    def dialect(self) -> UpstreamFormat:
        return UPSTREAM_FORMATS[self.upstream.dialect]

    def for_request(self, chat: ChatRequest) -> "Target":
        """Return the target at the API of its provider that a request takes."""
        at = next((at for door, at in self._doors if door.is_for(chat, self.model)), None)
        return at or self

    @cached_property
    def _doors(self) -> list[tuple[Door, "Target"]]:
        replace = msgspec.structs.replace
        return [(door, replace(self, upstream=door.upstream)) for door in self.upstream.doors]

    @property
    def quirks(self) -> Quirks:
        return self.upstream.quirks or self.dialect.quirks()

    @cached_property
    def name(self) -> str:
        """`upstream/model`, independent of public names."""
        return f"{self.upstream.name}/{self.model}"

    def limits(self, limits: Limits) -> Limits:
        """Return the limits with this target's own timeouts."""
        return msgspec.structs.replace(limits, **self.timeouts) if self.timeouts else limits

    def silence_s(self, limits: Limits, *, last: bool) -> float:
        """Return the timeout of its first event, which is shorter if another target follows."""
        own = self.timeouts.get("first_event_timeout_s")
        if own is not None:
            return own
        silence_s = limits.first_event_timeout_s
        return silence_s if last else min(silence_s, limits.fallback_after_s)

    def build_request(self, chat: ChatRequest, *, last: bool = True) -> TargetRequest:
        """Build the upstream's request for a chat request.

        Only the `last` target left may ignore parts of the request.

        Raises:
            RequestError: the dialect cannot express the request.
        """
        return self._request_builder.build(chat, last=last)

    def continues(self, chat: ChatRequest) -> bool:
        """Return whether the model goes on at the end of a last turn of the assistant."""
        return self.dialect.continues(chat, model=self.model, quirks=self.quirks)

    @property
    def can_be_read_again(self) -> bool:
        """Whether its provider stores answers, which can be read by their ids."""
        return self.upstream.resume and self.dialect.resume is not None

    async def build_call(self, request: TargetRequest, **fields: Any) -> HttpCall:
        """Build the streaming call of a request, with further fields.

        Raises:
            RequestError: `model_not_found`, the model's name does not fit into a path.
            UpstreamError: `upstream_auth`, there are no credentials.
        """
        content = msgspec.json.encode(request.body)
        call = await build(self.upstream, "POST", self._url, content=content)
        call.headers.update(request.headers)
        return msgspec.structs.replace(call, **fields)

    async def build_stored(self, method: str, answer: str, query: str = "") -> HttpCall:
        """Build a call about an answer that the provider stores, by its id and a path or query.

        Raises:
            RequestError: `model_not_found`, the model's name does not fit into a path.
            UpstreamError: `upstream_auth`, there are no credentials.
        """
        url = f"{self._url}/{quote(answer, safe='')}{query}"
        return await build(self.upstream, method, url)

    async def build_count(self, chat: ChatRequest, count: CountCall) -> HttpCall:
        """Build the call that counts the tokens of a chat request.

        Raises:
            RequestError: the dialect cannot express the request.
            UpstreamError: `upstream_auth`, there are no credentials.
        """
        request = self.build_request(chat)
        body = count.render(request.body, model=self.model, base_url=self.upstream.base_url)
        call = await self.build_json(count.path, body)
        call.headers.update(request.headers)
        return call

    async def refit(self, call: HttpCall, error: RelayError, last: Refit | None) -> Refit:
        """Return a refused call without what its error names, to be sent once more.

        Raises:
            RelayError: the error, with a remedy if one is known: it names nothing that only shapes
                the answer, or `last` was sent already.
        """
        refusal = read_refusal(error)
        if refusal is None:
            raise error
        upstream, body = self.upstream, msgspec.json.decode(call.content)
        fixed = {name.lower() for name in upstream.headers}  # by the settings
        headers = {name: value for name, value in call.headers.items() if name not in fixed}
        changes = find_changes(refusal, body, headers)
        if last is not None and not list_names(last.changes) & list_names(changes):
            upstream.refusals.learn(self.model, last.changes)  # now it refuses something else
        # What may quote a client would be learnt for all clients.
        quotes = (msgspec.json.encode(quote)[1:-1] for quote in refusal.quotes)
        if last is not None or any(quote in call.content for quote in quotes):
            changes = []
        fitted = fit(changes, body, headers)
        if not fitted.changes:
            error.message += advise(refusal, body, upstream=upstream.name)
            raise error
        content = msgspec.json.encode(fitted.body)
        signed = await upstream.credentials.headers(call.method, call.url.text, content)
        kept = {name: call.headers[name] for name in fixed & call.headers.keys()}
        headers = {**kept, **fitted.headers, **signed}
        headers.pop("idempotency-key", None)  # a provider may answer it with the same error
        call = msgspec.structs.replace(call, content=content, headers=headers)
        return Refit(call, fitted.changes, fitted.left_out)

    def learn(self, refit: Refit) -> list[Notice]:
        """Record what the model was sent without, as its provider has taken that."""
        self.upstream.refusals.learn(self.model, refit.changes)
        return left_out_notices(self.upstream.name, refit.left_out)

    @cached_property
    def _url(self) -> str:
        """The URL of its streaming calls."""
        url = f"{self.upstream.base_url}/{self.dialect.path}"
        return url.replace(MODEL, _as_segment(self.model))

    @cached_property
    def _request_builder(self) -> RequestBuilder:
        return RequestBuilder(self.upstream, self.model, self.changes or NO_CHANGES)

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Refuse provider options that the upstream does not accept from clients.

        Raises:
            RequestError: `invalid_request`, naming the first.
        """
        self._request_builder.check_options(options)

    def list_refused(self, fields: Mapping[str, Any]) -> list[str]:
        """List the provider fields that the upstream does not accept from clients."""
        return sorted(self._request_builder.list_refused(fields))

    async def build_json(self, path: str, body: Mapping[str, Any]) -> HttpCall:
        """Build a call with a JSON body and a JSON reply; see `build_post`."""
        call = await self.build_post(path, msgspec.json.encode(body))
        call.headers["accept"] = "application/json"
        return call

    async def build_post(self, path: str, content: bytes) -> HttpCall:
        """Build a call at a path of this dialect that may contain `MODEL`.

        Raises:
            RequestError: `model_not_found`, the model's name does not fit into a path.
            UpstreamError: `upstream_auth`, there are no credentials.
        """
        url = f"{self.upstream.base_url}/{path}".replace(MODEL, _as_segment(self.model))
        return await build(self.upstream, "POST", url, content=content)


def _as_segment(model: str) -> str:
    """Quote a model's name as one segment of a path."""
    if model in (".", ".."):
        raise RequestError("model_not_found", f"unknown model {model!r}")
    return quote(model, safe="@")  # unquoted in the SDKs: versions of Vertex AI


async def build(upstream: Upstream, method: str, url: str, *, content: bytes = b"") -> HttpCall:
    """Build a call to an upstream, with its credentials.

    Raises:
        UpstreamError: `upstream_auth`, there are no credentials.
    """
    parsed = _parse_url(url, *upstream.query.items())
    return HttpCall(
        method,
        parsed,
        content=content,
        redact=upstream.redact,
        headers={
            "accept": "text/event-stream, application/json",
            # Several providers compress event streams when allowed to, which delays tokens.
            "accept-encoding": "identity",
            "user-agent": "seseragi",
            **({} if upstream.keepalive else {"connection": "close"}),
            **({"content-type": "application/json"} if content else {}),
            **UPSTREAM_FORMATS[upstream.dialect].headers,
            **upstream.headers,
            **await upstream.credentials.headers(method, parsed.text, content),
        },
    )


@lru_cache(1024)
def _parse_url(url: str, *query: tuple[str, str]) -> CallUrl:
    # Cached, since it takes 30 us. There are few URLs: one per model.
    parsed = httpx2.URL(url)
    return CallUrl.of(parsed.copy_merge_params(dict(query)) if query else parsed)
