"""What the probes share: the client, what is known by now, and what was found."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from .findings import Code, Finding, Measure
from .load import BUSY_S, Lag
from .path import Hop
from .wire import Client, Reply

PROMPT = "Say <b>naïve</b></body> 「せせらぎ」🌊 & \u2028 http://a.test a@b.test"
"""Text that a proxy may not touch: markup, where scripts are put in, other scripts, an emoji, a
line separator, what is masked or rewritten. The demo says it again, in its first tokens."""
HARMLESS = "せせらぎ"

DEMO = "demo"
LONG = "demo-long"
PAUSE = "demo-pause"
FAILING = "demo-error"
TOKEN_S = 0.025
"""The time of one token of `demo` and `demo-pause`."""

STREAM = ("accept", "text/event-stream")
BROWSER = (STREAM, ("accept-encoding", "gzip, deflate, br, zstd"))
PLAIN = (STREAM, ("accept-encoding", "identity"))


class GivenUp(Exception):
    """Nothing more can be found out; `tried` says whether anything was."""

    def __init__(self, reason: str = "", *, tried: bool = True) -> None:
        super().__init__(reason)
        self.tried = tried


@dataclass
class Session:
    """One examination of one URL."""

    client: Client
    idle_s: float
    model: str | None = None
    """What to ask instead of the demo's models."""
    origin: str | None = None
    """The page that is to call the relay."""
    say: Callable[[str], None] = lambda text: None
    """Called with what is done next."""

    measures: list[Measure] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    hops: list[Hop] = field(default_factory=list)
    unseen: int = 0
    """How many more proxies there are that do not say who they are, at least."""
    arrival: dict[str, Any] = field(default_factory=dict)
    """How a request came, as the relay tells it; empty if it does not."""
    models: frozenset[str] = frozenset()
    plain: bool = False
    """Whether something refuses prompts that look like code."""
    lag: Lag = field(default_factory=Lag)
    given_up: bool = False
    """Whether it ended early, at something that hides all else."""
    refusal: str = ""
    """How a small request is refused that the relay cannot take."""

    def measure(self, name: str, says: str, **values: object) -> None:
        self.measures.append(Measure(name, says, values))

    def wrong(
        self, code: Code, says: str, *, not_by: frozenset[str] = frozenset(), **values: object
    ) -> None:
        """Note a fault, once for each code; `not_by` are programs that do not do that."""
        if not self.found(code):
            self.findings.append(Finding(code, says, values=values, not_by=not_by))

    def note(self, code: Code, says: str, **values: object) -> None:
        """Note something that is worth knowing and no fault."""
        if not self.found(code):
            self.findings.append(Finding(code, says, wrong=False, values=values))

    def lacks(self, code: Code, reply: Reply, says: str) -> None:
        """Note that a request did not get where it should.

        That nothing came, or that a gateway waited in vain, may be a busy machine.
        """
        if reply.bad_gateway or not reply.status:
            self.late(code, says, during=[reply.span])
        else:
            self.wrong(code, says)

    def late(
        self, code: Code, says: str, *, during: Iterable[tuple[float, float]], **values: object
    ) -> None:
        """Note a fault that is known by times alone, if this machine can tell.

        `during` are the spans in which it was measured; one without a late timer is enough.
        """
        if self.found(code):
            return
        worst = min(self.lag.worst(*span) for span in during)
        if worst < BUSY_S:
            self.findings.append(Finding(code, says, values=values))
        elif not any(finding.values.get("unsure") == code for finding in self.findings):
            says = (
                f"this machine's own timers were late by up to {within(worst)} meanwhile, so it is "
                f"not sure that {says}"
            )
            lag: dict[str, object] = {"unsure": code, "lag_s": round(worst, 3)}
            self.findings.append(Finding("busy", says, wrong=False, values=lag))

    def found(self, *codes: Code) -> bool:
        return any(finding.code in codes for finding in self.findings)

    @property
    def heartbeat_s(self) -> float:
        """After how much silence the relay sends a comment."""
        given = self.arrival.get("heartbeat_s")
        return float(given) if isinstance(given, int | float) and given > 0 else 10.0

    def has(self, model: str) -> bool:
        return model in self.models

    def chat(self, *, model: str = DEMO, **fields: Any) -> dict[str, Any]:
        """Return a request for an answer, by the model that was asked for if there is one."""
        message = {"role": "user", "content": HARMLESS if self.plain else PROMPT}
        return {"model": self.model or model, "messages": [message], **fields}

    async def start(self, **fields: Any) -> str:
        """Start a stream that nobody reads, and return its id; "" if that failed."""
        reply = await self.client.ask(
            "POST",
            "/v1/chat",
            body=self.chat(**fields),
            headers=[("prefer", "respond-async")],
            until=lambda reply: reply.status == 200,  # the header was lost: it streams
        )
        stream = reply.json().get("id") if reply.status == 202 else reply.header("stream-id")
        return stream if isinstance(stream, str) else ""

    async def state(self, stream: str) -> dict[str, Any]:
        """Return what the relay says of a stream; an empty object if it says nothing."""
        reply = await self.client.ask("GET", f"/v1/streams/{stream}")
        return reply.json() if reply.status == 200 else {}

    async def stop(self, stream: str) -> Reply:
        return await self.client.ask("POST", f"/v1/streams/{stream}/cancel")


def within(seconds: float) -> str:
    """Write a time for people."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"


def size(number: float) -> str:
    """Write a number of bytes for people."""
    if number < 1024:
        return f"{number:.0f} bytes"
    if number < 2**20:
        return f"{number / 1024:.0f} KiB" if number >= 10_000 else f"{number / 1024:.1f} KiB"
    return f"{number / 2**20:.1f} MiB"
