"""Checks of a server's answer. Each yields what is wrong; cases name them."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from .wire import Event

Check = Callable[["Answer", list["Answer"], Any], Iterator[str]]

CR, LF = b"\r", b"\n"
HEARTBEAT = ": hb"
NAMES_OF_NO_EVENT = {"error", "open", "message"}
BLOCKS = ("text", "reasoning", "refusal", "tool_call")


@dataclass
class Frame:
    """The lines of one frame, without the heartbeats before it."""

    lines: list[str]
    heartbeats: int = 0

    def values(self, name: str) -> list[str]:
        return [line[len(name) + 2 :] for line in self.lines if line.startswith(f"{name}: ")]

    @property
    def event(self) -> Event:
        """Its data; {} if that is no JSON object."""
        return json_object("\n".join(self.values("data")))

    @property
    def number(self) -> int:
        """The number in its id; 0 if it has none."""
        digits = "".join(self.values("id")).rpartition(".")[2]
        return int(digits) if digits.isdigit() else 0


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    data: bytes
    is_cut: bool = False
    """The body broke off, or did not end in time."""
    is_left: bool = False
    """Its rest was not read."""

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")

    @cached_property
    def json(self) -> Any:
        try:
            return json.loads(self.data)
        except ValueError:
            return None

    @cached_property
    def frames(self) -> list[Frame]:
        if "event-stream" not in self.headers.get("content-type", ""):
            return []
        return frames_of(self.text)

    @cached_property
    def lines(self) -> list[Event]:
        """The objects of JSON lines."""
        if "ndjson" not in self.headers.get("content-type", ""):
            return []
        return [json_object(line) for line in self.text.split("\n")[:-1]]

    @cached_property
    def events(self) -> list[Event]:
        """The events, of either form."""
        if self.lines:
            return [
                {name: value for name, value in line.items() if name != "event_id"}
                for line in self.lines
            ]
        return [frame.event for frame in self.frames if frame.event]

    @cached_property
    def numbers(self) -> list[int]:
        if self.lines:
            ids = [str(line.get("event_id", "")) for line in self.lines]
            return [int(one.rpartition(".")[2] or 0) for one in ids]
        return [frame.number for frame in self.frames if frame.values("data")]


def json_object(text: str) -> Event:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def frames_of(text: str) -> list[Frame]:
    """Return the whole frames of a body. Other line ends than LF are for `lines_end_in_lf`."""
    frames = []
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    for block in text.split("\n\n")[:-1]:
        lines = block.split("\n")
        count = 0
        while lines and lines[0] == HEARTBEAT:
            lines.pop(0)
            count += 1
        frames.append(Frame(lines, count))
    return frames


def with_data(answer: Answer) -> list[Frame]:
    return [frame for frame in answer.frames if frame.values("data")]


def lines_end_in_lf(answer: Answer, past: list[Answer], argument: Any) -> Iterator[str]:
    if CR in answer.data:
        yield f"a CR is in line {answer.data.partition(CR)[0].count(LF) + 1}: end lines in LF"


def whole_frames(answer: Answer, past: list[Answer], argument: Any) -> Iterator[str]:
    if not answer.is_left and not answer.text.replace("\r", "").endswith("\n\n"):
        yield f"the body ends within a frame: {answer.text[-80:]!r}"
    for frame in answer.frames:
        if not frame.lines:
            yield "a blank line follows a heartbeat"
        if len(frame.values("data")) > 1:
            yield f"a frame has more than one data line: {frame.lines}"
        if frame.values("data") and not frame.event:
            yield f"data is no JSON object: {frame.values('data')}"
        for line in frame.lines:
            if line.partition(": ")[0] not in ("event", "data", "id", "retry"):
                yield f"the line {line!r} is no field of a frame"


def events_have_names(answer: Answer, past: list[Answer], argument: Any) -> Iterator[str]:
    for frame in with_data(answer):
        if frame.values("event") != [frame.event.get("type")]:
            yield f"event: {frame.values('event')} is not the type {frame.event.get('type')!r}"
        if NAMES_OF_NO_EVENT & {*frame.values("event")}:
            yield f"event: {frame.values('event')} is a name that EventSource uses"


def ids_count(answer: Answer, past: list[Answer], argument: Any) -> Iterator[str]:
    """Ids name the stream and count from 1, or from after the argument."""
    after = int(argument or 0)
    stream = answer.headers.get("stream-id")
    for frame in with_data(answer):
        number = frame.number
        if frame.values("id") != [f"{stream}.{number}"]:
            yield f"id: {frame.values('id')} is not {stream}.NUMBER"
        elif number != after + 1:
            yield f"id: number {number} comes after {after}"
        after = number


def id_is_last(answer: Answer, past: list[Answer], argument: Any) -> Iterator[str]:
    for frame in with_data(answer):
        if not frame.lines[-1].startswith("id: "):
            yield f"the last line of a frame is {frame.lines[-1]!r}, not its id"


def retry_is_first(answer: Answer, past: list[Answer], argument: Any) -> Iterator[str]:
    places = [place for place, frame in enumerate(answer.frames) if frame.values("retry")]
    if places != [0]:
        yield f"retry: is in the frames {places}, not only in the first"
    elif not all(value.isdigit() for value in answer.frames[0].values("retry")):
        yield f"retry: {answer.frames[0].values('retry')} is no number of milliseconds"


def heartbeat(answer: Answer, past: list[Answer], argument: Any) -> Iterator[str]:
    if f"\n{HEARTBEAT}\n" not in answer.text:
        yield "no line ': hb' came"
    if f"\n{HEARTBEAT}\n\n" in answer.text:
        yield "a blank line follows the heartbeat"
    for block in answer.text.split("\n\n"):
        seen = False
        for line in block.split("\n"):
            if line == HEARTBEAT and seen:
                yield f"the heartbeat is within a frame: {block!r}"
            seen |= line != HEARTBEAT


def pings(answer: Answer, past: list[Answer], argument: Any) -> Iterator[str]:
    found = [frame for frame in answer.frames if frame.values("event") == ["ping"]]
    if not found:
        yield "no event 'ping' came"
    if any(frame.values("id") for frame in found):
        yield "a ping has an id"


def starts_and_ends(answer: Answer, past: list[Answer], argument: Any) -> Iterator[str]:
    """One start, first, and one end, last; the argument is the status."""
    types = [event.get("type") for event in answer.events]
    if types[:1] != ["stream.start"] or types.count("stream.start") != 1:
        yield f"stream.start is not first and only: {types}"
    if types[-1:] != ["stream.end"] or types.count("stream.end") != 1:
        yield f"stream.end is not last and only: {types}"
    elif answer.events[-1].get("status") != (argument or "completed"):
        yield f"status: expected {argument or 'completed'!r}, got {answer.events[-1]}"


def target_comes_first(answer: Answer, past: list[Answer], argument: Any) -> Iterator[str]:
    types = [str(event.get("type")) for event in answer.events]
    of_answer = [place for place, name in enumerate(types) if name.partition(".")[0] in BLOCKS]
    if "stream.target" not in types or types.index("stream.target") > min(of_answer, default=0):
        yield f"stream.target does not precede the answer: {types}"


def blocks_are_closed(answer: Answer, past: list[Answer], argument: Any) -> Iterator[str]:
    """Blocks are numbered from 0, each with one start, its deltas and one end."""
    begun: list[Any] = []
    open_now: set[Any] = set()
    for event in answer.events:
        kind, _, step = str(event.get("type")).partition(".")
        if kind not in BLOCKS:
            continue
        block = (kind, event.get("block"))
        if step == "start":
            begun.append(event.get("block"))
            open_now.add(block)
        elif block not in open_now:
            yield f"{event.get('type')} of block {event.get('block')}, which is not open"
        elif step == "end":
            open_now.remove(block)
    if open_now:
        yield f"blocks have no end: {sorted(map(str, open_now))}"
    if begun != [*range(len(begun))] or not begun:
        yield f"blocks are numbered {begun}"


def counted_once(answer: Answer, past: list[Answer], argument: Any) -> Iterator[str]:
    ends = [event.get("choice", 0) for event in answer.events if event.get("type") == "choice.end"]
    if len(ends) != len({*ends}):
        yield f"choices end more than once: {ends}"
    if [event.get("type") for event in answer.events].count("usage") > 1:
        yield "there is more than one usage"


def choices_end(answer: Answer, past: list[Answer], argument: Any) -> Iterator[str]:
    """Choices end as the argument lists them, None for one without `choice`."""
    ends = [event.get("choice") for event in answer.events if event.get("type") == "choice.end"]
    if sorted(map(str, ends)) != sorted(map(str, argument)):
        yield f"the choices {argument} should end, not {ends}"


def no_unknown_values(answer: Answer, past: list[Answer], argument: Any) -> Iterator[str]:
    for event in answer.events:
        for name, value in [*event.items(), *dict(event.get("usage") or {}).items()]:
            if value is None:
                yield f"{name} is null in {event}"
            if name == "choice" and value == 0:
                yield f"choice is 0 in {event}"


def tool_calls_are_json(answer: Answer, past: list[Answer], argument: Any) -> Iterator[str]:
    """Each tool call is whole JSON, and its deltas are the same; or nothing claims so."""
    deltas: dict[Any, str] = {}
    calls = 0
    end = answer.events[-1] if answer.events else {}
    claimed = end.get("status") == "completed" and end.get("finish_reason") == "tool_calls"
    for event in answer.events:
        block = event.get("block")
        if event.get("type") == "tool_call.delta":
            deltas[block] = deltas.get(block, "") + str(event.get("arguments"))
        elif event.get("type") == "tool_call.end":
            calls += 1
            text = str(event.get("arguments"))
            if deltas.get(block, "") != text:
                yield f"arguments: the deltas say {deltas.get(block)!r}, the end {text!r}"
            if claimed and not json_object(text):
                yield f"arguments: {text!r} is no JSON object, but the stream is completed"
            if not claimed and not event.get("incomplete") and not json_object(text):
                yield f"arguments: {text!r} is cut, but not marked as incomplete"
    if not calls:
        yield "there is no tool call"


def continues(answer: Answer, past: list[Answer], argument: Any) -> Iterator[str]:
    """The answer has the events of the first one after a number, by default one for each step."""
    first = past[0]
    cursor = int(argument)
    yield from same_after(answer, first, cursor)


def continues_last(answer: Answer, past: list[Answer], argument: Any) -> Iterator[str]:
    """The answer has what the first one had after the events that it lacks at the beginning."""
    first = past[0]
    number = answer.numbers[0] if answer.numbers else 0
    yield from same_after(answer, first, number - 1)
    done = sum(1 for one in past if one.status == 200) - 2
    if number != done + 2:
        yield f"the first event is number {number}, not {done + 2}"


def same_after(answer: Answer, first: Answer, cursor: int) -> Iterator[str]:
    expected = [pair for pair in zip(first.numbers, first.events, strict=True) if pair[0] > cursor]
    found = [*zip(answer.numbers, answer.events, strict=True)]
    if expected != found:
        shown = [number for number, _ in found]
        yield f"expected the events {[number for number, _ in expected]}, got {shown}"
        for one, other in zip(expected, found, strict=False):
            if one != other:
                yield f"expected {one}, got {other}"


def other_stream(answer: Answer, past: list[Answer], argument: Any) -> Iterator[str]:
    if answer.headers.get("stream-id") == past[0].headers.get("stream-id"):
        yield "it is the stream of the first answer"


def deltas_are_joined(answer: Answer, past: list[Answer], argument: Any) -> Iterator[str]:
    """The same text in fewer events, whose ids are those of the first answer."""
    if text_of(answer) != text_of(past[0]):
        yield f"text: expected {text_of(past[0])!r}, got {text_of(answer)!r}"
    if len(answer.events) >= len(past[0].events):
        yield f"{len(answer.events)} events are not fewer than {len(past[0].events)}"
    if not {*answer.numbers} <= {*past[0].numbers}:
        yield f"the numbers {answer.numbers} are not among {past[0].numbers}"


def text_of(answer: Answer) -> str:
    return "".join(
        str(event.get("text"))
        for event in answer.events
        if event.get("type") == "text.delta" and not event.get("choice")
    )


def same_text(answer: Answer, past: list[Answer], argument: Any) -> Iterator[str]:
    """A JSON result has the text of the events of the first answer."""
    found = answer.json.get("text") if isinstance(answer.json, dict) else None
    if found != text_of(past[0]):
        yield f"text: expected {text_of(past[0])!r}, got {found!r}"


def json_lines(answer: Answer, past: list[Answer], argument: Any) -> Iterator[str]:
    """Each line is an event behind its id."""
    if not answer.lines or not answer.text.endswith("\n"):
        yield f"the body is not JSON lines: {answer.text[-80:]!r}"
    stream = answer.headers.get("stream-id")
    for number, line in enumerate(answer.lines, start=1):
        if [*line][:2] != ["event_id", "type"] or line["event_id"] != f"{stream}.{number}":
            yield f"line {number} does not begin with its id and type: {line}"
    if "retry" in {name for line in answer.lines for name in line}:
        yield "a line has a retry"


def space_between_lines(answer: Answer, past: list[Answer], argument: Any) -> Iterator[str]:
    if "\n " not in answer.text:
        yield f"no space came between lines: {answer.text[-80:]!r}"


def hides_stream(answer: Answer, past: list[Answer], argument: Any) -> Iterator[str]:
    """No data has the stream's id, which only headers and cursors have."""
    stream = answer.headers.get("stream-id", "")
    secret = stream.removeprefix("st_")
    if not secret:
        yield "there is no header stream-id"
    elif any(secret in value for frame in answer.frames for value in frame.values("data")):
        yield f"an event reveals the stream's id {stream!r}"


def no_ids(answer: Answer, past: list[Answer], argument: Any) -> Iterator[str]:
    if any(frame.values("id") for frame in answer.frames):
        yield "frames have ids"


def data_of(answer: Answer, past: list[Answer], argument: Any) -> Iterator[str]:
    """The data of the answer to a step, after so many frames."""
    step, skipped = argument
    expected = [frame.values("data") for frame in with_data(past[step - 1])][skipped:]
    found = [frame.values("data") for frame in with_data(answer)]
    if expected != found:
        yield f"expected {len(expected)} frames of step {step}, got {len(found)}, or others"


def differs_from(answer: Answer, past: list[Answer], argument: Any) -> Iterator[str]:
    if answer.events == past[argument - 1].events:
        yield f"it is the same as the answer of step {argument}"


def fails(answer: Answer, past: list[Answer], argument: Any) -> Iterator[str]:
    """An error has its status, or comes behind spaces in a body that breaks off."""
    document = answer.json if isinstance(answer.json, dict) else {}
    if document.get("code") != argument:
        yield f"code: expected {argument!r}, got {document}"
    if answer.status == 200 and not (answer.is_cut and answer.data.startswith(b" ")):
        yield "an error after status 200 comes behind spaces, and the body breaks off"
    if answer.status != 200 and answer.is_cut:
        yield "the body of an error breaks off"


CHECKS: dict[str, Check] = {
    check.__name__: check
    for check in (
        lines_end_in_lf, whole_frames, events_have_names, ids_count, id_is_last, retry_is_first,
        heartbeat, pings, starts_and_ends, target_comes_first, blocks_are_closed, counted_once,
        choices_end, no_unknown_values, tool_calls_are_json, continues, continues_last,
        other_stream, deltas_are_joined, same_text, json_lines, space_between_lines, hides_stream,
        no_ids, data_of,
        differs_from, fails,
    )
}  # fmt: skip
"""The checks by the names that cases use."""

OF_NO_EVENTS = {"same_text", "fails"}
"""Checks of JSON; every other one also fails where there are no events."""
