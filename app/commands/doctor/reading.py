"""Streams that are read by id, stopped, left, or open at the same time."""

import asyncio
import time

from .frames import read_frames
from .requests import find_everywhere, judge_twins
from .session import PAUSE, PLAIN, Session, within
from .wire import Reply

TOKENS = 6
END_S = 5.0
AT_ONCE = 8
"""Streams: more than the six connections that a browser opens to a host."""
START_S = 6.0
LEAVE_S = 1.5
"""The ten tokens of `demo-pause` have come by then."""
SEEN_S = 4.0
"""Seconds within which the relay has to see that a client left."""


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
    session.measure(
        "resume", f"after event {cursor} of {total}: {count} events by Last-Event-ID", events=count
    )
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
    """Stop streams and leave them, and see whether they end."""
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
    if not session.found("cached", "buffered"):
        await _leave(session)


async def _leave(session: Session) -> None:
    """Leave a stream while it is silent: a proxy that writes sees in any case that one left."""
    body = session.chat(model=PAUSE, on_disconnect="cancel")
    reply = await session.client.ask("POST", "/v1/chat", body=body, headers=PLAIN, within_s=LEAVE_S)
    if not (stream := reply.header("stream-id")):
        return
    left = time.monotonic()
    while time.monotonic() < left + SEEN_S:
        if (await session.state(stream)).get("status") == "cancelled":
            seen = time.monotonic() - left
            session.measure("leaving", f"seen by the relay within {within(seen)}", seconds=seen)
            return
        await asyncio.sleep(0.15)
    session.wrong(
        "disconnect",
        f"a client that leaves a silent stream is not seen by the relay within {SEEN_S:.0f} s: "
        "the proxy keeps its connection to the relay, and an answer without a reader goes on, and "
        f"is paid for, until a heartbeat (each {session.heartbeat_s:g} s) or two",
    )
    await session.stop(stream)


async def look_at_many(session: Session) -> None:
    """Open more streams at once than a browser does over HTTP/1.1."""
    # A limit on the rate refuses so many at once in any case.
    if session.found("buffered") or not session.has(PAUSE) or session.client.limited:
        return
    session.progress(f"opening {AT_ONCE} streams at once")
    running: set[int] = set()

    def all_run(reply: Reply) -> bool:
        if b"text.delta" in reply.body:
            running.add(id(reply))
        return len(running) == AT_ONCE

    body = session.chat(model=PAUSE, on_disconnect="cancel")
    replies = await asyncio.gather(
        *(
            session.client.ask(
                "POST", "/v1/chat", body=body, headers=PLAIN, until=all_run, within_s=START_S
            )
            for _ in range(AT_ONCE)
        )
    )
    session.measure("at once", f"{len(running)} of {AT_ONCE} streams", streams=len(running))
    if len(running) < AT_ONCE:
        other = next(reply for reply in replies if id(reply) not in running)
        session.wrong(
            "concurrency",
            f"of {AT_ONCE} streams at once {len(running)} run: the others get {other.describe()}",
        )
