"""Silence and length: what is cut, and after how long."""

import asyncio
import time
from dataclasses import dataclass
from itertools import pairwise

from .frames import Frames, read_frames
from .reachability import judge_redirect
from .session import LONG, PAUSE, PLAIN, Session, size, within
from .streaming import Stream, judge_delay
from .wire import Reply

TICK_S = 5
LAST_S = 3.0
"""How long the end of a stream that was stopped may take."""
SLACK = 1.4
"""Of a heartbeat's time: then it is late."""
NEAR = 0.15
NEAR_S = 1.0
"""Two times that differ by less, or by this part of them, are those of one limit."""
BEHIND_EVENTS = 400
"""Two seconds of `demo-long`."""
BEHIND = 0.25


async def look_at_silence(exam: Session) -> None:
    """Watch, side by side, a silent stream, a JSON answer that takes long, and a long stream."""
    if exam.model is not None or not exam.has(PAUSE) or exam.idle_s <= 0:
        return
    ticking = asyncio.create_task(_tell_time(exam))
    try:
        silent, long, json = await asyncio.gather(
            _watch_silence(exam), _watch_length(exam), _watch_json(exam)
        )
    finally:
        ticking.cancel()
    total_s = judge_length(exam, long)
    judge_silence(exam, silent, total_s)
    _judge_json(exam, json)


async def _tell_time(exam: Session) -> None:
    left = exam.idle_s
    while left > 0:
        exam.say(f"watching silent streams, {left:.0f} s more")
        await asyncio.sleep(min(TICK_S, left))
        left -= TICK_S


@dataclass(frozen=True)
class Silence:
    """What came of a silent stream that was watched."""

    reply: Reply
    watched: float
    """When it was stopped, or had ended."""
    cut: bool
    """Whether it ended before it was stopped."""


async def _watch_silence(exam: Session) -> Silence | None:
    """Watch a silent stream; then stop it, to see whether its connection is still alive."""
    opened: list[Reply] = []

    def note(reply: Reply) -> bool:
        opened[:] = [reply]
        return False

    body = exam.chat(model=PAUSE, on_disconnect="cancel")
    reading = asyncio.create_task(
        exam.client.ask(
            "POST", "/v1/chat", body=body, headers=PLAIN, until=note, within_s=exam.idle_s + LAST_S
        )
    )
    await asyncio.wait([reading], timeout=exam.idle_s)
    watched = time.monotonic()
    cut = reading.done()
    if not cut:
        stream = opened[0].header("stream-id") if opened else ""
        if not stream:  # nothing came, so all is held back: that is told already
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            return None
        await exam.stop(stream)
    return Silence(await reading, watched, cut)


def judge_silence(exam: Session, silence: Silence | None, total_s: float | None) -> None:
    """Judge it; a long stream has been cut after `total_s` while it spoke, or has not."""
    if silence is None:
        return
    reply, watched, cut = silence.reply, silence.watched, silence.cut
    frames = read_frames(reply.decoded())
    if reply.limited:
        return
    if reply.status not in (0, 200):
        if not exam.found("concurrency", "buffered"):
            exam.wrong("idle_cut", f"a silent stream gets {reply.describe()}")
        return
    times = [frame.at for frame in frames.frames if frame.at < watched]
    begun = times[-1] if times else reply.headed or reply.connected or reply.began
    beats = [at for at, _ in frames.comments if begun < at < watched]
    if cut and not frames.ended:
        if not _is_near(reply.ended - (reply.connected or reply.began), total_s):
            _judge_cut(exam, reply, begun, beats)
    elif not cut:
        _judge_beats(exam, frames, [begun, *beats, watched])
    lasted = min(reply.ended, watched) - begun
    exam.measure(
        "silence",
        f"{'cut' if cut else 'open'} after {within(lasted)} without an event, "
        f"{len(beats)} heartbeats (one each {exam.heartbeat_s:g} s)",
        seconds=round(lasted, 2),
        heartbeats=len(beats),
        cut=cut,
    )


def _is_near(seconds: float, limit: float | None) -> bool:
    """Return whether a stream was cut by the limit that cut another one."""
    return limit is not None and abs(seconds - limit) < max(NEAR_S, NEAR * limit)


def _judge_cut(exam: Session, reply: Reply, begun: float, beats: list[float]) -> None:
    whole = ", and looks like a whole answer" if reply.ending == "whole" else ""
    start = reply.connected or reply.began
    lasted = reply.ended - start
    silent = reply.ended - (beats[-1] if beats else begun)
    if exam.found("truncated"):  # the same, of one that speaks
        return
    if beats and silent < exam.heartbeat_s * SLACK and lasted > exam.heartbeat_s:
        exam.wrong(
            "total_cut",
            f"a stream is cut {within(lasted)} after its start, although heartbeats come{whole}: "
            "that is no limit on silence, but on the whole",
            seconds=round(lasted, 1),
        )
        return
    late = silent > exam.heartbeat_s * SLACK
    if late and not exam.found("buffered"):
        exam.wrong("comments", _no_beats(exam, silent))
    early = "" if late else f", before the relay's heartbeat after {exam.heartbeat_s:g} s"
    exam.wrong(
        "idle_cut",
        f"a stream is cut after {within(silent)} of silence{early}{whole}",
        seconds=round(silent, 1),
    )


def _judge_beats(exam: Session, frames: Frames, times: list[float]) -> None:
    """Judge a stream that was not closed, by the times between its first silence and its stop."""
    if exam.found("buffered"):
        return
    longest = max(later - earlier for earlier, later in pairwise(times))
    if not frames.ended and not exam.found("stop", "replicas"):
        exam.wrong(
            "idle_cut",
            f"a silent stream is dead {within(times[-1] - times[0])} after its last event, and "
            f"nobody is told: its end, after a stop, does not arrive, and the last byte came "
            f"{within(times[-2] - times[0])} after that event",
            seconds=round(times[-2] - times[0], 1),
        )
    elif longest > exam.heartbeat_s * SLACK + min(1, exam.heartbeat_s):
        exam.late("comments", _no_beats(exam, longest), during=[(times[0], times[-1])])


def _no_beats(exam: Session, silent: float) -> str:
    return (
        f"heartbeats do not arrive: {within(silent)} without a byte, where the relay sends a "
        f"comment each {exam.heartbeat_s:g} s"
    )


async def _watch_json(exam: Session) -> Reply:
    """Wait for a JSON answer, which has no heartbeat."""
    body = exam.chat(model=PAUSE, stream=False, on_disconnect="cancel")
    return await exam.client.ask("POST", "/v1/chat", body=body, within_s=exam.idle_s)


def _judge_json(exam: Session, reply: Reply) -> None:
    if reply.ending == "silent":
        exam.measure("JSON answer", f"waited for, {within(exam.idle_s)} at least")
        return
    after = reply.ended - (reply.connected or reply.began)
    exam.measure("JSON answer", f"{reply.describe()} after {within(after)}", seconds=after)
    # What cuts streams too has one reason; and an error in the relay's words is the relay's.
    if reply.code or reply.limited or exam.found("idle_cut", "total_cut", "concurrency"):
        return
    if judge_redirect(exam, reply):
        return
    exam.wrong(
        "json_cut",
        f'an answer as JSON ("stream": false), which is silent to its end, is cut after '
        f"{within(after)}: {reply.describe()}",
        seconds=round(after, 1),
    )


async def _watch_length(exam: Session) -> Stream | None:
    """Read a long stream, for limits on bytes, time and rate."""
    if not exam.has(LONG) or exam.found("buffered"):
        return None
    body = exam.chat(model=LONG, on_disconnect="cancel")
    reply = await exam.client.ask(
        "POST", "/v1/chat", body=body, headers=PLAIN, within_s=exam.idle_s
    )
    stream = reply.header("stream-id")
    state = await exam.state(stream) if stream and reply.status == 200 else {}
    return Stream(reply, read_frames(reply.decoded()), state)


def judge_length(exam: Session, long: Stream | None) -> float | None:
    """Judge it; return after how long it was cut, if it was."""
    if long is None:
        return None
    reply, frames = long.reply, long.frames
    after = reply.ended - (reply.connected or reply.began)
    exam.measure(
        "long stream",
        f"{size(reply.size)} in {within(after)}, {len(frames.deltas)} tokens",
        bytes=reply.size,
        seconds=round(after, 2),
    )
    if reply.status != 200 or not frames.frames:
        return None
    if reply.ending in ("cut", "whole") and not frames.ended:
        if exam.found("truncated"):  # the same, of a shorter one
            return None
        exam.wrong(
            "total_cut",
            f"a long stream is cut after {within(after)} and {size(reply.size)}, while it speaks"
            f"{', and looks whole' if reply.ending == 'whole' else ''}",
            seconds=round(after, 1),
            bytes=reply.size,
        )
        return after
    judge_delay(exam, long)
    _judge_rate(exam, long, after)
    if frames.numbers and frames.numbers != list(range(1, len(frames.numbers) + 1)):
        exam.wrong("altered", "events of a long stream are missing, doubled or out of order")
    return None


def _judge_rate(exam: Session, long: Stream, after: float) -> None:
    """Compare what had come of a stream that was left with what the relay had by then."""
    told = str(long.state.get("last_event_id")).rpartition(".")[2]
    if long.frames.ended or long.reply.ending != "silent" or not told.isdecimal():
        return
    last, came = int(told), len(long.frames.frames)
    if last - came > max(BEHIND_EVENTS, BEHIND * last):
        exam.late(
            "throttled",
            f"a long stream is behind: after {within(after)} {came} of {last} events have come, "
            f"{size(long.reply.size / after)} a second",
            during=[long.reply.span],
            bytes_per_s=round(long.reply.size / after),
        )
