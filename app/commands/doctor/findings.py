"""What the doctor found: what is wrong, what is only worth knowing, and what was measured."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from .path import Hop

Code = Literal[
    "address",
    "tls",
    "certificate",
    "not_seseragi",
    "redirect",
    "host",
    "origin",
    "prefix",
    "credential",
    "page",
    "errors",
    "methods",
    "filter",
    "request_header",
    "query",
    "body_size",
    "http10",
    "http10_upstream",
    "client_address",
    "first_byte",
    "buffered",
    "compressed",
    "throttled",
    "altered",
    "fields",
    "truncated",
    "headers",
    "cached",
    "replicas",
    "last_event_id",
    "comments",
    "idle_cut",
    "total_cut",
    "json_cut",
    "disconnect",
    "stop",
    "concurrency",
    "cors",
    "clock",
    "http2",
    "flaky",
    "rate_limit",
    "repeated",
    "busy",
]


@dataclass(frozen=True)
class Finding:
    code: Code
    says: str
    """What was seen, with its numbers."""
    wrong: bool = True
    """False: worth knowing, and not to be mended by all means."""
    values: dict[str, object] = field(default_factory=dict)
    """The numbers, for programs."""
    not_by: frozenset[str] = frozenset()
    """Programs that are ruled out."""
    between: tuple[str, str] | None = None
    """The URL with it and the one behind that without it, "" if there is none; None where only one
    URL was examined."""

    def suspects(self, hops: Iterable[Hop]) -> list[Hop]:
        """Return the programs that may have done it."""
        return [hop for hop in hops if hop.program not in self.not_by]


@dataclass(frozen=True)
class Measure:
    name: str
    says: str
    values: dict[str, object] = field(default_factory=dict)
