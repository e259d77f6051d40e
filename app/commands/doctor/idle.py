"""Idle streams and slow JSON answers: which are cut, and after how long."""

import asyncio
import time

from .frames import read_frames
from .reachability import judge_redirect
from .session import PAUSE, PLAIN, Session, within
from .wire import Reply

LAST_S = 3.0
"""Seconds for the end of a stream that was stopped."""
SLACK = 1.4
"""Of the heartbeat's interval: a silence up to that was not too long."""


async def look_at_idle(session: Session) -> None:
    """Watch a silent stream and a JSON answer that takes long, at the same time."""
    if not session.has(PAUSE) or session.idle_s <= 0:
        return
    session.progress(f"watching silent streams for {session.idle_s:g} s")
    _, json = await asyncio.gather(_watch_silence(session), _watch_json(session))
    _judge_json(session, json)


async def _watch_silence(session: Session) -> None:
    """Watch a silent stream; then stop it, to see whether its connection still works."""
    opened: list[Reply] = []

    def note(reply: Reply) -> bool:
        opened[:] = [reply]
        return False

    body = session.chat(model=PAUSE, on_disconnect="cancel")
    within_s = session.idle_s + LAST_S
    reading = asyncio.create_task(
        session.client.ask(
            "POST", "/v1/chat", body=body, headers=PLAIN, until=note, within_s=within_s
        )
    )
    await asyncio.wait([reading], timeout=session.idle_s)
    watched = time.monotonic()
    cut = reading.done()
    if not cut:
        stream = opened[0].header("stream-id") if opened else ""
        if not stream:  # all of it is held back: `buffered`
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            return
        await session.stop(stream)
    judge_silence(session, await reading, watched=watched, cut=cut)


def judge_silence(session: Session, reply: Reply, *, watched: float, cut: bool) -> None:
    """Judge a silent stream that was stopped at `watched`, or was `cut` before."""
    frames = read_frames(reply.pieces)
    if reply.limited:
        return
    if reply.status not in (0, 200):
        if not session.found("concurrency", "buffered"):
            session.wrong("idle_cut", f"a silent stream gets {reply.describe()}")
        return
    times = [frame.at for frame in frames.frames if frame.at < watched]
    begun = times[-1] if times else reply.headed or reply.connected or reply.began
    beats = [at for at in frames.comments if begun < at < watched]
    if cut and not frames.ended:
        _judge_cut(session, reply, begun, beats)
    elif not cut and not frames.ended and not session.found("stop", "replicas", "buffered"):
        last = within((beats[-1] if beats else begun) - begun)
        session.wrong(
            "idle_cut",
            "a silent stream is dead, but its connection stays open: the last byte came "
            f"{last} after its last event, and after a stop its end does not arrive",
        )
    lasted = min(reply.ended, watched) - begun
    session.measure(
        "silence",
        f"{'cut' if cut else 'open'} after {within(lasted)} without an event, "
        f"{len(beats)} heartbeats (one every {session.heartbeat_s:g} s)",
        seconds=round(lasted, 2),
        heartbeats=len(beats),
        cut=cut,
    )


def _judge_cut(session: Session, reply: Reply, begun: float, beats: list[float]) -> None:
    if session.found("truncated"):  # one reason cuts both
        return
    lasted = reply.ended - (reply.connected or reply.began)
    silent = reply.ended - (beats[-1] if beats else begun)
    whole = ", and looks complete" if reply.ending == "whole" else ""
    if beats and silent < session.heartbeat_s * SLACK and lasted > session.heartbeat_s:
        session.wrong(
            "total_cut",
            f"a stream is cut {within(lasted)} after its start, although heartbeats arrive{whole}: "
            "the limit is on the whole, not on silence",
        )
        return
    session.wrong(
        "idle_cut",
        f"a stream is cut after {within(silent)} of silence{whole} (the relay sends a heartbeat "
        f"every {session.heartbeat_s:g} s)",
    )


async def _watch_json(session: Session) -> Reply:
    body = session.chat(model=PAUSE, stream=False, on_disconnect="cancel")
    return await session.client.ask("POST", "/v1/chat", body=body, within_s=session.idle_s)


def _judge_json(session: Session, reply: Reply) -> None:
    if reply.ending == "silent":
        session.measure("JSON answer", f"not cut within {within(session.idle_s)}")
        return
    after = reply.ended - (reply.connected or reply.began)
    session.measure("JSON answer", f"{reply.describe()} after {within(after)}", seconds=after)
    # One reason cuts streams too; and an error with the relay's code is the relay's.
    if reply.code or reply.limited or session.found("idle_cut", "total_cut", "concurrency"):
        return
    if not judge_redirect(session, reply):
        session.wrong(
            "json_cut",
            f'a JSON answer ("stream": false), which is silent until its end, is cut after '
            f"{within(after)}: {reply.describe()}",
        )
