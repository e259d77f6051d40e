"""Builds the upstream's request for a chat request, with notices of ignored fields.

The body of a client that speaks the upstream's dialect is passed through; for others the chat
request is rendered.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import msgspec

from ..dialects.openai_chat import NAME as CHAT_COMPLETIONS
from ..dialects.upstream_format import Passthrough, ResumableAnswer
from ..dialects.upstream_formats import UPSTREAM_FORMATS
from ..dialects.writing.cache_marks import is_marked, mark_prompt
from ..dialects.writing.output_ceiling import bound_output
from ..dialects.writing.request_rules import find_short_names, rename_tools
from ..errors import RequestError
from ..events import Notice
from ..requests import ChatRequest, ClientBody, UserMessage
from .endpoints import Upstream
from .media import ForeignReference, find_foreign
from .options import Fitted, fit_extras, options_of, own_of, refuse, stored_of, type_of
from .refusals import fit, left_out_notices
from .transforms import NO_CHANGES, RequestChanges

_DEFAULTS: Final[Mapping[str, object]] = {
    "n": 1,
    "logprobs": False,
    "top_logprobs": 0,
    "metadata": {},
    "frequency_penalty": 0,
    "presence_penalty": 0,
    "parallel_tool_calls": True,
    "store": False,
    "truncation": "disabled",
    "verbosity": "medium",
}
"""The providers' defaults: ignoring a field with its default has no effect."""


_MAX_NAMED: Final = 20
"""Fields named in a notice."""


class TargetRequest(msgspec.Struct, frozen=True):
    """The request that an upstream receives for a chat request."""

    body: dict[str, Any]
    headers: Mapping[str, str] = {}
    """The client's headers that accompany its own body."""
    notices: Sequence[Notice] = ()
    """One for each change to the request."""
    ignored: Sequence[str] = ()
    """The paths of its parts that are left out."""
    resume: ResumableAnswer | None = None
    """How to read its answer on after a broken connection; None if it is not stored."""
    tool_names: Mapping[str, str] = {}
    """The client's names of tools that have others here, by those."""


class RequestBuilder:
    """Builds the requests for one model of an upstream."""

    def __init__(
        self, upstream: Upstream, model: str, changes: RequestChanges = NO_CHANGES
    ) -> None:
        self._changes = changes
        self._transforms = [one for one in (upstream.transform, changes.transform) if one]
        self._upstream = upstream
        self._model = model
        self._format = UPSTREAM_FORMATS[upstream.dialect]
        self._quirks = upstream.quirks or self._format.quirks()
        self._ignored = self._format.ignored.union(self._quirks.ignored)
        """The fields of a chat request that this upstream does not support."""
        self._resume = self._format.resume if upstream.resume else None

    def build(self, chat: ChatRequest, *, last: bool) -> TargetRequest:
        """Build the request; only the `last` target left may ignore parts of it.

        Raises:
            RequestError: the dialect cannot express the request, or the request has fields that
                the upstream does not accept from clients.
        """
        if chat.provider_options:
            self.check_options(chat.provider_options)
        chat = self._shorten(chat)
        marks = self._changes.cache_prompt and self._marks(chat)
        if marks:
            chat = mark_prompt(chat)
        client_body = chat.client_body
        passthrough = client_body and self._format.passthrough.get(client_body.client_format)
        if client_body and passthrough:
            request = self._pass_through(chat, client_body, passthrough, marks=marks)
        else:
            if client_body:
                self._check_translation(client_body, last=last)
            request = self._translate(chat, client_body)
        if not chat.is_plain:
            self._check_read(request.body)
        for transform in self._transforms:
            request = msgspec.structs.replace(request, body=transform.apply(request.body))
        if chat.ceiling is not None:
            field = self._format.limit
            if self._format.limit_field is not None:
                field = self._format.limit_field(request.body, quirks=self._quirks)
            request = msgspec.structs.replace(
                request, body=bound_output(request.body, chat.ceiling, field=field)
            )
        if (known := self._upstream.refusals.known.get(self._model)) is not None:
            fitted = fit(known, request.body, request.headers)
            notices = [*request.notices, *left_out_notices(self._upstream.name, fitted.left_out)]
            request = msgspec.structs.replace(
                request, body=fitted.body, headers=fitted.headers, notices=notices
            )
        return request if self._resume is None else self._store(request, chat, self._resume)

    def _marks(self, chat: ChatRequest) -> bool:
        """Return whether the prompt is to be marked: the provider has marks, the client none."""
        return "cache_control" not in self._ignored and not is_marked(chat)

    @cached_property
    def _defaults(self) -> dict[str, Any]:
        """The defaults of the route as fields of the upstream's body."""
        plain = ChatRequest([UserMessage("x")])
        with_defaults = msgspec.structs.replace(plain, **self._changes.defaults)
        before, after = (
            self._format.render_request(one, model=self._model, quirks=self._quirks).body
            for one in (plain, with_defaults)
        )
        return {name: value for name, value in after.items() if before.get(name) != value}

    def _store(
        self, request: TargetRequest, chat: ChatRequest, resume: ResumableAnswer
    ) -> TargetRequest:
        """Request an answer that can be read on, unless the client refuses to have it stored."""
        options = chat.provider_options or {}
        if chat.store is False or any(options.get(name) is False for name in resume.fields):
            return request
        return msgspec.structs.replace(
            request, body={**request.body, **resume.fields}, resume=resume
        )

    def _shorten(self, chat: ChatRequest) -> ChatRequest:
        """Lower the output ceiling to the models' limit, unless the client set it."""
        ceiling = chat.ceiling
        most = self._upstream.max_output_tokens
        if ceiling is None or ceiling.explicit or most is None or ceiling.tokens <= most:
            return chat
        ceiling = msgspec.structs.replace(ceiling, tokens=most)
        return msgspec.structs.replace(chat, max_tokens=most, ceiling=ceiling)

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Refuse provider options that the upstream does not accept from clients.

        Raises:
            RequestError: `invalid_request`, naming the first.
        """
        refused = self.list_refused(options)
        if refused:
            raise self._refuse(f"provider_options.{next(iter(refused.values()))}")

    def list_refused(self, fields: Mapping[str, Any]) -> dict[str, str]:
        """Return the fields that the upstream does not accept from clients, each with the
        offending path."""
        upstream = self._upstream
        return options_of(upstream.dialect, upstream.options).list_refused(fields)

    def _pass_through(
        self, chat: ChatRequest, client_body: ClientBody, passthrough: Passthrough, *, marks: bool
    ) -> TargetRequest:
        """Pass a client's own body through, without fields that the upstream does not accept."""
        passed = passthrough.pass_on(client_body, quirks=self._quirks)
        dropped = self._list_dropped(client_body)
        if self._drops_store(chat):
            dropped.append("store")
        left_out = {*self._quirks.ignored, *dropped}
        fields = {k: v for k, v in passed.body.items() if k not in left_out}
        for name in {path.partition(".")[0] for path in left_out if "." in path} & fields.keys():
            paths = self._find_refused_items(name, fields[name])
            fields[name] = [
                item for item, path in zip(fields[name], paths, strict=True) if path not in left_out
            ]
        unknown = list_effective(chat, self._ignored)
        if passthrough.restore_items is not None:
            name = self._upstream.name
            dropped_items = passthrough.restore_items(
                fields, upstream=name, refused=self._is_refused
            )
            dropped += dropped_items.not_allowed
            unknown |= {*dropped_items.other_upstream}
        fields |= chat.provider_options or {}
        if self._changes.defaults:
            fields = {**self._defaults, **fields}
        if self._changes.system_prefix:
            passthrough.add_system(fields, self._changes.system_prefix)
        if marks and passthrough.mark_cache is not None:
            passthrough.mark_cache(fields)
        body = passthrough.finish(fields, model=self._model, quirks=self._quirks)
        changes = [*passed.changes]
        overridden = passed.headers.keys() & {name.lower() for name in self._upstream.headers}
        for name in sorted(overridden):
            changes.append(f"has its own {name} (setting headers): the client's was dropped")
        headers = {n: value for n, value in passed.headers.items() if n not in overridden}
        self._check_needed(client_body, dropped)
        notices = self._list_notices(changes, not_allowed=dropped, unknown=unknown)
        return TargetRequest(body, headers, notices, ignored=sorted({*dropped, *unknown}))

    def _translate(self, chat: ChatRequest, client_body: ClientBody | None) -> TargetRequest:
        """Render a chat request in the upstream's format."""
        fitted = self._fit(chat)
        quirks = self._quirks
        if (field := self._upstream.reasoning_fields.known.get(self._model)) is not None:
            quirks = quirks.with_reasoning(field)
        names, originals, ignored = {}, dict[str, str](), [*fitted.not_allowed]
        if not fitted.chat.is_plain:
            names = find_short_names(fitted.chat, self._format.tool_names)
        if names:
            fitted = fitted._replace(chat=rename_tools(fitted.chat, names))
        body, changes = self._format.render_request(fitted.chat, model=self._model, quirks=quirks)
        changes = [*changes]
        if names:
            shown = _list([repr(name) for name in names])
            changes.append(f"does not allow the names of tools {shown}: sent others instead")
            originals = {short: name for name, short in names.items()}
        unknown = {*fitted.unknown, *list_effective(fitted.chat, self._ignored), *chat.left_out}
        if chat.members:
            unknown |= {*(lost := self._list_lost(chat.members))}
            for path in lost:
                if path.startswith("messages[") and path[9] != "]":  # all that its message has
                    raise refuse(path, self._upstream, supported=False)
        customs = chat.tools and any("custom" in (tool.rest or ()) for tool in chat.tools)
        if customs and not getattr(quirks, "custom_tools", False):
            changes.append("does not support custom tools: sent as functions, without a grammar")
        if client_body:
            hosted = self._host(chat, client_body)
            if hosted:
                body["tools"] = [*body.get("tools", ()), *hosted.values()]
            unknown |= {*_list_untranslated(client_body, chat)} - hosted.keys()
            self._check_needed(client_body, [*unknown, *ignored, *client_body.unsupported])
            ignored += [part.partition(":")[0] for part in client_body.unsupported]
            if unsupported := client_body.unsupported:
                changes.append(f"does not support {', '.join(unsupported[:10])}: dropped")
            if client_body.shortened:
                kinds = ", ".join(map(repr, client_body.shortened))
                name = client_body.client_format
                changes.append(f"does not support blocks {kinds} of {name}: sent as text")
        notices = self._list_notices(changes, not_allowed=fitted.not_allowed, unknown=unknown)
        ignored = sorted({*unknown, *ignored})
        return TargetRequest(body, notices=notices, ignored=ignored, tool_names=originals)

    def _list_notices(
        self, changes: Sequence[str], *, not_allowed: Sequence[str], unknown: set[str]
    ) -> list[Notice]:
        """Return the notices of changes and dropped fields."""
        if not (changes or not_allowed or unknown):
            return []
        sentences = [*changes]
        if not_allowed:
            reason = "from clients (setting `options`): dropped"
            sentences.insert(0, f"does not allow {_list(not_allowed)} {reason}")
        if unknown:
            sentences.append(f"does not support {_list(sorted(unknown))}: dropped")
        name = self._upstream.name
        return [Notice("field_ignored", f"upstream {name!r} {change}") for change in sentences]

    def _check_translation(self, client_body: ClientBody, *, last: bool) -> None:
        """Refuse a request that only its own dialect can express."""
        if refused := client_body.untranslatable or (() if last else client_body.unsupported):
            raise RequestError(
                "invalid_request",
                f"{refused[0]} cannot be sent to upstream {self._upstream.name!r}, "
                f"which speaks {self._upstream.dialect} and not {client_body.client_format}",
            )

    def _check_needed(self, client_body: ClientBody, dropped: Iterable[str]) -> None:
        """Refuse a request without the provider's tools that its answer may depend on."""
        path = next(filter(client_body.needs, dropped), None)
        if path is None:
            return
        if client_body.client_format in self._format.passthrough:
            raise self._refuse(path)
        raise RequestError(
            "invalid_request",
            f"{path}: upstream {self._upstream.name!r} has no such tool for clients of "
            f"{client_body.client_format}, and the answer may depend on it; leave it out, or "
            "choose a model whose provider runs it",
        )

    def _fit(self, chat: ChatRequest) -> Fitted:
        """Reduce the request to fields that every dialect supports and the upstream accepts.

        Raises:
            RequestError: it has a field that is not accepted and cannot be dropped.
        """
        fitted = Fitted(chat)
        if chat.client_body is not None or chat.extras:
            fitted = fit_extras(chat, upstream=self._upstream, dialect=self._format)
            chat = fitted.chat
        tier = None if "service_tier" in self._ignored else chat.tier
        if tier is not None and self.list_refused({"service_tier": tier}):
            raise self._refuse("service_tier")
        if self._drops_store(chat):
            chat = msgspec.structs.replace(chat, store=None)
            fitted = fitted._replace(chat=chat, not_allowed=[*fitted.not_allowed, "store"])
        return fitted

    def _drops_store(self, chat: ChatRequest) -> bool:
        """Return whether a request sets `store` without being allowed to."""
        requested = chat.store and self._resume is None and "store" not in self._ignored
        return bool(requested and self.list_refused({"store": True}))

    def _list_lost(self, paths: Sequence[str]) -> Sequence[str]:
        """Return the paths of members of messages and tools that the upstream does not receive."""
        if self._upstream.dialect != CHAT_COMPLETIONS:
            return paths
        render, quirks = self._format.render_extra, self._quirks
        return [p for p in paths if render(p.rpartition(".")[2], 1, quirks=quirks) is None]

    def _host(self, chat: ChatRequest, client_body: ClientBody) -> dict[str, dict[str, Any]]:
        """Return the provider's equivalents of a request's hosted OpenAI tools, by path, as far as
        the upstream accepts them from clients."""
        found = {}
        for path in client_body.ignored:
            name, _, kind = path.partition(".")
            tool = self._format.find_hosted_tool(kind, chat) if name == "tools" else None
            if tool is not None and not self.list_refused({"tools": [tool]}):
                found[path] = tool
        return found

    def _list_dropped(self, client_body: ClientBody) -> list[str]:
        """List the refused fields of a client's body that can be dropped.

        Raises:
            RequestError: it has one that cannot.
        """
        dropped: set[str] = set()
        for name, path in self._find_refused(client_body.body).items():
            if name in client_body.ignored:
                dropped.add(name)
                continue
            # Only some items of a list may be refused.
            paths = self._find_refused_items(name, client_body.body[name]) or [path]
            wrong = next((p for p in paths if p is not None and p not in client_body.ignored), None)
            if wrong is not None:
                raise self._refuse(wrong)
            dropped |= {path for path in paths if path is not None}
        return sorted(dropped)

    def _find_refused(self, fields: Mapping[str, Any]) -> dict[str, str]:
        """Find the fields of a client's body that the upstream does not accept."""
        own = own_of(self._upstream.dialect).list_refused(fields)
        return self.list_refused({name: fields[name] for name in own})

    def _find_refused_items(self, name: str, value: Any) -> list[str | None]:
        """Return the refused path of each item of a list, None for an accepted item."""
        if not isinstance(value, list):
            return []
        known: dict[str, str | None] = {}
        found: list[str | None] = []
        for item in value:
            kind = type_of(item)
            if kind not in known:
                known[kind] = self._find_refused({name: [item]}).get(name)
            found.append(known[kind])
        return found

    def _refuse(self, path: str) -> RequestError:
        return refuse(path, self._upstream)

    def _is_refused(self, item: dict[str, Any]) -> bool:
        return self._find_read({"input": [item]}) is not None

    def _find_read(self, body: dict[str, Any]) -> ForeignReference | None:
        upstream = self._upstream
        stored = stored_of(upstream.dialect, upstream.options)
        return find_foreign(body, schemes=upstream.url_schemes, stored=stored)

    def _check_read(self, body: dict[str, Any]) -> None:
        """Refuse references that the provider would resolve with rights that the client lacks."""
        upstream, found = self._upstream, self._find_read(body)
        if found is None:
            return
        if found.scheme is None:
            why = f"does not allow ids of stored data; add {found.field!r} to options of "
            why += f"[upstream.{upstream.name}]"
        else:
            allowed = ", ".join(map(repr, upstream.url_schemes)) or "none"
            why = f"does not allow {found.scheme[:40]!r} URLs; allowed: {allowed} "
            why += "(setting url_schemes)"
        raise RequestError("invalid_request", f"{found.field}: upstream {upstream.name!r} {why}")


def _list_untranslated(client_body: ClientBody, chat: ChatRequest) -> list[str]:
    """List the fields of a client's body that its chat request does not contain."""
    extras = chat.extras or {}
    return [
        name
        for name in client_body.ignored
        if name not in extras and getattr(chat, name, None) is None
    ]


def _list(names: Sequence[str]) -> str:
    shown = ", ".join(name[:80] for name in names[:_MAX_NAMED])
    return f"{shown} and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else shown


def list_effective(chat: ChatRequest, fields: Iterable[str]) -> set[str]:
    """List the fields that have an effect: they are set, but not to their defaults."""
    effective = set()
    for field in fields:
        if field == "cache_control":
            has_effect = not chat.is_plain and is_marked(chat)
        elif field == "service_tier":
            has_effect = chat.tier is not None
        else:
            has_effect = getattr(chat, field) not in (None, _DEFAULTS.get(field))
        if has_effect:
            effective.add(field)
    return effective
