"""One stream of known pace, from its first byte to its end."""

import asyncio
import importlib.util
import time
from dataclasses import dataclass
from typing import Any

import httpx2

from . import timing
from .frames import Frames, read_frames
from .load import BUSY_S, why_not_calm
from .reachability import compare_clocks, judge_redirect
from .session import BROWSER, LONG, PLAIN, STREAM, TOKEN_S, GivenUp, Session, size, within
from .timing import Blocks, Pace, find_blocks
from .wire import Reply

TOKENS = 80
FIRST_TOKEN_S = 0.25
"""After so long `demo` says its first token."""
SLOW_S = 3.0
"""For a first byte: more is no network."""
LATE_S = 2.0
STREAM_WITHOUT_LENGTH = frozenset(("nginx", "haproxy"))
"""Programs that hold blocks of an answer back, and never collect it to count its bytes."""
TRIES = 3
"""A busy machine may bring tokens together; a proxy that holds them back always does."""
BESIDE_S = 0.1
"""Between short requests beside a stream."""
MORE_S = 15.0
BLOCKS_S = 8.0
"""How long a fast stream is read for the size of the blocks that it comes in."""


@dataclass
class Stream:
    """An answer, and what the relay itself says of it."""

    reply: Reply
    frames: Frames
    state: dict[str, Any]

    @property
    def written_s(self) -> float | None:
        """How long the relay took for it; None if it does not say."""
        timings = self.state.get("timings")
        if not isinstance(timings, dict):
            return None
        began, ended = timings.get("started_at"), timings.get("ended_at")
        if not isinstance(began, int | float) or not isinstance(ended, int | float):
            return None
        return float(ended - began)

    @property
    def pace(self) -> Pace:
        times = [frame.at for frame in self.frames.deltas]
        written = self.written_s
        if written is None:
            written = TOKEN_S * len(times)
        return timing.measure(times, written_s=max(0.0, written - FIRST_TOKEN_S))


async def look_at_stream(exam: Session) -> None:
    """Measure one stream as a browser asks for it.

    Raises:
        GivenUp: there is no stream to measure.
    """
    exam.say("measuring a stream")
    asked = await _read_stream(exam, BROWSER)
    seen = await _read_stream(exam, PLAIN) if asked.reply.coding else asked
    excuse = ""
    for _ in range(TRIES - 1):
        if not _may_be_the_machine(exam, seen):
            break
        seen, excuse = await _read_watched(exam)
        if not excuse:
            break
    _judge_first_byte(exam, seen)
    await judge_pace(exam, seen, excuse)
    _judge_coding(exam, asked, seen)
    _judge_headers(exam, asked.reply)
    judge_frames(exam, seen)
    _judge_end(exam, seen)
    if seen.frames.frames and not exam.found("buffered", "cached"):
        first = seen.frames.frames[0]
        created = first.event.get("created")
        compare_clocks(exam, exam.client.replies, created, first.at)
    else:
        compare_clocks(exam, exam.client.replies, None, 0)
    if not exam.found("buffered"):
        await _try_http2(exam)


def _may_be_the_machine(exam: Session, seen: Stream) -> bool:
    """Return whether what looks wrong with the times of a stream may be this machine's doing."""
    if seen.pace.held == "at once":
        return _stood_still(exam, seen)
    return seen.pace.held == "in bursts" or _is_late(exam, seen)


def _stood_still(exam: Session, seen: Stream) -> bool:
    """Return whether this process was away for long while a stream came: all came at once then."""
    return exam.lag.worst(*seen.reply.span) >= BUSY_S


async def _read_stream(exam: Session, headers: tuple[tuple[str, str], ...]) -> Stream:
    body = exam.chat(max_tokens=TOKENS)
    within_s = exam.client.timeout_s + MORE_S
    reply = await exam.client.ask("POST", "/v1/chat", body=body, headers=headers, within_s=within_s)
    if reply.status != 200:
        told = str(reply.json().get("detail", "")) or reply.describe()
        if reply.code == "method_not_allowed":
            exam.wrong("methods", f"POST does not reach the relay as POST: {told}")
            raise GivenUp
        if reply.status == 415:
            exam.wrong("request_header", f"Content-Type of a request is changed: {told}")
            raise GivenUp
        if reply.code:
            raise GivenUp(f"the relay gives no stream to measure: {told}", tried=False)
        if reply.limited:
            exam.wrong("rate_limit", f"POST /v1/chat is refused each time before the relay: {told}")
            raise GivenUp
        if judge_redirect(exam, reply):
            raise GivenUp
        if not exam.plain and exam.model is None and not reply.bad_gateway:
            exam.plain = True
            seen = await _read_stream(exam, headers)
            exam.wrong("filter", f"a prompt with markup and URLs in it is refused: {told}")
            return seen
        exam.lacks("page", reply, f"POST /v1/chat does not reach the relay: {told}")
        raise GivenUp
    if reply.is_page:
        exam.wrong("page", "POST /v1/chat does not reach the relay: it gets 200 and an HTML page")
        raise GivenUp
    frames = read_frames(reply.decoded())
    stream = reply.header("stream-id") or next(
        (str(frame.event["stream"]) for frame in frames.frames if "stream" in frame.event), ""
    )
    return Stream(reply, frames, await exam.state(stream) if stream else {})


async def _read_watched(exam: Session) -> tuple[Stream, str]:
    """Read a stream and see meanwhile whether times mean anything; return why not, if so."""
    began = time.monotonic()
    answers: list[float] = []
    asking = asyncio.create_task(_ask_beside(exam, answers))
    try:
        seen = await _read_stream(exam, PLAIN)
    finally:
        asking.cancel()
        # A `suppress(CancelledError)` here would swallow a Ctrl-C of this very moment too.
        await asyncio.wait([asking])
    return seen, why_not_calm(exam.lag.worst(began), answers)


async def _ask_beside(exam: Session, answers: list[float]) -> None:
    while not exam.client.limited:
        reply = await exam.client.ask("GET", "/healthz", anonymous=True)
        answers.append(reply.ended - reply.began)
        await asyncio.sleep(BESIDE_S)


def _is_late(exam: Session, seen: Stream) -> bool:
    """Return whether the first token came later than a network takes."""
    deltas = seen.frames.deltas
    begun = seen.reply.connected or seen.reply.began
    return exam.model is None and bool(deltas) and deltas[0].at - begun > SLOW_S


def _judge_first_byte(exam: Session, seen: Stream) -> None:
    reply = seen.reply
    begun = reply.connected or reply.began
    head = (reply.headed or reply.ended) - begun
    deltas = seen.frames.deltas
    token = deltas[0].at - begun if deltas else None
    exam.measure(
        "first byte",
        f"connected in {within(begun - reply.began)}, head after {within(head)}, first token after "
        f"{within(token) if token is not None else 'nothing'}",
        connect_s=round(begun - reply.began, 4),
        head_s=round(head, 4),
        token_s=None if token is None else round(token, 4),
    )
    if _is_late(exam, seen) and token is not None and not seen.pace.held:
        exam.late(
            "first_byte",
            f"the first token comes after {within(token)}, where the relay has it after "
            f"{within(FIRST_TOKEN_S)}",
            during=[reply.span],
        )
    elif reply.seconds - head > SLOW_S:
        exam.wrong("first_byte", f"a connection takes {within(reply.seconds - head)}")


async def judge_pace(exam: Session, seen: Stream, excuse: str) -> None:
    found = seen.pace
    sizes = sorted(len(data) for _, data in seen.reply.pieces)
    middle = sizes[len(sizes) // 2] if sizes else 0
    chunks = sorted(seen.reply.chunks)
    exam.measure(
        "pace",
        f"{found.tokens} tokens written in {within(found.written_s)} came within "
        f"{within(found.spread_s)}, in {found.groups} groups, {found.largest} at once at most",
        tokens=found.tokens,
        written_s=round(found.written_s, 3),
        spread_s=round(found.spread_s, 3),
        groups=found.groups,
        largest=found.largest,
    )
    exam.measure(
        "chunks",
        f"{len(chunks)} of {chunks[0]} to {chunks[-1]} bytes; reads of {middle} bytes, typically"
        if "chunked" in seen.reply.header("transfer-encoding").lower() and chunks
        else f"none (the body ends with {_end_of(seen.reply)}); reads of {middle} bytes, typically",
        chunks=len(chunks),
        largest=chunks[-1] if chunks else 0,
    )
    if seen.reply.version == "1.1" and not chunks_or_length(seen.reply):
        exam.note(
            "http10",
            "a stream has no chunks, as in HTTP/1.0: it ends with its connection, and one that "
            "was cut looks whole",
        )
    if seen.reply.all("content-length"):
        innocent = [hop.shown for hop in exam.hops if hop.program in STREAM_WITHOUT_LENGTH]
        exam.wrong(
            "buffered",
            "the whole answer is collected before it is sent (it has a content-length"
            f"{', which ' + ' and '.join(innocent) + ' would not add' if innocent else ''}): "
            f"{found.tokens} tokens came within {within(found.spread_s)}",
            not_by=STREAM_WITHOUT_LENGTH,
            how="collected",
        )
    elif found.held == "at once" and _stood_still(exam, seen):
        exam.note(
            "busy",
            f"{found.tokens} tokens came within {within(found.spread_s)}, but this machine stood "
            "still meanwhile: it cannot be told whether something holds them back",
        )
    elif found.held == "at once":
        blocks = await _find_blocks(exam)
        exam.wrong(
            "buffered",
            f"tokens are held back: {found.tokens} that were written in {within(found.written_s)} "
            f"came within {within(found.spread_s)}, {_of_blocks(blocks)}",
            how="at once",
            block_bytes=blocks.bytes,
        )
    elif found.held == "in bursts" and excuse:
        exam.note(
            "busy",
            f"tokens come {found.largest} at once at most, but {excuse}: it cannot be told whether "
            "something holds them back",
        )
    elif found.held == "in bursts":
        blocks = await _find_blocks(exam)
        timed = _is_timed(found, blocks)
        how = (
            f"every {within(found.period_s)} or so (a timer, not a buffer's size)"
            if timed
            else _of_blocks(blocks)
        )
        exam.wrong(
            "buffered",
            f"tokens are held back: they come {found.largest} at once at most, "
            f"{within(found.period_s)} apart, {how}",
            how="timed" if timed else "blocks",
            block_bytes=0 if timed else blocks.bytes,
            period_s=round(found.period_s, 3),
        )


def chunks_or_length(reply: Reply) -> bool:
    """Return whether the end of a body can be told from a cut."""
    chunked = "chunked" in reply.header("transfer-encoding").lower()
    return chunked or bool(reply.all("content-length"))


def _end_of(reply: Reply) -> str:
    return "its length" if reply.all("content-length") else "the connection"


async def _find_blocks(exam: Session) -> Blocks:
    """Read a faster stream, to see in what blocks it comes."""
    if not exam.has(LONG) or exam.model is not None:
        return Blocks(0, 0.0, even=False)
    exam.say("finding how much is held back")
    body = exam.chat(model=LONG, on_disconnect="cancel")
    reply = await exam.client.ask("POST", "/v1/chat", body=body, headers=PLAIN, within_s=BLOCKS_S)
    return find_blocks(reply.pieces)


def _of_blocks(blocks: Blocks) -> str:
    if not blocks.bytes:
        return f"to the end, or for more than {BLOCKS_S:.0f} s"
    return f"in blocks of about {size(blocks.bytes)}"


def _is_timed(found: Pace, blocks: Blocks) -> bool:
    """A timer flushes as often for a stream that is five times as fast; a full buffer does not."""
    return bool(blocks.bytes) and blocks.period_s > 0.6 * found.period_s


def _judge_coding(exam: Session, asked: Stream, seen: Stream) -> None:
    coding = asked.reply.coding
    exam.measure("compression", coding or "none", coding=coding)
    if not coding:
        return
    held = asked.pace.held if asked.frames.frames else _held_reads(asked)
    what = (
        "and by that held back"
        if held and not seen.pace.held
        else "each token is flushed, but it costs the proxy CPU for little"
        if not held
        else "and held back"
    )
    exam.wrong(
        "compressed",
        f"the stream is compressed ({coding}), although the relay says no-transform: {what}",
        coding=coding,
        held=bool(held),
    )


def _held_reads(asked: Stream) -> str:
    """Judge by the reads alone where the coding cannot be undone here."""
    times = [at for at, _ in asked.reply.pieces]
    written = asked.written_s or TOKEN_S * TOKENS
    spread = times[-1] - times[0] if times else 0.0
    return "at once" if spread < timing.AT_ONCE * written or len(times) < timing.ENOUGH else ""


def _judge_headers(exam: Session, reply: Reply) -> None:
    lost = []
    kind = reply.header("content-type").lower()
    if reply.media_type != "text/event-stream":
        lost.append(f"content-type is {kind or 'gone'!r}, which EventSource refuses")
    elif "charset=" in kind and "utf-8" not in kind:
        lost.append(f"content-type says {kind!r}, where the text is UTF-8")
    control = reply.header("cache-control").lower()
    missing = [word for word in ("no-store", "no-transform") if word not in control]
    if missing:
        lost.append(f"cache-control is {control or 'gone'!r}, without {' and '.join(missing)}")
    lost += [
        f"{name} is gone"
        for name in ("stream-id", "content-location", "x-request-id")
        if not reply.all(name)
    ]
    if lost:
        exam.wrong("headers", "headers of the stream were changed: " + "; ".join(lost), lost=lost)


def judge_frames(exam: Session, seen: Stream) -> None:
    frames = seen.frames.frames
    if not frames:
        if seen.reply.size and not seen.reply.coding:
            start = seen.reply.pieces[0][1][:60]
            exam.wrong("altered", f"the body is no event stream: it begins {start!r}")
        return
    lost = [
        name
        for name, there in (
            ("retry:", frames[0].value("retry") is not None),
            ("id:", all(frame.value("id") for frame in frames)),
            ("event:", all(frame.value("event") for frame in frames)),
        )
        if not there
    ]
    if lost:
        exam.wrong("fields", f"{' and '.join(lost)} of the frames are taken out", fields=lost)
    odd = list(seen.frames.odd)
    if any(not frame.event for frame in frames):
        odd.append("data that is no JSON")
    elif any(frame.value("event") not in (None, frame.type) for frame in frames):
        odd.append("event: is not what data: says")
    if any(frame.fields and frame.fields[-1][0] != "id" and frame.value("id") for frame in frames):
        odd.append("id: is no longer the last line of its frame")
    numbers = seen.frames.numbers
    if numbers and numbers != list(range(1, len(numbers) + 1)):
        odd.append("events are missing, doubled or out of order")
    stream = seen.reply.header("stream-id")
    if stream and any(not (frame.value("id") or stream).startswith(stream) for frame in frames):
        odd.append(f"ids are not those of the stream: {frames[0].value('id')!r}")
    if seen.frames.ended and seen.frames.rest:
        odd.append(f"after the last event there is {seen.frames.rest[:60]!r}")
    told = seen.state.get("text")
    if seen.frames.ended and isinstance(told, str) and told != seen.frames.text:
        odd.append("the text is not the one that the relay has")
    if isinstance(told, str) and exam.model is None and (said := _asked(told, exam.chat())):
        odd.append(f"the question reached the relay as {said!r}")
    if odd:
        exam.wrong("altered", "the stream was changed on its way: " + "; ".join(odd), odd=odd)


def _asked(text: str, body: dict[str, Any]) -> str:
    """Return the question that the demo quotes; "" if it is the one that was sent, or is none."""
    _, opened, rest = text.partition("「")
    said, closed, _ = rest.partition("」")
    sent = " ".join(body["messages"][0]["content"].split())
    inner = said.replace("『", "「").replace("』", "」")
    return inner if opened and closed and inner != sent else ""


def _judge_end(exam: Session, seen: Stream) -> None:
    reply = seen.reply
    if seen.frames.ended or not seen.frames.frames:
        if seen.frames.ended and reply.ending in ("cut", "silent"):
            how = "breaks" if reply.ending == "cut" else "is held open"
            exam.wrong("truncated", f"after the stream's end the connection {how}")
        judge_delay(exam, seen)
        return
    after = reply.ended - (reply.connected or reply.began)
    written = f" that takes {within(seen.written_s)}" if seen.written_s else ""
    clean = ", as if it were whole" if reply.ending == "whole" else ""
    if reply.ending in ("whole", "cut"):
        exam.wrong(
            "truncated",
            f"a stream{written} ends after {within(after)} and "
            f"{size(reply.size)} without stream.end{clean}",
        )


def judge_delay(exam: Session, seen: Stream) -> None:
    """Compare how long a stream took here with how long the relay took for it."""
    written = seen.written_s
    if written is None or not seen.frames.ended or exam.found("buffered"):
        return
    took = seen.frames.frames[-1].at - seen.frames.frames[0].at
    if took > written + max(LATE_S, 0.25 * written):
        rate = size(seen.reply.size / took)
        exam.late(
            "throttled",
            f"a stream that the relay wrote in {within(written)} took {within(took)}: "
            f"{rate} a second",
            during=[seen.reply.span],
            bytes_per_s=round(seen.reply.size / took),
        )


async def _try_http2(exam: Session) -> None:
    """Measure the same over HTTP/2, as browsers speak it where it is offered."""
    client = exam.client
    offered = any(measure.values.get("alpn") == "h2" for measure in exam.measures)
    if not offered or importlib.util.find_spec("h2") is None:
        return
    exam.say("measuring a stream over HTTP/2")
    reply = Reply("POST /v1/chat", time.monotonic())
    await _read_http2(exam, reply)
    client.trust.set_alpn_protocols(["http/1.1"])  # httpx2 has set its own
    if reply.error:
        exam.wrong("truncated", f"over HTTP/2 a stream fails: {reply.error}")
        return
    found = Stream(reply, read_frames(reply.pieces), {}).pace
    exam.measure(
        "pace over HTTP/2",
        f"{found.tokens} tokens came within {within(found.spread_s)}, in {found.groups} groups",
        spread_s=round(found.spread_s, 3),
    )
    if found.held == "at once":
        exam.wrong(
            "buffered",
            f"over HTTP/2 tokens are held back, and over HTTP/1.1 not: {found.tokens} came within "
            f"{within(found.spread_s)}",
        )


async def _read_http2(exam: Session, reply: Reply) -> None:
    client = exam.client
    try:
        async with (
            httpx2.AsyncClient(
                verify=client.trust, http2=True, http1=False, trust_env=False,
                timeout=client.timeout_s,
            ) as http,
            http.stream(
                "POST",
                f"{client.url}/v1/chat",
                json=exam.chat(max_tokens=TOKENS),
                headers=dict((*client.credential, STREAM)),
            ) as answer,
        ):  # fmt: skip
            reply.status = answer.status_code
            async for data in answer.aiter_bytes():
                reply.pieces.append((time.monotonic(), data))
    except httpx2.HTTPError as error:
        reply.error = str(error) or type(error).__name__
