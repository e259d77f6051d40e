"""Streams that are read by id, or stopped; idle streams and slow JSON answers."""

import asyncio

from .reachability import judge_redirect
from .requests import find_everywhere, judge_twins
from .session import PAUSE, PLAIN, Session, within
from .wire import Reply, read_frames

TOKENS = 6
END_S = 5.0
SLACK = 1.5
"""Of the heartbeat's interval: a silence up to that was not too long."""


async def look_at_reading(session: Session) -> None:
    """Read a stream that has ended, from its start and from its middle."""
    session.progress("reading a stream again, from the middle")
    stream = await session.start(max_tokens=TOKENS)
    if not stream or not await find_everywhere(session, stream):
        return
    total = await _wait_for_end(session, stream)
    path = f"/v1/streams/{stream}/events"
    replies = [await session.client.ask("GET", path, headers=PLAIN) for _ in range(2)]
    judge_twins(session, replies, "GET .../events")
    if not total:
        return
    cursor = total // 2
    headers = {**PLAIN, "last-event-id": f"{stream}.{cursor}"}
    resumed = await session.client.ask("GET", path, headers=headers)
    count = len(read_frames(resumed.pieces).frames)
    message = f"after event {cursor} of {total}: {count} events by Last-Event-ID"
    session.measures["resume"] = message
    if resumed.status == 200 and count == total:
        session.wrong(
            "last_event_id",
            "Last-Event-ID does not reach the relay: a client that resumes after event "
            f"{cursor} gets all {total} again",
        )


async def _wait_for_end(session: Session, stream: str) -> int:
    """Return its number of events, or 0 if that is unknown."""
    for _ in range(int(END_S / 0.25)):
        state = await session.state(stream)
        if state.get("status") not in ("running", None):
            tail = str(state.get("last_event_id")).rpartition(".")[2]
            return int(tail) if tail.isdecimal() else 0
        await asyncio.sleep(0.25)
    return 0


async def look_at_stops(session: Session) -> None:
    """Stop streams, and see whether they end."""
    if session.found("replicas") or not session.has(PAUSE):
        return
    session.progress("stopping streams")
    stream = await session.start(model=PAUSE)
    if not stream:
        return
    reply = await session.stop(stream)
    state = await session.state(stream)
    if state.get("status") != "cancelled":
        session.wrong(
            "stop",
            f"a stop does not reach the relay: POST .../cancel gets {reply.describe()}, and the "
            f"stream is {state.get('status', 'not found')}",
        )
    reply = await session.client.ask("DELETE", f"/v1/streams/{stream}")
    if reply.status != 204 and not reply.code:
        session.wrong("methods", f"DELETE does not reach the relay: {reply.describe()}")


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
        if not session.found("buffered"):
            session.wrong("idle_cut", f"a silent stream gets {reply.describe()}")
        return
    frames = read_frames(reply.pieces)
    begun = frames.frames[-1].at if frames.frames else reply.headed or reply.began
    beats = frames.comments
    lasted, silent = reply.ended - begun, reply.ended - max([begun, *beats])
    cut = reply.ending != "silent"
    session.measures["silence"] = (
        f"{'cut' if cut else 'open'} after {within(lasted)} without an event, "
        f"{len(beats)} heartbeats (one every {session.heartbeat_s:g} s)"
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
        session.measures["JSON answer"] = f"not cut within {within(session.idle_s)}"
        return
    after = reply.ended - reply.began
    session.measures["JSON answer"] = f"{reply.describe()} after {within(after)}"
    # One reason cuts streams too; and an error with the relay's code is the relay's.
    if reply.code or reply.limited or session.found("idle_cut", "total_cut"):
        return
    if not judge_redirect(session, reply):
        session.wrong(
            "json_cut",
            f'a JSON answer ("stream": false) is cut after {within(after)}: {reply.describe()} '
            f"(the relay sends white space every {session.heartbeat_s:g} s until it comes)",
        )
