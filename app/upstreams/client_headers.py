"""Headers between a client and a provider of its dialect, as far as `options` allow them.

An option `header.NAME` is a header of the request, `reply_header.NAME` one of the reply. Neither
list has credentials or cookies. Those of the settings come first: a client cannot replace them.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from .endpoints import Upstream
from .http import REPLY_NAMES, HttpHead
from .options import options_of

REQUEST_NAMES: Final = frozenset(
    (b"idempotency-key", b"openai-beta", b"openai-organization", b"openai-project")
) | {b"traceparent", b"tracestate", b"x-client-request-id"}
RATE_LIMITS: Final = ("anthropic-ratelimit-", "x-ratelimit-")
"""The first parts of names of headers that the relay sends with limits of its own."""

REQUEST_ID: Final = "upstream-request-id"

_HARMLESS: Final = ("openai-processing-ms", "openai-version")
"""Those that do not describe the relay's account."""

IGNORED: Final = "seseragi-ignored"
"""The header that names the parts of a request that were not sent to its upstream."""

MAX_IGNORED: Final = 20
"""The maximum number of parts that it names."""

_UNSAFE: Final = re.compile(r"[^\w.\[\]-]", re.ASCII)

MAX_VALUE: Final = 512
"""OpenAI's limit for `x-client-request-id`."""
MAX_RATE_LIMITS: Final = 40


def ignored_header(fields: Sequence[str]) -> dict[str, str]:
    """Return the header that names dropped parts of a request; none if there are none."""
    shown = ", ".join([_UNSAFE.sub("?", name[:80]) for name in fields[:MAX_IGNORED]])
    return {IGNORED: shown} if shown else {}


def read_request_headers(headers: Mapping[bytes, Sequence[bytes]]) -> dict[str, str]:
    """Return the headers of a client's request that a provider may receive."""
    found = {}
    for name in sorted(REQUEST_NAMES & headers.keys()):
        value = b",".join(headers[name]).decode("latin-1")
        if _is_valid(value):
            found[name.decode()] = value
    return found


def list_request_headers(upstream: Upstream, headers: Mapping[str, str]) -> dict[str, str]:
    """Return those of a client's headers that an upstream accepts."""
    allowed = _allow(upstream, "header", headers)
    return {name: value for name, value in headers.items() if name in allowed}


def list_reply_headers(upstream: Upstream, head: HttpHead) -> dict[str, str]:
    """Return the headers for the client of a provider's reply."""
    limits = [name for name in map(str.lower, head.headers) if name.startswith(RATE_LIMITS)]
    names = [name for name in REPLY_NAMES if name in head.headers]
    names += dict.fromkeys(limits[:MAX_RATE_LIMITS])
    allowed = {*_HARMLESS, *_allow(upstream, "reply_header", names)} if names else set()
    found = {
        f"upstream-{name}" if name.startswith(RATE_LIMITS) else name: head.headers[name]
        for name in names
        if name in allowed
    }
    if head.request_id:
        found[REQUEST_ID] = head.request_id
    return {n: upstream.redact(value) for n, value in found.items() if _is_valid(value)}


def _allow(upstream: Upstream, kind: str, names: Iterable[str]) -> set[str]:
    options = options_of(upstream.dialect, upstream.options)
    return {name for name in names if not options.list_refused({kind: {name: ""}})}


def _is_valid(value: str) -> bool:
    return value.isascii() and value.isprintable() and 0 < len(value) <= MAX_VALUE
