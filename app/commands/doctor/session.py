"""One examination of one URL: the client, the measurements and the findings so far."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .path import Hop
from .wire import Client, Reply

PROMPT = "Say <b>naïve</b></body> 「せせらぎ」🌊 & \u2028 http://a.test a@b.test"
"""Text that a proxy must not change: markup, non-Latin scripts, an emoji, a line separator. The
demo repeats it in its first tokens."""

DEMO = "demo"
PAUSE = "demo-pause"
FAILING = "demo-error"
TOKEN_S = 0.025
"""Seconds per token of `demo` and `demo-pause`."""

PLAIN = {"accept": "text/event-stream"}
BROWSER = {**PLAIN, "accept-encoding": "gzip, deflate, br, zstd"}


@dataclass(frozen=True)
class Finding:
    code: str
    """A table of `advice.toml`."""
    message: str
    wrong: bool = True
    """False for a note, which does not change the exit status."""


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

    measures: dict[str, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    hops: list[Hop] = field(default_factory=list)
    echo: dict[str, Any] = field(default_factory=dict)
    """The answer of `GET /v1/echo`; empty if there is none."""
    models: frozenset[str] = frozenset()
    refusal: str = ""
    """The description of the relay's answer to a small invalid request."""

    def wrong(self, code: str, message: str) -> None:
        """Add a fault, once for each code."""
        if not self.found(code):
            self.findings.append(Finding(code, message))

    def note(self, code: str, message: str) -> None:
        if not self.found(code):
            self.findings.append(Finding(code, message, wrong=False))

    def found(self, *codes: str) -> bool:
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
            headers={"prefer": "respond-async"},
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
