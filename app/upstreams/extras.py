"""Where an upstream takes the fields that only some providers of Chat Completions have."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from ..dialects.upstream_format import UpstreamFormat
from ..dialects.writing.conversation import join_options
from ..dialects.writing.extras import changes_answer, find_effort
from ..errors import RequestError
from ..requests import ChatRequest, TranslatedRequest
from .endpoints import Upstream
from .options import RELAYS, options_of

_WORDS: Final = "openai_chat"
"""The dialect that extras come in the words of."""


class Fitted(NamedTuple):
    """A request without extras."""

    chat: ChatRequest
    """What they say of thinking is its effort, what has a place is in `provider_options`."""
    unknown: Sequence[str] = ()
    """Those that the upstream has no place for."""
    not_allowed: Sequence[str] = ()
    """Those that it is not set to take."""


def fit_extras(
    request: TranslatedRequest, *, upstream: Upstream, dialect: UpstreamFormat
) -> Fitted:
    """Translate a request's extras as far as an upstream has fields for them.

    Raises:
        RequestError: one would reach another model, destination, account or bill, or the
            answer would be a different one without it.
    """
    extras = request.extras or {}
    quirks = upstream.quirks or dialect.quirks()
    own = upstream.dialect == _WORDS
    allowed = options_of(upstream.dialect, upstream.options)
    reaching = options_of(_WORDS, None).list_refused(extras)
    if own:
        reaching = allowed.list_refused({name: extras[name] for name in reaching})
    if reaching:
        raise refuse(next(iter(reaching.values())), upstream)
    said: dict[str, Any] = {name: getattr(request, name) for name in ChatRequest.__struct_fields__}
    options: dict[str, Any] = {}
    unknown, not_allowed = [], []
    for name, value in extras.items():
        placed = dialect.place_extra(name, value, quirks=quirks)
        if placed is not None and not allowed.list_refused(placed):
            join_options(options, placed)
            continue
        effort = find_effort(name, value, words_only=upstream.dialect.startswith("openai_"))
        if effort is not None:
            said["reasoning_effort"] = said["reasoning_effort"] or effort
        elif changes_answer(name):
            raise refuse(name, upstream, knows=placed is not None)
        elif placed is None:
            unknown.append(name)
        else:
            not_allowed.append(name)
    join_options(options, request.provider_options)
    said["provider_options"] = options or None
    return Fitted(ChatRequest(**said), unknown, not_allowed)


def refuse(path: str, upstream: Upstream, *, knows: bool = True) -> RequestError:
    """Return the error for a field that an upstream is not set to take, or does not know."""
    name, field = upstream.name, path[:120]
    if path.rpartition(".")[2].lower().replace("_", "") in RELAYS:
        why = "only the request itself says that, and not the options of a provider"
    elif knows:
        why = f"upstream {name!r} does not take it from clients"
        why += f"; options in [upstream.{name}] of the relay's settings can allow it"
    else:
        why = f"upstream {name!r} knows no such field, and without it the answer would be another"
    return RequestError("invalid_request", f"{field}: {why}")
