"""Stopping: by a call, by a DELETE, and by leaving."""

import asyncio

from .session import PAUSE, PLAIN, Session, within

READ_S = 1.5
"""The ten tokens of `demo-pause` have come by then."""
SEEN_S = 4.0
"""Within so long a client that left has to be seen by the relay."""


async def look_at_stops(exam: Session) -> None:
    """Stop streams, and see whether they stop."""
    if exam.found("replicas") or not exam.has(PAUSE) or exam.model is not None:
        return
    exam.say("stopping streams")
    stream = await exam.start(model=PAUSE)
    if not stream:
        return
    reply = await exam.stop(stream)
    state = await exam.state(stream)
    if state.get("status") != "cancelled":
        exam.wrong(
            "stop",
            f"a stop does not reach the relay: POST .../cancel gets {reply.describe()}, and the "
            f"stream is {state.get('status', 'not to be found')}",
        )
    reply = await exam.client.ask("DELETE", f"/v1/streams/{stream}")
    if reply.status != 204 and not reply.code:
        exam.wrong("methods", f"DELETE does not reach the relay: {reply.describe()}")
    if not exam.found("cached", "buffered"):  # what fills a buffer need not see its client
        await _leave(exam)


async def _leave(exam: Session) -> None:
    """Read a stream that ends with its last reader, and go while it is silent.

    A proxy that is writing sees in any case that its client is gone.
    """
    body = exam.chat(model=PAUSE, on_disconnect="cancel")
    reply = await exam.client.ask("POST", "/v1/chat", body=body, headers=PLAIN, within_s=READ_S)
    if not (stream := reply.header("stream-id")):
        return
    loop = asyncio.get_running_loop()
    left = loop.time()
    while loop.time() < left + SEEN_S:
        if (await exam.state(stream)).get("status") == "cancelled":
            seen = loop.time() - left
            exam.measure("leaving", f"seen by the relay within {within(seen)}", seconds=seen)
            return
        await asyncio.sleep(0.15)
    exam.late(
        "disconnect",
        f"a client that leaves while nothing is said is not seen by the relay within {SEEN_S:.0f} "
        "s: the proxy keeps its connection to the relay, and an answer that nobody reads goes on, "
        f"and is paid for, until a write fails: after a heartbeat ({exam.heartbeat_s:g} s) or two",
        during=[(left, loop.time())],
    )
    await exam.stop(stream)
