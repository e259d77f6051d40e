"""An upstream and one of its models, and the request that asks it."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final
from urllib.parse import quote

import httpx2
import msgspec

from app.dialects.count import Count
from app.dialects.dialect import MODEL, Dialect
from app.dialects.table import DIALECTS
from app.errors import RequestError
from app.events import Notice
from app.limits import Limits
from app.requests import ChatRequest, Original, TranslatedRequest, UserMessage
from app.retry import Choice
from app.upstreams.endpoints import Upstream
from app.upstreams.media import find_foreign
from app.upstreams.options import RELAYS, options_of, own_of
from app.upstreams.transport import Call

_ANYWAY: Final[Mapping[str, object]] = {
    **{"n": 1, "logprobs": False, "top_logprobs": 0, "metadata": {}},
    **{"frequency_penalty": 0, "presence_penalty": 0, "parallel_tool_calls": True},
}
"""What holds of a field whether it is said or not."""


class Target(msgspec.Struct, frozen=True):
    """One place that may answer."""

    upstream: Upstream
    model: str
    choice: Choice = Choice()
    timeouts: Mapping[str, float] = {}
    """Those of `Timeouts` that are others here."""

    @property
    def dialect(self) -> Dialect:
        return DIALECTS[self.upstream.dialect]

    @property
    def name(self) -> str:
        """`upstream/model`, whatever clients call it."""
        return f"{self.upstream.name}/{self.model}"

    def limits(self, limits: Limits) -> Limits:
        """Give the limits with what is otherwise here."""
        return msgspec.structs.replace(limits, **self.timeouts) if self.timeouts else limits

    def silence_s(self, limits: Limits, *, last: bool) -> float:
        """Return how long its first event may take; less if there is another to ask."""
        own = self.timeouts.get("first_event_timeout_s")
        if own is not None:
            return own
        silence_s = limits.first_event_timeout_s
        return silence_s if last else min(silence_s, limits.fallback_after_s)

    def list_ignored(self, chat: ChatRequest) -> list[Notice]:
        """Tell what the request says that the dialect has no place for, or would be refused."""
        quirks = self.upstream.quirks or self.dialect.quirks()
        ignored = sorted(self.dialect.ignored | {*quirks.ignored})
        fields = [field for field in ignored if _is_said(chat, field)]
        original = _original(chat)
        notices: list[str] = []
        if original and original.front in self.dialect.passes:
            if dropped := self._list_dropped(original):
                notices.append(f"is not set to take {', '.join(dropped)} from clients: left out")
        else:
            others = original.ignored if original else ()
            fields = sorted({*fields, *others} - self._host(chat).keys())
            notices += self.dialect.list_changes(chat, model=self.model, quirks=quirks)
        if fields:
            notices.append(f"knows no {', '.join(fields)}: left out")
        name = self.upstream.name
        return [Notice("field_ignored", f"upstream {name!r} {notice}") for notice in notices]

    async def build_call(self, chat: ChatRequest, *, connect_timeout_s: float) -> Call:
        """Build the streaming call that answers a chat request.

        Raises:
            RequestError: the dialect cannot say what the request does.
            UpstreamError: `upstream_auth`, there are no credentials to be had.
        """
        told, headers = self._tell(chat)
        body = self.dialect.render_request(told, model=self.model, quirks=self.upstream.quirks)
        if hosted := self._host(chat):
            body["tools"] = [*body.get("tools", ()), *hosted.values()]
        self._check_urls(body)
        url = f"{self.upstream.base_url}/{self.dialect.path}"
        call = await build(
            self.upstream,
            "POST",
            url.replace(MODEL, _as_segment(self.model)),
            content=msgspec.json.encode(body),
        )
        for name, value in headers.items():
            own = call.headers.get(name)
            call.headers[name] = f"{own},{value}" if own else value
        return call._replace(connect_timeout_s=connect_timeout_s)

    async def build_count(self, chat: ChatRequest, count: Count) -> Call:
        """Build the call that counts the tokens of a chat request.

        Raises:
            RequestError: the dialect cannot say what the request does.
            UpstreamError: `upstream_auth`, there are no credentials to be had.
        """
        told, headers = self._tell(chat)
        body = self.dialect.render_request(told, model=self.model, quirks=self.upstream.quirks)
        self._check_urls(body)
        asked = count.render(body, model=self.model, base_url=self.upstream.base_url)
        call = await self.build_json(count.path, asked)
        call.headers.update(headers)
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

    def _tell(self, chat: ChatRequest) -> tuple[ChatRequest, Mapping[str, str]]:
        """Give the request as the dialect is told it, and headers that go with it.

        A client that speaks the upstream's own words is sent on in them.

        Raises:
            RequestError: it has words that this dialect has not, or says what the upstream
                is not set to take from clients.
        """
        if chat.provider_options:
            self.check_options(chat.provider_options)
        original = _original(chat)
        if original is None:
            return chat, {}
        passes = self.dialect.passes.get(original.front)
        if passes is not None:
            quirks = self.upstream.quirks or self.dialect.quirks()
            passed = passes(original, quirks=quirks)
            left_out = {*quirks.ignored, *self._list_dropped(original)}
            kept = {k: v for k, v in passed.body.items() if k not in left_out}
            for name in {path.partition(".")[0] for path in left_out if "." in path} & kept.keys():
                paths = self._find_refused_items(name, kept[name])
                kept[name] = [
                    item
                    for item, path in zip(kept[name], paths, strict=True)
                    if path not in left_out
                ]
            options = {**kept, **(chat.provider_options or {})}
            return ChatRequest([UserMessage("")], provider_options=options), passed.headers
        if original.beyond:
            raise RequestError(
                "invalid_request",
                f"{original.beyond[0]} cannot be sent to upstream {self.upstream.name!r}, "
                f"which speaks {self.upstream.dialect} and not {original.front}",
            )
        said = {name: getattr(chat, name) for name in ChatRequest.__struct_fields__}
        return ChatRequest(**said), {}

    def _host(self, chat: ChatRequest) -> dict[str, dict[str, Any]]:
        """Give the provider's own tools for those of OpenAI's that a request has, by their paths,
        as far as the upstream is set to take them from clients."""
        original = _original(chat)
        if original is None or original.front in self.dialect.passes:
            return {}
        found = {}
        for path in original.ignored:
            name, _, kind = path.partition(".")
            tool = self.dialect.hosted(kind, chat) if name == "tools" else None
            if tool is not None and not self._list_refused({"tools": [tool]}):
                found[path] = tool
        return found

    def _list_refused(self, fields: Mapping[str, Any]) -> dict[str, str]:
        dialect = self.upstream.dialect
        return options_of(dialect, self.upstream.options).list_refused(fields)

    def _list_dropped(self, original: Original) -> list[str]:
        """List what is left out of a request that is sent on, for it changes nothing of the answer.

        Raises:
            RequestError: it says more that the upstream is not set to take.
        """
        dropped: set[str] = set()
        for name, path in self._find_refused(original.body).items():
            if name in original.ignored:
                dropped.add(name)
                continue
            # An item may be the dialect's own where another is what the settings allow.
            paths = self._find_refused_items(name, original.body[name]) or [path]
            wrong = next((p for p in paths if p is not None and p not in original.ignored), None)
            if wrong is not None:
                raise self._refuse(wrong)
            dropped |= {path for path in paths if path is not None}
        return sorted(dropped)

    def _find_refused(self, fields: Mapping[str, Any]) -> dict[str, str]:
        """Find what of a request that is sent on the upstream is not set to take."""
        own = own_of(self.upstream.dialect).list_refused(fields)
        return self._list_refused({name: fields[name] for name in own})

    def _find_refused_items(self, name: str, value: Any) -> list[str | None]:
        """Give for each item of a list the path for which it is refused, if it is."""
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
        name, field = self.upstream.name, path[:120]
        if path.rpartition(".")[2].lower().replace("_", "") in RELAYS:
            why = "only the request itself says that, and not the options of a provider"
        else:
            why = f"upstream {name!r} does not take it from clients"
            why += f"; options in [upstream.{name}] of the relay's settings can allow it"
        return RequestError("invalid_request", f"{field}: {why}")

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


def _original(chat: ChatRequest) -> Original | None:
    return chat.original if isinstance(chat, TranslatedRequest) else None


def _is_said(chat: ChatRequest, field: str) -> bool:
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
            **DIALECTS[upstream.dialect].headers,
            **{name.lower(): value for name, value in upstream.headers.items()},
            **await upstream.credentials.headers(method, str(place), content),
        },
    )


@lru_cache(1024)
def _parse_url(url: str) -> httpx2.URL:
    # 30 us, and there are few of them: a path with a model's name for each.
    return httpx2.URL(url)
