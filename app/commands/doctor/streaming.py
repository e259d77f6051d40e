"""One stream of known timing, from its first byte to its end."""

from dataclasses import dataclass
from typing import Any

from . import timing
from .frames import Frames, read_frames
from .load import BUSY_S, LATE_S
from .reachability import judge_redirect
from .session import BROWSER, PLAIN, TOKEN_S, GivenUp, Session, within
from .timing import Timing
from .wire import Reply

TOKENS = 80
FIRST_TOKEN_S = 0.25
"""Seconds until the first token of `demo`."""
TRIES = 3
"""A busy machine may join tokens once; a buffering proxy does so every time."""
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
    for _ in range(TRIES - 1):
        if not seen.timing.held or seen.reply.all("content-length"):
            break
        seen = await _read_stream(session, PLAIN)
    _measure_first_byte(session, seen)
    judge_timing(session, seen)
    _judge_coding(session, as_browser.reply.coding)
    _judge_headers(session, as_browser.reply)
    judge_frames(session, seen)
    _judge_end(session, seen)


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
    start = frames.frames[0].event if frames.frames else {}
    stream = reply.header("stream-id") or str(start.get("stream", ""))
    return Stream(reply, frames, await session.state(stream) if stream else {})


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


def judge_timing(session: Session, seen: Stream) -> None:
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
    late_s = session.lag.worst(*reply.span)
    if reply.all("content-length"):
        session.wrong(
            "buffered",
            f"the whole answer is collected before it is sent (it has a content-length): {tokens}",
        )
    elif found.held and late_s > (BUSY_S if found.held == "at once" else LATE_S):
        session.note(
            "busy",
            f"{tokens}, {found.largest} at once at most, but this machine's timers are late by up "
            f"to {within(late_s)}",
        )
    elif found.held:
        session.wrong(
            "buffered",
            f"tokens are held back: {tokens}, and were written in {within(found.written_s)}"
            if found.held == "at once"
            else f"tokens are held back: they come {found.largest} at once at most, "
            f"{within(found.period_s)} apart",
        )


def _judge_coding(session: Session, coding: str) -> None:
    session.measure("compression", coding or "none", coding=coding)
    if not coding:
        return
    session.wrong(
        "compressed",
        f"the stream is compressed ({coding}), although the relay sends no-transform: most proxies "
        "then hold tokens back",
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
        session.wrong("headers", f"headers of the stream were changed: {message}")
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
            session.wrong("fields", f"the body is not an event stream: it begins {start!r}")
        return
    changes = [
        f"{name}: is gone"
        for name, among in (("retry", frames[:1]), ("id", frames), ("event", frames))
        if not all(frame.fields.get(name) for frame in among)
    ]
    if seen.frames.ended and seen.state.get("text") not in (None, seen.frames.text):
        changes.append("the text is not the relay's")
    if changes:
        session.wrong("fields", f"the stream was changed: {'; '.join(changes)}")


def _judge_end(session: Session, seen: Stream) -> None:
    reply = seen.reply
    after = within(reply.ended - (reply.connected or reply.began))
    if seen.frames.ended and reply.ending in ("cut", "silent"):
        how = "breaks" if reply.ending == "cut" else "stays open"
        session.wrong("truncated", f"after the stream's end the connection {how}")
    elif seen.frames.frames and not seen.frames.ended and reply.ending in ("whole", "cut"):
        clean = ", as if it were complete" if reply.ending == "whole" else ""
        session.wrong("truncated", f"a stream ends after {after} without stream.end{clean}")
