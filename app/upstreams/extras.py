"""Translation of provider-specific request fields to an upstream's own."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from ..dialects.openai_chat import NAME as CHAT_COMPLETIONS
from ..dialects.upstream_format import UpstreamFormat
from ..dialects.writing.conversation import join_options
from ..dialects.writing.extras import changes_answer, find_effort
from ..errors import RequestError
from ..requests import ChatRequest
from .endpoints import Upstream
from .options import RELAYS, options_of


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
