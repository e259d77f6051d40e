"""One stream of known pace, from its first byte to its end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from .reachability import judge_redirect
from .session import BROWSER, PLAIN, TOKEN_S, GivenUp, Session, within
from .wire import Frames, Reply, read_frames

TOKENS = 80
TRIES = 3
"""A busy machine may join tokens once; a buffering proxy does so every time."""
MORE_S = 15.0

ENOUGH = 10
"""Tokens, for any verdict."""
TOGETHER_S = 0.004
"""Tokens less than this apart came at once."""
USUAL = 3
"""Tokens that may come together by chance, but not on average: a fifteenth of a relay's do."""
AT_ONCE = 0.3
"""Of the time in which it was written: a stream that came within less was held to its end."""
LATE = 1.3
"""Of the time in which it was written: a stream that took longer is slow, and not held back."""


@dataclass
class Stream:
    """An answer, and the relay's own description of it."""

    reply: Reply
    frames: Frames
    state: dict[str, Any]

    @property
    def held(self) -> bool:
        return are_held([frame.at for frame in self.frames.deltas])


def are_held(times: Sequence[float]) -> bool:
    """Return whether tokens, which the demo writes evenly, were held back and came in groups."""
    if len(times) < ENOUGH:
        return False
    spread, written = times[-1] - times[0], TOKEN_S * len(times)
    in_groups = len(times) > USUAL * count_groups(times)
    return spread < AT_ONCE * written or (in_groups and spread < LATE * written + 1)


def count_groups(times: Sequence[float]) -> int:
    """Count the groups of tokens that came at once."""
    gaps = (later - earlier for earlier, later in pairwise(times))
    return bool(times) + sum(gap > TOGETHER_S for gap in gaps)


async def look_at_stream(session: Session) -> None:
    """Measure one stream as a browser requests it.

    Raises:
        GivenUp: there is no stream to measure.
    """
    session.progress("measuring a stream")
    as_browser = await _read_stream(session, BROWSER)
    seen = await _read_stream(session, PLAIN) if as_browser.reply.coding else as_browser
    for _ in range(TRIES - 1):
        if session.model or not seen.held or seen.reply.header("content-length"):
            break
        seen = await _read_stream(session, PLAIN)
    judge_timing(session, seen)
    _judge_coding(session, as_browser.reply.coding)
    _judge_headers(session, as_browser.reply)
    judge_frames(session, seen)
    _judge_end(session, seen)


async def _read_stream(session: Session, headers: Mapping[str, str]) -> Stream:
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
            session.wrong("page", f"POST /v1/chat does not reach the relay: {message}")
        raise GivenUp
    if reply.is_page:
        session.wrong("page", "POST /v1/chat does not reach the relay: it gets an HTML page")
        raise GivenUp
    frames = read_frames([] if reply.coding else reply.pieces)
    start = frames.frames[0].event if frames.frames else {}
    stream = reply.header("stream-id") or str(start.get("stream", ""))
    return Stream(reply, frames, await session.state(stream) if stream else {})


def judge_timing(session: Session, seen: Stream) -> None:
    times = [frame.at for frame in seen.frames.deltas]
    spread, groups = times[-1] - times[0] if times else 0.0, count_groups(times)
    tokens = f"{len(times)} tokens came within {within(spread)}, in {groups} groups"
    session.measures["timing"] = tokens
    if seen.reply.header("content-length"):
        session.wrong(
            "buffered",
            f"the whole answer is collected before it is sent (it has a content-length): {tokens}",
        )
    elif seen.held and not session.model:  # which has a pace of its own
        session.wrong("buffered", f"tokens are held back: {tokens}, of one each 25 ms")


def _judge_coding(session: Session, coding: str) -> None:
    session.measures["compression"] = coding or "none"
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
        if not reply.header(name)
    ]
    if changed:
        message = "; ".join(changed)
        session.wrong("headers", f"headers of the stream were changed: {message}")
    prefix, place = session.client.prefix, reply.header("content-location")
    if prefix and place and not place.startswith(f"{prefix}/"):
        session.wrong(
            "prefix",
            f"the relay sends URLs such as {place.partition('?')[0]!r}, without the prefix "
            f"{prefix!r} that the proxy removes",
        )


def judge_frames(session: Session, seen: Stream) -> None:
    frames = seen.frames.frames
    if not frames:
        if seen.reply.pieces and not seen.reply.coding:
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
    after = within(reply.ended - reply.began)
    if seen.frames.ended and reply.ending in ("cut", "silent"):
        how = "breaks" if reply.ending == "cut" else "stays open"
        session.wrong("truncated", f"after the stream's end the connection {how}")
    elif seen.frames.frames and not seen.frames.ended and reply.ending in ("whole", "cut"):
        clean = ", as if it were complete" if reply.ending == "whole" else ""
        session.wrong("truncated", f"a stream ends after {after} without stream.end{clean}")
