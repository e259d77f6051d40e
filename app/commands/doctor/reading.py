"""Reading a stream by its id: cursors, several readers, several relays, many streams at once."""

import asyncio
import contextlib
import time
from collections.abc import Callable

from .frames import read_frames
from .requests import find_everywhere, judge_twins
from .session import LONG, PAUSE, PLAIN, Session, within
from .wire import Reply

TOKENS = 6
END_S = 5.0
TRIES = 2
"""What takes long once may be a busy machine."""
AT_ONCE = 8
"""Streams: more than the six connections that a browser opens to a host."""
START_S = 6.0
TURN_S = 2.0
HELD = 4
"""So many of twice as many requests as streams: of a burst that is let pass once more the rest."""
TURN_WAIT_S = START_S / AT_ONCE / 2
"""A request that waits for less does not keep as many streams from starting in that time."""
LONG_TOKENS = 500
"""Of `demo-long`: two and a half seconds."""
HELD_S = 2.2
TOGETHER_S = 1.2
"""By so much one reader may be behind another."""


async def look_at_reading(exam: Session) -> None:
    """Read what has ended, from the start and from the middle."""
    exam.say("reading a stream again, from the middle")
    stream = await exam.start(max_tokens=TOKENS)
    if not stream or not await find_everywhere(exam, stream):
        return
    total = await _wait_for_end(exam, stream)
    path = f"/v1/streams/{stream}/events"
    replies = [await exam.client.ask("GET", path, headers=PLAIN) for _ in range(2)]
    await judge_twins(exam, replies, "GET .../events")
    if not total:
        return
    cursor = total // 2
    headers = (*PLAIN, ("last-event-id", f"{stream}.{cursor}"))
    resumed = await exam.client.ask("GET", path, headers=headers)
    queried = await exam.client.ask("GET", f"{path}?after={cursor}", headers=PLAIN)
    counts = [len(read_frames(reply.decoded()).frames) for reply in (resumed, queried)]
    exam.measure(
        "resume",
        f"after event {cursor} of {total}: {counts[0]} events by Last-Event-ID, {counts[1]} by "
        "?after=",
        by_header=counts[0],
        by_query=counts[1],
    )
    rest = total - cursor
    if counts[0] != rest:
        if resumed.status == 200 and counts[0] == total:
            exam.wrong(
                "last_event_id",
                "Last-Event-ID does not reach the relay: a client that comes back after event "
                f"{cursor} is given all {total} again",
            )
        elif not exam.found("altered"):
            exam.wrong(
                "last_event_id",
                f"a client that comes back with Last-Event-ID gets {resumed.describe()} and "
                f"{counts[0]} events instead of {rest}",
            )
    if counts[1] == total and rest != total:
        exam.wrong("query", "the query of a URL (?after=...) does not reach the relay")


async def _wait_for_end(exam: Session, stream: str) -> int:
    """Return how many events it has in the end; 0 if that is not known."""
    for _ in range(int(END_S / 0.25)):
        state = await exam.state(stream)
        if state.get("status") not in ("running", None):
            tail = str(state.get("last_event_id")).rpartition(".")[2]
            return int(tail) if tail.isdecimal() else 0
        await asyncio.sleep(0.25)
    return 0


async def look_at_readers(exam: Session) -> None:
    """Have one stream read by two, while it runs; and ask twice how it is."""
    if exam.found("buffered", "replicas") or not exam.has(LONG) or exam.model is not None:
        return
    exam.say("reading a stream by two readers")
    for _ in range(TRIES):
        began = time.monotonic()
        first, last = await _read_by_two(exam)
        if first <= HELD_S and last - first <= TOGETHER_S:
            break
    if not last:
        return
    during = [(began, time.monotonic())]
    exam.measure(
        "two readers",
        f"by GET, have their first token after {within(first)} and {within(last)}",
        first_s=round(first, 3),
        last_s=round(last, 3),
    )
    if first > HELD_S:
        exam.late(
            "buffered",
            f"a stream that is read by GET, as EventSource does, is held back: its first token "
            f"comes after {within(first)}, while one that is read by POST is not",
            during=during,
        )
    elif last - first > TOGETHER_S:
        exam.late(
            "cached",
            f"the second reader of a stream has its first token {within(last - first)} after the "
            "other: a cache makes one request of both",
            during=during,
        )


async def _read_by_two(exam: Session) -> tuple[float, float]:
    """Return after how many seconds each had its first token; zeros where there was no stream."""
    stream = await exam.start(max_tokens=LONG_TOKENS, model=LONG)
    if not stream:
        return 0.0, 0.0
    path = f"/v1/streams/{stream}/events"
    states = asyncio.create_task(_ask_states(exam, stream))
    readers = await asyncio.gather(*(exam.client.ask("GET", path, headers=PLAIN) for _ in range(2)))
    await judge_twins(exam, await states, "GET of a stream that runs")
    await exam.stop(stream)
    first, last = sorted(_token_s(reply) for reply in readers)
    return first, last


def _token_s(reply: Reply) -> float:
    """Return after how many seconds it had its first token, or ended without one.

    It may have been asked for again and again: what counts is the request that was taken.
    """
    deltas = read_frames(reply.decoded()).deltas
    return (deltas[0].at if deltas else reply.ended) - reply.began


async def _ask_states(exam: Session, stream: str) -> list[Reply]:
    replies = []
    for _ in range(2):
        replies.append(await exam.client.ask("GET", f"/v1/streams/{stream}"))
        await asyncio.sleep(0.1)
    return replies


def _has_token(reply: Reply) -> bool:
    return b"text.delta" in b"".join(data for _, data in reply.pieces)


async def look_at_many(exam: Session) -> None:
    """Open more streams at once than a browser would over HTTP/1.1."""
    if exam.found("buffered") or not exam.has(PAUSE) or exam.model is not None:
        return
    if exam.client.limited:  # so many at once are too many in any case
        return
    exam.say(f"opening {AT_ONCE} streams at once")
    for _ in range(TRIES):
        began = time.monotonic()
        open_, failed = await _open_many(exam)
        if len(open_) == AT_ONCE or any(reply.status not in (0, 200) for reply in failed):
            break
    exam.measure("at once", f"{len(open_)} of {AT_ONCE} streams", streams=len(open_))
    if failed and len(open_) < AT_ONCE:
        refused = next((reply for reply in failed if reply.status not in (0, 200)), None)
        closed = any(reply.ending == "cut" and reply.ended for reply in failed)
        why = (
            f"get {refused.describe()}" if refused else
            "are closed" if closed else f"wait, for more than {within(START_S)}"
        )  # fmt: skip
        who = " (the relay's own limit)" if refused is not None and refused.code else ""
        asked = 0 if who else await _ask_in_turn(exam, refused)
        during = [(began, time.monotonic())]
        if asked:
            exam.late(
                "rate_limit",
                f"of {AT_ONCE} streams at once {len(open_)} run: the others {why}. Of {asked} "
                f"short requests, one after the other, {HELD} fared no better: what is limited is "
                "how many come in a time, and not how many run",
                during=during,
                streams=len(open_),
            )
            return
        exam.late(
            "concurrency",
            f"of {AT_ONCE} streams at once {len(open_)} run: the others {why}{who}",
            during=during,
            streams=len(open_),
        )


async def look_at_refusals(exam: Session) -> None:
    """Tell requests that are too many from those that fail now and then: nginx says 503 of both."""
    if exam.found("concurrency", "rate_limit", "errors", "page"):
        return
    replies = exam.client.replies
    refused = [
        reply for reply in replies if reply.status == 503 and reply.fails_at_once(closed=False)
    ]
    began = time.monotonic()
    if refused and (asked := await _ask_in_turn(exam, refused[0])):
        exam.late(
            "rate_limit",
            f"{len(refused)} of {len(replies)} requests were refused before the relay with "
            f"{refused[0].describe()}, and {HELD} of {asked} short ones, one after the other",
            during=[(began, time.monotonic())],
            refused=len(refused),
            of=len(replies),
        )


async def _ask_in_turn(exam: Session, refused: Reply | None) -> int:
    """Ask more often than there were streams at once, but each when the one before is answered.

    Returns after how many requests `HELD` were `refused` as the streams were, or had to wait; 0
    where that was not so: a limit on connections lets all of them pass.
    """

    async def ask(within_s: float) -> Reply:  # for what the relay itself refuses at once
        return await exam.client.ask("POST", "/v1/chat", body={}, within_s=within_s, once=True)

    def is_held(reply: Reply) -> bool:
        return not reply.status or (
            refused is not None and reply.status == refused.status and not reply.code
        )

    exam.say("asking one after the other")
    # What counts the streams that were left a moment ago must not count them with these.
    until = time.monotonic() + START_S
    while is_held(await ask(START_S)):
        if time.monotonic() > until:
            return 0
        await asyncio.sleep(TURN_S / 8)
    held = 0
    for asked in range(1, 2 * AT_ONCE + 1):
        reply = await ask(TURN_S)
        held += is_held(reply) or _wait_of(reply) > TURN_WAIT_S
        if held == HELD:
            return asked
    return 0


def _wait_of(reply: Reply) -> float:
    """Return how long an answer took, without the way of a connection, which may be far."""
    return reply.seconds - ((reply.connected or reply.began) - reply.began)


async def _open_many(exam: Session) -> tuple[list[Reply], list[Reply]]:
    """Return those that speak, and the others."""
    open_: list[Reply] = []
    enough = asyncio.Event()

    def note(reply: Reply) -> bool:
        if reply not in open_ and _has_token(reply):
            open_.append(reply)
            if len(open_) == AT_ONCE:
                enough.set()
        return False

    before = len(exam.client.replies)
    # What fails now and then with one request at a time is no limit on many.
    patient = any(reply.fails_at_once(closed=True) for reply in exam.client.replies)
    tasks = [asyncio.create_task(_open(exam, note, patient)) for _ in range(AT_ONCE)]
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(START_S):
            await enough.wait()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return open_, [reply for reply in exam.client.replies[before:] if reply not in open_]


async def _open(exam: Session, note: Callable[[Reply], bool], patient: bool) -> Reply:
    body = exam.chat(model=PAUSE, on_disconnect="cancel")
    return await exam.client.ask(
        *("POST", "/v1/chat"), body=body, headers=PLAIN, until=note, within_s=START_S + 5,
        patient=patient,
    )  # fmt: skip
