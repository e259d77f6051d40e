"""Idle streams and slow JSON answers: which are cut, and after how long."""

import asyncio

from .frames import read_frames
from .reachability import judge_redirect
from .session import PAUSE, PLAIN, Session, within
from .wire import Reply

SLACK = 1.5
"""Of the heartbeat's interval: a silence up to that was not too long."""


async def look_at_idle(session: Session) -> None:
    """Watch a silent stream and a JSON answer that takes long, at the same time."""
    if not session.has(PAUSE) or session.idle_s <= 0:
        return
    session.progress(f"watching silent streams for {session.idle_s:g} s")
    stream = session.chat(model=PAUSE, on_disconnect="cancel")
    ask, within_s = session.client.ask, session.idle_s
    silent, json = await asyncio.gather(
        ask("POST", "/v1/chat", body=stream, headers=PLAIN, within_s=within_s),
        ask("POST", "/v1/chat", body={**stream, "stream": False}, within_s=within_s),
    )
    judge_silence(session, silent)
    _judge_json(session, json)


def judge_silence(session: Session, reply: Reply) -> None:
    """Judge a stream of which only heartbeats should have come for as long as it was watched."""
    if reply.limited:
        return
    if reply.status not in (0, 200):
        if not session.found("concurrency", "buffered"):
            session.wrong("idle_cut", f"a silent stream gets {reply.describe()}")
        return
    frames = read_frames(reply.pieces)
    begun = frames.frames[-1].at if frames.frames else reply.headed or reply.began
    beats = frames.comments
    lasted, silent = reply.ended - begun, reply.ended - max([begun, *beats])
    cut = reply.ending != "silent"
    session.measure(
        "silence",
        f"{'cut' if cut else 'open'} after {within(lasted)} without an event, "
        f"{len(beats)} heartbeats (one every {session.heartbeat_s:g} s)",
        seconds=round(lasted, 2),
        heartbeats=len(beats),
        cut=cut,
    )
    if frames.ended or session.found("truncated"):  # one reason cuts both
        return
    alive = silent < SLACK * session.heartbeat_s
    if not cut and not alive and not session.found("buffered"):
        session.wrong(
            "idle_cut",
            f"a silent stream is dead, but its connection stays open: nothing came for "
            f"{within(silent)} (the relay sends a heartbeat every {session.heartbeat_s:g} s)",
        )
    elif cut and beats and alive:
        session.wrong(
            "total_cut",
            f"a stream is cut {within(reply.ended - reply.began)} after its start, although "
            "heartbeats arrive: the limit is on the whole, not on silence",
        )
    elif cut:
        session.wrong(
            "idle_cut",
            f"a stream is cut after {within(silent)} of silence (the relay sends a heartbeat "
            f"every {session.heartbeat_s:g} s)",
        )


def _judge_json(session: Session, reply: Reply) -> None:
    if reply.ending == "silent":
        session.measure("JSON answer", f"not cut within {within(session.idle_s)}")
        return
    after = reply.ended - reply.began
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
