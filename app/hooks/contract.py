"""What a hook receives and returns, and how a slow or failing one is handled."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Literal, NamedTuple

import msgspec
import structlog
from msgspec import Meta

from ..errors import RelayError, RequestError, ServiceError

Stage = Literal["request", "answer"]

MAX_REASON = 300
"""Characters of a hook's reason or note that are shown."""

RETRY_S = 1
"""Seconds after which a client may try again when a hook has failed."""

log = structlog.get_logger("seseragi.hooks")


class Text(msgspec.Struct, frozen=True):
    """A text to check."""

    kind: str
    """In an answer `text`, `reasoning`, `refusal`, `tool_arguments` or the type of its event; in a
    request the role of its message, `tool` for a definition of a tool or of the answer's format,
    or `option`. In both `name` for names, ids, and keys of objects."""
    text: str
    before: str = ""
    """The end of what precedes it in an answer, and has been passed on."""
    final: bool = True
    """Whether it ends with this text; otherwise its end may be checked again."""


class Check(msgspec.Struct, frozen=True):
    """What a hook receives."""

    stage: Stage
    route: str
    stream: str
    texts: Sequence[Text]


class Verdict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a hook returns: a dict with these keys, or None to pass everything."""

    texts: list[str] | None = None
    """The texts to pass on, as many as it received; None: unchanged."""
    stop: str | None = None
    """The reason to stop the request or the answer."""
    note: str | None = None
    """A notice for readers."""
    hold: Annotated[int, Meta(ge=0)] = 0
    """The characters at the end of the last text that wait for what follows it in an answer."""


PASS = Verdict()

Function = Callable[[Check], Awaitable[object]]


class Hook(msgspec.Struct, frozen=True, kw_only=True):
    """One hook with its settings."""

    name: str
    call: Function
    stages: frozenset[str] = frozenset(("request", "answer"))
    routes: frozenset[str] | None = None
    """None: all."""
    hold: int = 200
    """The characters of an answer that wait for what follows."""
    timeout_s: float = 2.0
    fails_open: bool = False
    """Whether texts are passed on unchecked if it fails."""

    async def check(self, check: Check) -> Verdict:
        """Return the verdict.

        Raises:
            ServiceError: `overloaded`, it failed, and nothing may pass unchecked.
        """
        trying = asyncio.create_task(self._try(check))
        try:
            done, _ = await asyncio.wait({trying}, timeout=self.timeout_s)
        finally:  # not awaited: a function may catch its cancellation
            trying.cancel()
        found = trying.result() if done else TimeoutError()
        if isinstance(found, Verdict):
            return found
        # The error's message may quote the text.
        why = found.code if isinstance(found, RelayError) else type(found).__name__
        log.error("hook failed", hook=self.name, stream=check.stream, why=why)
        if self.fails_open:
            return Verdict(note="it failed, so that this is unchecked")
        raise ServiceError(
            "overloaded",
            f"the hook {self.name!r} failed, and nothing may pass unchecked; try again",
            retry_after_s=RETRY_S,
        )

    async def _try(self, check: Check) -> Verdict | BaseException:
        """Return the verdict or the error: the event loop logs one for which nobody waits."""
        try:
            return _read(await self.call(check), len(check.texts))
        except (Exception, asyncio.CancelledError) as error:
            return error


def _read(found: object, count: int) -> Verdict:
    """Validate a result.

    Raises:
        msgspec.ValidationError, ValueError: it is invalid.
    """
    if found is None:
        return PASS
    if isinstance(found, Verdict):
        found = msgspec.to_builtins(found)
    verdict = msgspec.convert(found, Verdict)
    if verdict.texts is not None and len(verdict.texts) != count:
        raise ValueError
    return verdict


class Passed(NamedTuple):
    """Texts after all hooks."""

    texts: Sequence[str]
    notes: Sequence[str]
    hold: int = 0
    """The characters at the end of the last text that have to wait."""


async def apply(hooks: Sequence[Hook], check: Check) -> Passed:
    """Pass texts through hooks, in order.

    Raises:
        RelayError: `content_filtered`, a hook stops it; `overloaded`, a hook failed.
    """
    notes, hold = [], 0
    for hook in hooks:
        verdict = await hook.check(check)
        if verdict.stop is not None:
            reason = verdict.stop[:MAX_REASON]
            message = f"the hook {hook.name!r} stopped the {check.stage}: {reason}"
            raise RequestError("content_filtered", message)
        hold = max(hold, verdict.hold)
        if verdict.note is not None:
            notes.append(f"hook {hook.name!r}: {verdict.note[:MAX_REASON]}")
        if verdict.texts is not None:
            texts = [
                msgspec.structs.replace(old, text=new)
                for old, new in zip(check.texts, verdict.texts, strict=True)
            ]
            check = msgspec.structs.replace(check, texts=texts)
    return Passed([one.text for one in check.texts], notes, hold)


class Hooks:
    """The hooks of the settings, in order."""

    def __init__(self, hooks: Sequence[Hook]) -> None:
        self._hooks = hooks

    def of(self, route: str, stage: Stage) -> tuple[Hook, ...]:
        """Return the hooks of a route for requests or answers."""
        return tuple(
            hook
            for hook in self._hooks
            if stage in hook.stages and (hook.routes is None or route in hook.routes)
        )
