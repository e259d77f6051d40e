"""Provider-specific fields that clients may set: the setting `options` of an upstream.

Clients send them in `provider_options`, or in a request in the upstream's own dialect. A field
is named by its path, such as `generationConfig.topK`; a list item by its type, or in the
dialects that are `keyed` by its keys: `tools.web_search_20260318`, `tools.googleSearch`. Case, "_"
and "-" are ignored: Google's APIs accept `cached_content` for `cachedContent`. Those of
a request in another dialect, its extras, are translated first.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import translate
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from ..dialects.openai_chat import NAME as CHAT_COMPLETIONS
from ..dialects.upstream_format import OptionNames, UpstreamFormat
from ..dialects.upstream_formats import UPSTREAM_FORMATS
from ..dialects.writing.chat_extras import changes_answer, find_effort
from ..dialects.writing.conversation import join_options
from ..errors import RequestError
from ..requests import ChatRequest
from .endpoints import Upstream
from .media import STORED

SAFE_WORD: Final = "safe"
"""In a list of options: what is `safe` in the dialect."""

RELAYS: Final = ("model", "modelid", "stream")
"""The fields that the relay sets: no list of options allows them."""

_SCHEMAS: Final = frozenset(("function", "parameters", "input_schema"))
_OF_FUNCTIONS: Final = _SCHEMAS | {"cache_control"}
"""The objects in a function tool, in any dialect whose tools have types."""


class Options(msgspec.Struct, frozen=True):
    """The fields that clients may set, as paths with `*` and `?` wildcards."""

    allowed: tuple[str, ...]
    refused: tuple[str, ...] = ()
    keyed: bool = False

    def list_refused(self, fields: Mapping[str, Any]) -> dict[str, str]:
        """Return the disallowed fields, each with the path that is the reason."""
        found = {}
        for name, value in fields.items():
            if value is None or value == []:
                continue  # unset; an empty object may have an effect (`web_search_options`)
            plain = _plain(name)
            path = name if plain in RELAYS else next(self._walk(name, plain, value), None)
            if path is not None:
                found[name] = path
        return found

    def _walk(self, shown: str, path: str, value: Any, *, allowed: bool = False) -> Iterator[str]:
        """Yield the disallowed paths below `path`; `allowed`: whether a path above it is."""
        if _matches(self.refused, path):
            yield shown
            return
        allowed = allowed or _matches(self.allowed, path)
        if _matches(_starts(self.refused if allowed else self.allowed + self.refused), path):
            if value == {}:
                return  # its members would not be allowed
            below = list(self._below(value))
            for name, inner in below:
                yield from self._walk(
                    f"{shown}.{name}", f"{path}.{_plain(name)}", inner, allowed=allowed
                )
            if below:
                return
        if not allowed:
            yield shown

    def _below(self, value: Any) -> Iterable[tuple[str, Any]]:
        if isinstance(value, dict):
            return value.items()
        if not isinstance(value, list):
            return ()
        if self.keyed:
            return (pair for item in value if isinstance(item, dict) for pair in item.items())
        return ((type_of(item), None) for item in value)


def type_of(item: Any) -> str:
    """Return the type of a list item: "custom" for a function tool without a type.

    Gateways accept provider tools by a key (`{"google_search": {}}`) or by their name alone.
    """
    kind = item.get("type") if isinstance(item, dict) else "?"
    if kind is not None:
        return str(kind)
    objects = {name for name, value in item.items() if isinstance(value, dict)}
    return "custom" if objects & _SCHEMAS and objects <= _OF_FUNCTIONS else "untyped"


def _names_of(dialect: str) -> OptionNames:
    found = UPSTREAM_FORMATS.get(dialect)  # cassettes have another
    return OptionNames() if found is None else found.options


@lru_cache
def options_of(dialect: str, options: tuple[str, ...] | None) -> Options:
    """Return the options that an upstream allows; None: all except those that are `refused`."""
    names = _names_of(dialect)
    if options is None:
        return Options(("*",), _patterns(" ".join(names.refused.values())), names.keyed)
    words = (names.safe if word == SAFE_WORD else word for word in options)
    return Options(_patterns(" ".join(words)), keyed=names.keyed)


@lru_cache
def stored_of(dialect: str, options: tuple[str, ...] | None) -> frozenset[str]:
    """Return the fields of `STORED` that an upstream does not allow, at any path."""
    return frozenset(options_of(dialect, options).list_refused(dict.fromkeys(STORED, "")))


@lru_cache
def own_of(dialect: str) -> Options:
    """Return the options that a request in the dialect's own format may always contain."""
    names = _names_of(dialect)
    return Options(_patterns(names.standard), keyed=names.keyed)


def _patterns(names: str) -> tuple[str, ...]:
    return tuple(".".join(map(_plain, name.split("."))) for name in names.split())


def _plain(name: str) -> str:
    """Return a name normalized across spellings, including those that Go treats as equal.

    A dot within it is not a separator.
    """
    return name.casefold().replace("_", "").replace("-", "").replace(".", "\0")


@lru_cache
def _starts(patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Return the parent paths of the patterns."""
    cut = (pattern.split(".") for pattern in patterns)
    return tuple({".".join(names[:end]) for names in cut for end in range(1, len(names))})


def _matches(patterns: tuple[str, ...], path: str) -> bool:
    return bool(patterns) and _compile(patterns).match(path) is not None


@lru_cache
def _compile(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, patterns)))


class Fitted(NamedTuple):
    """A request without extras."""

    chat: ChatRequest
    """With the effort from thinking options, and supported extras in `provider_options`."""
    unknown: Sequence[str] = ()
    """The extras that the upstream does not support."""
    not_allowed: Sequence[str] = ()
    """The extras that the upstream's settings do not allow."""


def fit_extras(request: ChatRequest, *, upstream: Upstream, dialect: UpstreamFormat) -> Fitted:
    """Translate a request's extras to fields of an upstream, where it has equivalents.

    Raises:
        RequestError: an extra would affect another model, destination, account or bill, or
            the answer would differ without it.
    """
    extras = request.extras or {}
    quirks = upstream.quirks or dialect.quirks()
    own = upstream.dialect == CHAT_COMPLETIONS  # which defines the names of extras
    allowed = options_of(upstream.dialect, upstream.options)
    reaching = options_of(CHAT_COMPLETIONS, None).list_refused(extras)
    if own:
        reaching = allowed.list_refused({name: extras[name] for name in reaching})
    if reaching:
        raise refuse(next(iter(reaching.values())), upstream)
    fitted_effort = request.reasoning_effort
    options: dict[str, Any] = {}
    unknown, not_allowed = [], []
    for name, value in extras.items():
        rendered = dialect.render_extra(name, value, quirks=quirks)
        if rendered is not None and not allowed.list_refused(rendered):
            join_options(options, rendered)
            continue
        effort = find_effort(name, value, words_only=dialect.effort_words)
        if effort is not None:
            fitted_effort = fitted_effort or effort
        elif changes_answer(name):
            raise refuse(name, upstream, supported=rendered is not None)
        elif rendered is None:
            unknown.append(name)
        else:
            not_allowed.append(name)
    join_options(options, request.provider_options)
    chat = msgspec.structs.replace(
        request,
        client_body=None,
        extras=None,
        members=(),
        left_out=(),
        reasoning_effort=fitted_effort,
        provider_options=options or None,
    )
    return Fitted(chat, unknown, not_allowed)


def refuse(path: str, upstream: Upstream, *, supported: bool = True) -> RequestError:
    """Return the error for a field that an upstream does not allow or support."""
    name, field = upstream.name, path[:120]
    if path.rpartition(".")[2].lower().replace("_", "") in RELAYS:
        why = "not allowed in provider_options; set it in the request itself"
    elif supported:
        why = f"upstream {name!r} does not allow it for clients; "
        why += f"add it to options of [upstream.{name}]"
    else:
        why = f"upstream {name!r} does not support it, and the answer would differ without it"
    return RequestError("invalid_request", f"{field}: {why}")
