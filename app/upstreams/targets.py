"""An upstream and one of its models, and the request that asks it."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final
from urllib.parse import quote

import httpx2
import msgspec

from ..deadlines import Limits
from ..dialects.upstream_format import MODEL, PassedBody, Passthrough, Quirks, UpstreamFormat
from ..dialects.upstream_formats import UPSTREAM_FORMATS
from ..dialects.writing.cache_marks import is_marked
from ..dialects.writing.token_counts import Count
from ..errors import RequestError
from ..events import Notice
from ..requests import ChatRequest, ClientBody, TranslatedRequest
from ..retry import TargetPolicy
from .endpoints import Upstream
from .extras import Fitted, fit_extras, refuse
from .media import find_foreign
from .options import options_of, own_of
from .transport import Call

_ANYWAY: Final[Mapping[str, object]] = {
    **{"n": 1, "logprobs": False, "top_logprobs": 0, "metadata": {}},
    **{"frequency_penalty": 0, "presence_penalty": 0, "parallel_tool_calls": True},
    **{"store": False, "truncation": "disabled", "verbosity": "medium"},
}
"""What holds of a field whether it is said or not."""


_MAX_NAMED: Final = 20
"""Names of fields in a notice."""


class Target(msgspec.Struct, frozen=True):
    """One place that may answer."""

    upstream: Upstream
    model: str
    choice: TargetPolicy = TargetPolicy()
    timeouts: Mapping[str, float] = {}
    """Those of `Timeouts` that are others here."""

    @property
    def dialect(self) -> UpstreamFormat:
        return UPSTREAM_FORMATS[self.upstream.dialect]

    @property
    def quirks(self) -> Quirks:
        return self.upstream.quirks or self.dialect.quirks()

    @property
    def name(self) -> str:
        """`upstream/model`, whatever clients call it."""
        return f"{self.upstream.name}/{self.model}"

    def limits(self, limits: Limits) -> Limits:
        """Return the limits with what is otherwise here."""
        return msgspec.structs.replace(limits, **self.timeouts) if self.timeouts else limits

    def silence_s(self, limits: Limits, *, last: bool) -> float:
        """Return how long its first event may take; less if there is another to ask."""
        own = self.timeouts.get("first_event_timeout_s")
        if own is not None:
            return own
        silence_s = limits.first_event_timeout_s
        return silence_s if last else min(silence_s, limits.fallback_after_s)

    def list_ignored(self, chat: ChatRequest) -> list[Notice]:
        """Return what the request says that the dialect has no place for, or would be refused."""
        client_body, name = _client_body(chat), self.upstream.name
        unknown: set[str] = set()
        more: list[str] = []
        if client_body and client_body.client_format in self.dialect.passthrough:
            untaken: Sequence[str] = self._list_dropped(client_body)
        else:
            unknown |= {*_list_left_out(chat)}
            unknown |= {*(_list_lost(client_body, chat) if client_body else ())}
            unknown -= self._host(chat).keys()
            chat, extras, untaken = self._fit(chat)
            unknown |= {*extras}
            more += self.dialect.list_changes(chat, model=self.model, quirks=self.quirks)
            if client_body and client_body.foreign:
                more.append(f"has nothing for {', '.join(client_body.foreign[:10])}: left out")
            if client_body and client_body.shortened:
                kinds = ", ".join(map(repr, client_body.shortened))
                more.append(f"knows no block {kinds} of {client_body.client_format}: sent as text")
        ignored = self.dialect.ignored | {*self.quirks.ignored}
        unknown |= {field for field in ignored if is_said(chat, field)}
        if untaken:
            more.insert(0, f"is not set to take {_list(untaken)} from clients: left out")
        if unknown:
            more.append(f"knows no {_list(sorted(unknown))}: left out")
        return [Notice("field_ignored", f"upstream {name!r} {notice}") for notice in more]

    async def build_call(
        self, chat: ChatRequest, *, connect_timeout_s: float, last: bool = True
    ) -> Call:
        """Build the streaming call that answers a chat request.

        Unless it is the `last` target that can be asked, it has to do all that is asked for.

        Raises:
            RequestError: the dialect cannot say what the request does.
            UpstreamError: `upstream_auth`, there are no credentials to be had.
        """
        body, headers = self._render(chat, last=last)
        url = f"{self.upstream.base_url}/{self.dialect.path}"
        call = await build(
            self.upstream,
            "POST",
            url.replace(MODEL, _as_segment(self.model)),
            content=msgspec.json.encode(body),
        )
        _add_headers(call, headers)
        return call._replace(connect_timeout_s=connect_timeout_s)

    async def build_count(self, chat: ChatRequest, count: Count) -> Call:
        """Build the call that counts the tokens of a chat request.

        Raises:
            RequestError: the dialect cannot say what the request does.
            UpstreamError: `upstream_auth`, there are no credentials to be had.
        """
        body, headers = self._render(chat, last=True)
        asked = count.render(body, model=self.model, base_url=self.upstream.base_url)
        call = await self.build_json(count.path, asked)
        _add_headers(call, headers)
        return call

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Refuse provider options that the upstream is not set to take from clients.

        Raises:
            RequestError: `invalid_request`, with the first of them.
        """
        refused = self._list_refused(options)
        if refused:
            raise self._refuse(f"provider_options.{next(iter(refused.values()))}")

    def list_refused(self, fields: Mapping[str, Any]) -> list[str]:
        """List the fields of its own that the upstream is not set to take from clients."""
        return sorted(self._list_refused(fields))

    async def build_json(self, path: str, body: Mapping[str, Any]) -> Call:
        """Build a call of this dialect, at a path that may hold `MODEL`, whose answer is JSON.

        Raises:
            RequestError: `model_not_found`, the model's name is none that a path can hold.
            UpstreamError: `upstream_auth`, there are no credentials to be had.
        """
        url = f"{self.upstream.base_url}/{path}".replace(MODEL, _as_segment(self.model))
        call = await build(self.upstream, "POST", url, content=msgspec.json.encode(body))
        call.headers["accept"] = "application/json"
        return call

    def _render(self, chat: ChatRequest, *, last: bool) -> PassedBody:
        """Return the body that asks for what a chat request does, and headers that go with it.

        A client that speaks the upstream's dialect is passed through in its own words.

        Raises:
            RequestError: it has words that this dialect has not, or says what the upstream
                is not set to take from clients.
        """
        if chat.provider_options:
            self.check_options(chat.provider_options)
        client_body = _client_body(chat)
        passthrough = client_body and self.dialect.passthrough.get(client_body.client_format)
        if client_body and passthrough:
            rendered = self._pass_through(client_body, passthrough, options=chat.provider_options)
        else:
            if client_body:
                self._check_translation(client_body, last=last)
            rendered = PassedBody(self._translate(chat))
        self._check_urls(rendered.body)
        return rendered

    def _pass_through(
        self,
        client_body: ClientBody,
        passthrough: Passthrough,
        *,
        options: Mapping[str, Any] | None,
    ) -> PassedBody:
        passed = passthrough.pass_on(client_body, quirks=self.quirks)
        left_out = {*self.quirks.ignored, *self._list_dropped(client_body)}
        kept = {k: v for k, v in passed.body.items() if k not in left_out}
        for name in {path.partition(".")[0] for path in left_out if "." in path} & kept.keys():
            paths = self._find_refused_items(name, kept[name])
            kept[name] = [
                item for item, path in zip(kept[name], paths, strict=True) if path not in left_out
            ]
        body = passthrough.finish(
            {**kept, **(options or {})}, model=self.model, quirks=self.upstream.quirks
        )
        return passed._replace(body=body)

    def _check_translation(self, client_body: ClientBody, *, last: bool) -> None:
        """Refuse a request in words that this dialect has not."""
        if beyond := client_body.beyond or (() if last else client_body.foreign):
            raise RequestError(
                "invalid_request",
                f"{beyond[0]} cannot be sent to upstream {self.upstream.name!r}, "
                f"which speaks {self.upstream.dialect} and not {client_body.client_format}",
            )

    def _translate(self, chat: ChatRequest) -> dict[str, Any]:
        fitted = self._fit(chat).chat
        body = self.dialect.render_request(fitted, model=self.model, quirks=self.upstream.quirks)
        if hosted := self._host(chat):
            body["tools"] = [*body.get("tools", ()), *hosted.values()]
        return body

    def _fit(self, chat: ChatRequest) -> Fitted:
        """Return the request in the fields that every dialect knows, without what the upstream
        is not set to take.

        Raises:
            RequestError: it says what the upstream is not set to take and what cannot be left out.
        """
        fitted = Fitted(chat)
        if isinstance(chat, TranslatedRequest):
            fitted = fit_extras(chat, upstream=self.upstream, dialect=self.dialect)
            chat = fitted.chat
        if chat.store is None and chat.service_tier is None:
            return fitted
        said = {"service_tier": chat.tier, "store": chat.store or None}
        refused = self._list_refused({n: v for n, v in said.items() if self._knows(n)})
        if "service_tier" in refused:
            raise self._refuse("service_tier")
        if "store" in refused:
            chat = msgspec.structs.replace(chat, store=None)
            fitted = fitted._replace(chat=chat, untaken=[*fitted.untaken, "store"])
        return fitted

    def _knows(self, field: str) -> bool:
        return field not in self.dialect.ignored and field not in self.quirks.ignored

    def _host(self, chat: ChatRequest) -> dict[str, dict[str, Any]]:
        """Return the provider's own tools for those of OpenAI's that a request has, by their paths,
        as far as the upstream is set to take them from clients."""
        client_body = _client_body(chat)
        if client_body is None or client_body.client_format in self.dialect.passthrough:
            return {}
        found = {}
        for path in client_body.ignored:
            name, _, kind = path.partition(".")
            tool = self.dialect.hosted(kind, chat) if name == "tools" else None
            if tool is not None and not self._list_refused({"tools": [tool]}):
                found[path] = tool
        return found

    def _list_refused(self, fields: Mapping[str, Any]) -> dict[str, str]:
        dialect = self.upstream.dialect
        return options_of(dialect, self.upstream.options).list_refused(fields)

    def _list_dropped(self, client_body: ClientBody) -> list[str]:
        """List what is left out of a request that is sent on, for it changes nothing of the answer.

        Raises:
            RequestError: it says more that the upstream is not set to take.
        """
        dropped: set[str] = set()
        for name, path in self._find_refused(client_body.body).items():
            if name in client_body.ignored:
                dropped.add(name)
                continue
            # An item may be the dialect's own where another is what the settings allow.
            paths = self._find_refused_items(name, client_body.body[name]) or [path]
            wrong = next((p for p in paths if p is not None and p not in client_body.ignored), None)
            if wrong is not None:
                raise self._refuse(wrong)
            dropped |= {path for path in paths if path is not None}
        return sorted(dropped)

    def _find_refused(self, fields: Mapping[str, Any]) -> dict[str, str]:
        """Find what of a request that is sent on the upstream is not set to take."""
        own = own_of(self.upstream.dialect).list_refused(fields)
        return self._list_refused({name: fields[name] for name in own})

    def _find_refused_items(self, name: str, value: Any) -> list[str | None]:
        """Return for each item of a list the path for which it is refused, if it is."""
        if not isinstance(value, list):
            return []
        known: dict[str, str | None] = {}
        found: list[str | None] = []
        for item in value:
            kind = str(item.get("type")) if isinstance(item, dict) else ""
            if kind not in known:
                known[kind] = self._find_refused({name: [item]}).get(name)
            found.append(known[kind])
        return found

    def _refuse(self, path: str) -> RequestError:
        return refuse(path, self.upstream)

    def _check_urls(self, body: dict[str, Any]) -> None:
        """Refuse a URL that the provider would read with rights that the client has not."""
        schemes = self.upstream.url_schemes
        found = find_foreign(body, schemes)
        if found is not None:
            place, scheme = found
            taken = ", ".join(map(repr, schemes)) or "none"
            raise RequestError(
                "invalid_request",
                f"{place}: upstream {self.upstream.name!r} is sent no URL of {scheme[:40]!r} "
                f"(of these: {taken}); url_schemes in the relay's settings can allow it",
            )


def _add_headers(call: Call, headers: Mapping[str, str]) -> None:
    """Add headers of a client's to those that the settings have."""
    for name, value in headers.items():
        own = call.headers.get(name)
        call.headers[name] = f"{own},{value}" if own else value


def _client_body(chat: ChatRequest) -> ClientBody | None:
    return chat.client_body if isinstance(chat, TranslatedRequest) else None


def _list_left_out(chat: ChatRequest) -> list[str]:
    return list(chat.left_out) if isinstance(chat, TranslatedRequest) else []


def _list_lost(client_body: ClientBody, chat: ChatRequest) -> list[str]:
    """List what a request in other words says, and the chat request that is made of it does not."""
    extras = (chat.extras if isinstance(chat, TranslatedRequest) else None) or {}
    return [
        name
        for name in client_body.ignored
        if name not in extras and getattr(chat, name, None) is None
    ]


def _list(names: Sequence[str]) -> str:
    shown = ", ".join(name[:80] for name in names[:_MAX_NAMED])
    return f"{shown} and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else shown


def is_said(chat: ChatRequest, field: str) -> bool:
    """Return whether a request says more by a field than it would without it."""
    if field == "cache_control":
        return is_marked(chat)
    if field == "service_tier":
        return chat.tier is not None
    value = getattr(chat, field)
    return value not in (None, _ANYWAY.get(field))


def _as_segment(model: str) -> str:
    """Quote a model's name so that it is one segment of a path, whoever wrote it."""
    if model in (".", ".."):
        raise RequestError("model_not_found", f"unknown model {model!r}")
    return quote(model, safe="@")  # as the SDKs write the versions of Vertex AI


async def build(upstream: Upstream, method: str, url: str, *, content: bytes = b"") -> Call:
    """Build a call to an upstream, its credentials included.

    Raises:
        UpstreamError: `upstream_auth`, there are no credentials to be had.
    """
    place = _parse_url(url)
    if upstream.query:
        place = place.copy_merge_params(dict(upstream.query))
    return Call(
        method,
        place,
        content=content,
        headers={
            "accept": "text/event-stream, application/json",
            # Several providers compress event streams when allowed to, which delays tokens.
            "accept-encoding": "identity",
            "user-agent": "seseragi",
            **({"content-type": "application/json"} if content else {}),
            **UPSTREAM_FORMATS[upstream.dialect].headers,
            **{name.lower(): value for name, value in upstream.headers.items()},
            **await upstream.credentials.headers(method, str(place), content),
        },
    )


@lru_cache(1024)
def _parse_url(url: str) -> httpx2.URL:
    # 30 us, and there are few of them: a path with a model's name for each.
    return httpx2.URL(url)
