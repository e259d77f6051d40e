"""One examination of one URL: the client, the measurements and the findings so far."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from .load import BUSY_S, Lag
from .path import Hop
from .wire import Client, Reply

PROMPT = "Say <b>naïve</b></body> 「せせらぎ」🌊 & \u2028 http://a.test a@b.test"
"""Text that a proxy must not change: markup, non-Latin scripts, an emoji, a line separator. The
demo repeats it in its first tokens."""

DEMO = "demo"
LONG = "demo-long"
PAUSE = "demo-pause"
FAILING = "demo-error"
TOKEN_S = 0.025
"""Seconds per token of `demo` and `demo-pause`."""

STREAM = ("accept", "text/event-stream")
BROWSER = (STREAM, ("accept-encoding", "gzip, deflate, br, zstd"))
PLAIN = (STREAM, ("accept-encoding", "identity"))

Code = Literal[
    "tls",
    "not_seseragi",
    "redirect",
    "host",
    "origin",
    "prefix",
    "credential",
    "page",
    "errors",
    "methods",
    "body_size",
    "http10",
    "http10_upstream",
    "client_address",
    "buffered",
    "compressed",
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
    "http2",
    "flaky",
    "rate_limit",
    "repeated",
    "busy",
]


@dataclass(frozen=True)
class Finding:
    code: Code
    message: str
    wrong: bool = True
    """False for a note, which does not change the exit status."""
    values: dict[str, object] = field(default_factory=dict)
    """The numbers of the message, for programs."""
    not_by: frozenset[str] = frozenset()
    """Programs that are ruled out."""
    between: tuple[str, str] | None = None
    """The innermost URL with the finding and the next one without it, or "" if there is none.
    None if only one URL was examined."""

    def suspects(self, hops: Iterable[Hop]) -> list[Hop]:
        """Return the programs that may have caused it."""
        return [hop for hop in hops if hop.program not in self.not_by]


@dataclass(frozen=True)
class Measure:
    name: str
    message: str
    values: dict[str, object] = field(default_factory=dict)


class GivenUp(Exception):
    """The examination cannot go on."""


@dataclass
class Session:
    """One examination of one URL."""

    client: Client
    idle_s: float
    model: str | None = None
    """Replaces the demo's models."""
    progress: Callable[[str], None] = lambda text: None

    measures: list[Measure] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    hops: list[Hop] = field(default_factory=list)
    unseen: int = 0
    """Proxies that X-Forwarded-For counts beyond `hops`."""
    echo: dict[str, Any] = field(default_factory=dict)
    """The answer of `GET /v1/echo`; empty if there is none."""
    models: frozenset[str] = frozenset()
    lag: Lag = field(default_factory=Lag)
    given_up: bool = False
    refusal: str = ""
    """The description of the relay's answer to a small invalid request."""

    def measure(self, name: str, message: str, **values: object) -> None:
        self.measures.append(Measure(name, message, values))

    def wrong(
        self, code: Code, message: str, *, not_by: frozenset[str] = frozenset(), **values: object
    ) -> None:
        """Add a fault, once for each code."""
        if not self.found(code):
            self.findings.append(Finding(code, message, values=values, not_by=not_by))

    def note(self, code: Code, message: str, **values: object) -> None:
        if not self.found(code):
            self.findings.append(Finding(code, message, wrong=False, values=values))

    def late(
        self, code: Code, message: str, *, during: Iterable[tuple[float, float]], **values: object
    ) -> None:
        """Add a fault that only times show, or the note `busy` if timers were late meanwhile.

        `during` are the spans of its measurements; one without a late timer is enough.
        """
        if self.found(code):
            return
        worst = min(self.lag.worst(*span) for span in during)
        if worst < BUSY_S:
            self.findings.append(Finding(code, message, values=values))
        elif not any(finding.values.get("unsure") == code for finding in self.findings):
            message = (
                f"timers of this machine were late by up to {within(worst)}, so this is not "
                f"certain: {message}"
            )
            lag: dict[str, object] = {"unsure": code, "lag_s": round(worst, 3)}
            self.findings.append(Finding("busy", message, wrong=False, values=lag))

    def lacks(self, code: Code, reply: Reply, message: str) -> None:
        """Add a request that did not arrive; no answer, or 502 to 504, may be a busy machine."""
        if reply.bad_gateway or not reply.status:
            self.late(code, message, during=[reply.span])
        else:
            self.wrong(code, message)

    def found(self, *codes: Code) -> bool:
        return any(finding.code in codes for finding in self.findings)

    @property
    def heartbeat_s(self) -> float:
        given = self.echo.get("heartbeat_s")
        return float(given) if isinstance(given, int | float) and given > 0 else 10.0

    def has(self, model: str) -> bool:
        """Return whether the relay has a model of the demo, and `--model` does not replace it."""
        return model in self.models and self.model is None

    def chat(self, *, model: str = DEMO, **fields: Any) -> dict[str, Any]:
        message = {"role": "user", "content": PROMPT}
        return {"model": self.model or model, "messages": [message], **fields}

    async def start(self, **fields: Any) -> str:
        """Start a stream without a reader and return its id, or "" if that failed."""
        reply = await self.client.ask(
            "POST",
            "/v1/chat",
            body=self.chat(**fields),
            headers=[("prefer", "respond-async")],
            until=lambda reply: reply.status == 200,  # the header was removed: it streams
        )
        stream = reply.json().get("id") if reply.status == 202 else reply.header("stream-id")
        return stream if isinstance(stream, str) else ""

    async def state(self, stream: str) -> dict[str, Any]:
        """Return the relay's description of a stream, or an empty object."""
        reply = await self.client.ask("GET", f"/v1/streams/{stream}")
        return reply.json() if reply.status == 200 else {}

    async def stop(self, stream: str) -> Reply:
        return await self.client.ask("POST", f"/v1/streams/{stream}/cancel")


def within(seconds: float) -> str:
    """Format a duration."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"


def size(number: float) -> str:
    """Format a number of bytes."""
    if number < 1024:
        return f"{number:.0f} bytes"
    if number < 2**20:
        return f"{number / 1024:.0f} KiB" if number >= 10_000 else f"{number / 1024:.1f} KiB"
    return f"{number / 2**20:.1f} MiB"
