"""One stream of known timing, from its first byte to its end."""

import asyncio
import time
from dataclasses import dataclass
from typing import Any

from . import timing
from .frames import Frames, read_frames
from .load import BUSY_S, why_not_calm
from .reachability import judge_redirect
from .session import BROWSER, PLAIN, TOKEN_S, GivenUp, Session, size, within
from .timing import Timing
from .wire import Reply

TOKENS = 80
FIRST_TOKEN_S = 0.25
"""Seconds until the first token of `demo`."""
STREAM_WITHOUT_LENGTH = frozenset(("nginx", "haproxy"))
"""Programs that buffer blocks of an answer, and never collect it to add a content-length."""
TRIES = 3
"""A busy machine may join tokens once; a buffering proxy does so every time."""
BESIDE_S = 0.1
"""Between short requests beside a stream."""
MORE_S = 15.0


@dataclass
class Stream:
    """An answer, and the relay's own description of it."""

    reply: Reply
    frames: Frames
    state: dict[str, Any]

    @property
    def written_s(self) -> float | None:
        """Seconds from its first to its last event in the relay, if known."""
        timings = self.state.get("timings")
        if not isinstance(timings, dict):
            return None
        began, ended = timings.get("started_at"), timings.get("ended_at")
        if not isinstance(began, int | float) or not isinstance(ended, int | float):
            return None
        return float(ended - began)

    @property
    def timing(self) -> Timing:
        times = [frame.at for frame in self.frames.deltas]
        written = self.written_s
        if written is None:
            written = TOKEN_S * len(times)
        return timing.measure(times, written_s=max(0.0, written - FIRST_TOKEN_S))


async def look_at_stream(session: Session) -> None:
    """Measure one stream as a browser requests it.

    Raises:
        GivenUp: there is no stream to measure.
    """
    session.progress("measuring a stream")
    as_browser = await _read_stream(session, BROWSER)
    seen = await _read_stream(session, PLAIN) if as_browser.reply.coding else as_browser
    excuse = ""
    for _ in range(TRIES - 1):
        if not _may_be_the_machine(session, seen):
            break
        seen, excuse = await _read_watched(session)
        if not excuse:
            break
    _measure_first_byte(session, seen)
    judge_timing(session, seen, excuse)
    _judge_coding(session, as_browser, seen)
    _judge_headers(session, as_browser.reply)
    judge_frames(session, seen)
    _judge_end(session, seen)


def _may_be_the_machine(session: Session, seen: Stream) -> bool:
    held = seen.timing.held
    return held == "in bursts" or (held == "at once" and _stood_still(session, seen))


def _stood_still(session: Session, seen: Stream) -> bool:
    """Return whether this process was stopped while a stream came: all comes at once then."""
    return session.lag.worst(*seen.reply.span) >= BUSY_S


async def _read_stream(session: Session, headers: tuple[tuple[str, str], ...]) -> Stream:
    reply = await session.client.ask(
        "POST",
        "/v1/chat",
        body=session.chat(max_tokens=TOKENS),
        headers=headers,
        within_s=session.client.timeout_s + MORE_S,
    )
    if reply.status != 200:
        message = str(reply.json().get("detail", "")) or reply.describe()
        if reply.code == "method_not_allowed":
            session.wrong("methods", f"POST does not reach the relay as POST: {message}")
        elif reply.code:
            raise GivenUp(f"the relay starts no stream to measure: {message}")
        elif reply.limited:
            session.wrong(
                "rate_limit", f"POST /v1/chat: refused each time before the relay: {message}"
            )
        elif not judge_redirect(session, reply):
            session.lacks("page", reply, f"POST /v1/chat does not reach the relay: {message}")
        raise GivenUp
    if reply.is_page:
        session.wrong("page", "POST /v1/chat does not reach the relay: it gets an HTML page")
        raise GivenUp
    frames = read_frames([] if reply.coding else reply.pieces)
    stream = reply.header("stream-id") or next(
        (str(frame.event["stream"]) for frame in frames.frames if "stream" in frame.event), ""
    )
    return Stream(reply, frames, await session.state(stream) if stream else {})


async def _read_watched(session: Session) -> tuple[Stream, str]:
    """Read a stream and short answers beside it; return why times mean nothing, or ""."""
    began = time.monotonic()
    answers: list[float] = []
    asking = asyncio.create_task(_ask_beside(session, answers))
    try:
        seen = await _read_stream(session, PLAIN)
    finally:
        asking.cancel()
        # A `suppress(CancelledError)` here would swallow a Ctrl-C of this very moment too.
        await asyncio.wait([asking])
    return seen, why_not_calm(session.lag.worst(began), answers)


async def _ask_beside(session: Session, answers: list[float]) -> None:
    while not session.client.limited:
        reply = await session.client.ask("GET", "/healthz", anonymous=True)
        answers.append(reply.ended - reply.began)
        await asyncio.sleep(BESIDE_S)


def _measure_first_byte(session: Session, seen: Stream) -> None:
    reply = seen.reply
    begun = reply.connected or reply.began
    head = (reply.headed or reply.ended) - begun
    deltas = seen.frames.deltas
    token = deltas[0].at - begun if deltas else None
    session.measure(
        "first byte",
        f"connected in {within(begun - reply.began)}, head after {within(head)}, "
        f"{'no token' if token is None else f'first token after {within(token)}'}",
        connect_s=round(begun - reply.began, 4),
        head_s=round(head, 4),
        token_s=None if token is None else round(token, 4),
    )


def judge_timing(session: Session, seen: Stream, excuse: str) -> None:
    found, reply = seen.timing, seen.reply
    tokens = f"{found.tokens} tokens came within {within(found.spread_s)}"
    session.measure(
        "timing",
        f"{tokens}, written in {within(found.written_s)}, in {found.groups} groups, "
        f"{found.largest} at once at most",
        tokens=found.tokens,
        written_s=round(found.written_s, 3),
        spread_s=round(found.spread_s, 3),
        groups=found.groups,
        largest=found.largest,
    )
    sized = bool(reply.all("content-length"))
    if reply.version == "1.1" and not (
        sized or "chunked" in reply.header("transfer-encoding").lower()
    ):
        session.note(
            "http10",
            "a stream has no chunks, as in HTTP/1.0: it ends with its connection, and one that "
            "was cut looks complete",
        )
    if sized:
        innocent = [hop.shown for hop in session.hops if hop.program in STREAM_WITHOUT_LENGTH]
        session.wrong(
            "buffered",
            "the whole answer is collected before it is sent (it has a content-length"
            f"{', which ' + ' and '.join(innocent) + ' would not add' if innocent else ''}): "
            f"{tokens}",
            not_by=STREAM_WITHOUT_LENGTH,
            how="collected",
        )
    elif found.held == "at once" and _stood_still(session, seen):
        session.note("busy", f"{tokens}, but this machine stood still meanwhile; try again")
    elif found.held == "in bursts" and excuse:
        session.note("busy", f"{found.largest} tokens come at once at most, but {excuse}")
    elif found.held:
        block = timing.block_bytes(reply.pieces)
        groups = f", in blocks of about {size(block)}" if block else ""
        session.wrong(
            "buffered",
            f"tokens are held back: {tokens}, and were written in {within(found.written_s)}"
            if found.held == "at once"
            else f"tokens are held back: they come {found.largest} at once at most, "
            f"{within(found.period_s)} apart{groups}",
            how=found.held,
            block_bytes=block,
            period_s=round(found.period_s, 3),
        )


def _judge_coding(session: Session, as_browser: Stream, seen: Stream) -> None:
    coding = as_browser.reply.coding
    session.measure("compression", coding or "none", coding=coding)
    if not coding:
        return
    times = [at for at, _ in as_browser.reply.pieces]
    spread = times[-1] - times[0] if times else 0.0
    written = as_browser.written_s or TOKEN_S * TOKENS
    held = spread < timing.AT_ONCE * written or len(times) < timing.ENOUGH
    session.wrong(
        "compressed",
        f"the stream is compressed ({coding}), although the relay sends no-transform: "
        f"{'tokens are held back' if held else 'each token is flushed, for nothing but CPU time'}",
        coding=coding,
        held=held,
    )


def _judge_headers(session: Session, reply: Reply) -> None:
    changed = []
    kind = reply.header("content-type").lower()
    if reply.media_type != "text/event-stream":
        changed.append(f"content-type is {kind or 'gone'!r}, which EventSource refuses")
    elif "charset=" in kind and "utf-8" not in kind:
        changed.append(f"content-type is {kind!r}, but the text is UTF-8")
    control = reply.header("cache-control").lower()
    missing = [word for word in ("no-store", "no-transform") if word not in control]
    if missing:
        changed.append(f"cache-control is {control or 'gone'!r}, without {' and '.join(missing)}")
    changed += [
        f"{name} is gone"
        for name in ("stream-id", "content-location", "x-request-id")
        if not reply.all(name)
    ]
    if changed:
        message = "; ".join(changed)
        session.wrong("headers", f"headers of the stream were changed: {message}", changed=changed)
    prefix, place = session.client.url.prefix, reply.header("content-location")
    if prefix and place and not place.startswith(f"{prefix}/"):
        session.wrong(
            "prefix",
            f"the relay sends URLs such as {place.partition('?')[0]!r}, without the prefix "
            f"{prefix!r} that the proxy removes",
        )


def judge_frames(session: Session, seen: Stream) -> None:
    frames = seen.frames.frames
    if not frames:
        if seen.reply.size and not seen.reply.coding:
            start = seen.reply.pieces[0][1][:60]
            session.wrong("altered", f"the body is no event stream: it begins {start!r}")
        return
    missing = [
        name
        for name, is_there in (
            ("retry:", frames[0].value("retry") is not None),
            ("id:", all(frame.value("id") for frame in frames)),
            ("event:", all(frame.value("event") for frame in frames)),
        )
        if not is_there
    ]
    if missing:
        session.wrong("fields", f"{' and '.join(missing)} of the frames are gone", fields=missing)
    odd = list(seen.frames.odd)
    if any(not frame.event for frame in frames):
        odd.append("data that is no JSON")
    numbers = seen.frames.numbers
    if numbers and numbers != list(range(1, len(numbers) + 1)):
        odd.append("events are missing, doubled or out of order")
    stream = seen.reply.header("stream-id")
    if stream and any(not (frame.value("id") or stream).startswith(stream) for frame in frames):
        odd.append(f"ids are not those of the stream: {frames[0].value('id')!r}")
    if seen.frames.ended and seen.frames.rest:
        odd.append(f"{seen.frames.rest[:60]!r} after the last event")
    text = seen.state.get("text")
    if seen.frames.ended and isinstance(text, str) and text != seen.frames.text:
        odd.append("the text is not the relay's")
    if odd:
        session.wrong("altered", f"the stream was changed: {'; '.join(odd)}", odd=odd)


def _judge_end(session: Session, seen: Stream) -> None:
    reply = seen.reply
    if seen.frames.ended:
        if reply.ending in ("cut", "silent"):
            how = "breaks" if reply.ending == "cut" else "stays open"
            session.wrong("truncated", f"after the stream's end the connection {how}")
    elif seen.frames.frames and reply.ending in ("whole", "cut"):
        after = reply.ended - (reply.connected or reply.began)
        clean = ", as if it were complete" if reply.ending == "whole" else ""
        session.wrong(
            "truncated",
            f"a stream ends after {within(after)} and {size(reply.size)} without stream.end{clean}",
        )
