"""Judges a history: the laws, as sentences about records.

The records of a history, and their fields besides `at`:

- `world` (hook, log, strict, begins_month): what was drawn of the settings
- `ask` (marker, key), `told` (marker, status, stream): a client's request, and the head it got
- `read` (session, stream, door, after), `frame` (session, id, data), `cut`, `left`: one connection
- `call` (marker, target, number), `billed` (.. nano, sent, whole, told, how, times): the provider's book
- `created` (stream, marker, key), `append` (stream, first, since, types, end), `deleted`: the log
- `started`, `attempt`, `first` (stream), `resent`, `check` (stage), `writes` (stream): observers, hooks, the log's calls
- `ended` (stream, status, nano, charges, lost): what observers receive
- `stored` (stream, status, frames): the stream as it can be read at the end
- `account` (name, running, held, nano, requests), `held`, `left`: what remains at the end
- `killed`, `lost` (writes), `stepped` (a clock), `full` (a disk): faults that excuse something
- `hangs`, `stuck`, `unhandled`, `logged`: what must not be

A history may have only some of these: each check concerns the records that are there.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Any, Final

from .history import Record
from .provider import answer_of

EXPECTED_LINES: Final = ("hook failed",)
"""Lines of errors that a fault explains."""

PROMPT_S: Final = 2.0
"""How soon a provider's first token is in the log, if nothing disturbs its way."""

READS_S: Final = 1.0
"""How long after its response a reader is known."""

SETTLES_S: Final = 3.0
"""How long before its end is known a stream may be settled; in memory both are one step."""

DISTURBANCES: Final = [
    "broken",
    "silent",
    "unreachable",
    "paused",
    "killed",
    "ends",
    "full",
    "lost",
]
"""Faults that delay or lose what a provider has sent."""

QUIET_S: Final = 0.5
HIDDEN_RATE: Final = 100
"""Tokens a second that a provider may generate and not send, in pauses from `QUIET_S` on."""

DAY_S: Final = 86_400
RETENTION_S: Final = 3600


def check(records: Sequence[Record]) -> list[str]:
    """Return what is wrong, a sentence each; empty for a right history."""
    history = _Sorted(records)
    return [
        *_check_orders(history),
        *_check_ends(history),
        *_check_blocks(history),
        *_check_contents(history),
        *_check_texts(history),
        *_check_delivery(history),
        *_check_failures(history),
        *_check_readers(history),
        *_check_keys(history),
        *_check_taken_keys(history),
        *_check_money(history),
        *_check_attempts(history),
        *_check_estimates(history),
        *_check_accounts(history),
        *_check_running(history),
        *_check_time(history),
        *_check_rests(history),
    ]


class _Sorted:
    """The records of a history by their kinds."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._kinds: dict[str, list[Record]] = defaultdict(list)
        for record in records:
            self._kinds[record["what"]].append(record)
        self.sessions = {one["session"]: one for one in self["read"]}
        self.frames: dict[str, list[Record]] = defaultdict(list)
        for frame in self["frame"]:
            self.frames[frame["session"]].append(frame)
        self.stored = {one["stream"]: one["frames"] for one in self["stored"] if one["frames"]}
        self.ended: dict[str, list[Record]] = defaultdict(list)
        for ended in self["ended"]:
            self.ended[ended["stream"]].append(ended)
        self.markers = {one["stream"]: one["marker"] for one in self["created"]}
        for ended in self["ended"]:
            ended.setdefault("marker", self.markers.get(ended["stream"], ""))
        killed = {one["process"] for one in self["killed"]}
        dead = {one["stream"] for one in self["created"] if one["process"] in killed}
        dead |= {stream for stream, ended in self.ended.items() if ended[0]["lost"]}
        producers: dict[str, set[str]] = defaultdict(set)
        for one in self["append"]:
            producers[one["stream"]].add(one.get("process", ""))
        dead |= {stream for stream, found in producers.items() if len(found) > 1}
        self.orphaned = {self.markers[stream] for stream in dead if stream in self.markers}
        """Requests with a stream that was ended for its process, or taken over: earlier attempts
        are unknown."""
        if self["lost"]:
            self.orphaned |= set(self.markers.values())
        self.billed: dict[tuple[str, int], Record] = {}
        """The last words of the provider about each call."""
        for one in self["billed"]:
            self.billed[one["target"], one["number"]] = one
        self.world: Record = (self["world"] or [{}])[0]
        self.expires = any(one["seconds"] >= RETENTION_S for one in self["stepped"])
        """Whether streams were older than the retention."""
        self.is_disturbed = any(self[kind] for kind in DISTURBANCES)

    def __getitem__(self, what: str) -> list[Record]:
        return self._kinds.get(what, [])


# (a) Readers see prefixes of one order


def _check_orders(history: _Sorted) -> Iterator[str]:
    for session, read in history.sessions.items():
        if read["door"] != "native":
            continue
        ids = [frame["id"] for frame in history.frames[session] if frame["id"]]
        numbers = [_number(one) for one in ids]
        if any(later <= before for before, later in pairwise(numbers)):
            yield f"{session}: ids do not ascend: {ids}"
        stored = history.stored.get(read["stream"])
        # While Redis is away, readers see what it may lose with the process.
        ended = history.ended.get(read["stream"], ())
        is_lost = history["lost"] and any(one["lost"] for one in ended)
        if stored is None or not ids or is_lost:
            continue
        order = [one for one, _ in stored]
        begin = order.index(read["after"]) + 1 if read["after"] in order else 0
        if order[begin : begin + len(ids)] != ids:
            yield (
                f"{session}: read {ids} after {read['after']!r}, "
                f"which is not what is stored: {order}"
            )


# (b) One end, last; never `completed` when the provider's answer was cut


def _check_ends(history: _Sorted) -> Iterator[str]:
    for stream, frames in history.stored.items():
        types = [json.loads(data)["type"] for _, data in frames]
        if types.count("stream.end") != 1 or types[-1] != "stream.end":
            yield f"{stream}: does not end once, and last: {types}"
        if types[0] != "stream.start" or types.count("stream.start") != 1:
            yield f"{stream}: does not begin once, and first: {types}"
    for session, frames_ in history.frames.items():
        if history.sessions[session]["door"] == "native":
            kinds = [json.loads(frame["data"])["type"] for frame in frames_]
            if "stream.end" in kinds[:-1]:
                yield f"{session}: something follows the end: {kinds}"
    for stream, ended in history.ended.items():
        if len(ended) > 1 and not history["lost"]:
            yield f"{stream}: was reported as ended {len(ended)} times"
    told = {kind: {one["stream"] for one in history[kind]} for kind in ("started", "first")}
    for stream, ended in history.ended.items():
        if not history.world or ended[0]["lost"] or ended[0]["marker"] in history.orphaned:
            continue
        if stream not in told["started"]:
            yield f"{stream}: was reported as ended, and not as started"
        if stream not in told["first"] and stream in history.stored and _text_of(history, stream):
            yield f"{stream}: has a text, and no first event was reported"
    appended: Counter[str] = Counter()
    over: dict[tuple[str, str], float] = {}
    for one in history["append"]:
        # Two that wait at the same time may return in another order than that of the log.
        since: float = one["since"] if "since" in one else one["at"]
        if since >= over.get((one["process"], one["stream"]), float("inf")):
            yield f"{one['stream']}: {one['types']} appended after its end"
        if one["end"] is not None:
            over[one["process"], one["stream"]] = one["at"]
        appended[one["stream"]] += 1


def _check_blocks(history: _Sorted) -> Iterator[str]:
    """A block has one start, then its pieces, then one end."""
    for stream, frames in history.stored.items():
        open_blocks: set[int] = set()
        for name, data in frames:
            event = json.loads(data)
            match event["type"]:
                case "text.start" if event["block"] not in open_blocks:
                    open_blocks.add(event["block"])
                case "text.delta" if event["block"] in open_blocks:
                    pass
                case "text.end" if event["block"] in open_blocks:
                    open_blocks.remove(event["block"])
                case "text.start" | "text.delta" | "text.end":
                    yield f"{name}: {data} is not where its block has it"
        if open_blocks:
            yield f"{stream}: ends with open blocks: {sorted(open_blocks)}"


# (c) An id names one content


def _check_contents(history: _Sorted) -> Iterator[str]:
    known: dict[tuple[str, str], str] = {}
    for frames in history.stored.values():
        known |= {("native", name): data for name, data in frames}
    for session, read in history.sessions.items():
        for frame in history.frames[session]:
            if frame["id"]:
                data = known.setdefault((read["door"], frame["id"]), frame["data"])
                if data != frame["data"]:
                    yield f"{session}: {frame['id']} is {frame['data']}, and was {data}"


# Nothing is lost, added or doubled


def _check_texts(history: _Sorted) -> Iterator[str]:
    wholes: dict[str, list[Record]] = defaultdict(list)
    for call in history.billed.values():
        if call["whole"]:
            wholes[call["marker"]].append(call)
    for stream, frames in history.stored.items():
        marker = history.markers.get(stream)
        if marker is None:
            continue
        events = [json.loads(data) for _, data in frames]
        text = "".join(event["text"] for event in events if event["type"] == "text.delta")
        full = "".join(answer_of(marker, 100))
        if text.replace("o", "0") != full[: len(text)]:
            yield f"{stream}: its text is {text!r}, which is no beginning of the provider's"
        end = events[-1]
        if end["type"] != "stream.end" or end["status"] != "completed":
            continue
        if marker not in wholes:
            yield f"{stream}: is completed, and the provider has completed no answer"
        elif all(len(text) != 4 * (call["skipped"] + call["sent"]) for call in wholes[marker]):
            yield f"{stream}: is completed with {text!r}, which is none of the whole answers"


def _check_delivery(history: _Sorted) -> Iterator[str]:
    """What a provider has sent arrives soon, and is in the stream however that ends."""
    if not history.world or history.is_disturbed:
        return
    shown: dict[str, float] = {}
    ends: dict[str, float] = {}
    streams: dict[str, list[str]] = defaultdict(list)
    for one in history["append"]:
        marker = history.markers[one["stream"]]
        if "TextDelta" in one["types"] or one["end"] is not None:
            shown.setdefault(marker, one["at"])
        if one["end"] is not None:
            ends[one["stream"]] = one["at"]
    for stream, marker in history.markers.items():
        streams[marker].append(stream)
    calls: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for call in history.billed.values():
        calls[call["marker"], call["target"]].append(call)
        sent = call["times"] and call["how"] != "reset" and not history.world["hook"]
        if sent and shown.get(call["marker"], 0) > call["times"][0] + PROMPT_S:
            yield (
                f"{call['marker']}: its first token was sent at {call['times'][0]}, "
                f"and appended at {shown[call['marker']]}"
            )
    for stream, ended in history.ended.items():
        marker, of_target = ended[0]["marker"], calls[ended[0]["marker"], ended[0]["target"]]
        end = _end_of(history, stream)
        if end is None or len(of_target) != 1 or len(streams[marker]) != 1 or stream not in ends:
            continue
        code, call = (end.get("error") or {}).get("code", ""), of_target[0]
        by_provider = end["status"] == "failed" and code.startswith("upstream_")
        is_stopped = end["status"] == "cancelled" and not history.world["hook"]
        if call["how"] == "reset" or not (by_provider or is_stopped):
            continue
        left = not call["whole"] and call["how"] in ("whole", "silent", "stall")
        until = min(ends[stream], call["at"]) if left else ends[stream]
        due = sum(at < until - 1 for at in call["times"])
        if code == "upstream_truncated" and call["how"] in ("cut", "torn"):
            # What was sent before the end of a connection arrives before that.
            due = len(call["times"])
        due = max(due, call.get("arrived", 0))
        text = _text_of(history, stream)
        if due and len(text) < 4 * (call["skipped"] + due):
            yield f"{stream}: ends with {text!r}, and {due} tokens had been sent long before, or arrived"


def _check_readers(history: _Sorted) -> Iterator[str]:
    """No stream is stopped for want of readers while one reads it to its end."""
    if not history.world or history.is_disturbed:
        return
    ended_at = {one["stream"]: one["at"] for one in history["append"] if one["end"] is not None}
    for session, frames in history.frames.items():
        read = history.sessions[session]
        if read["door"] != "native" or not frames:
            continue
        end = json.loads(frames[-1]["data"])
        if end.get("ended_by") != "reader_gone":
            continue
        if read["at"] < ended_at.get(read["stream"], 0) - READS_S:
            yield f"{session}: reads since {read['at']}, and its stream has ended without readers"


def _check_failures(history: _Sorted) -> Iterator[str]:
    """A provider is at fault only if one had a fault, or the way to it."""
    faults = any(call["how"] not in ("whole", "silent") for call in history["call"])
    if not history.world or faults or history.is_disturbed:
        return
    for frames in history.stored.values():
        for name, data in frames:
            event = json.loads(data)
            code = (event.get("error") or {}).get("code", "")
            fails = code.startswith("upstream_") and code != "upstream_timeout"
            # A connection that was kept may be closed as it is used again.
            late = re.search(r" within | for [\d.]+ s|sent again", event.get("message", ""))
            if fails or (event.get("code") in ("retry", "fallback") and not late):
                yield f"{name}: {data}, and no provider has failed"


# (d) A key causes at most one charged call that is not told


def _check_keys(history: _Sorted) -> Iterator[str]:
    charged: Counter[str] = Counter()
    for call in history.billed.values():
        charged[call["marker"]] += call["nano"] > 0
    told: Counter[str] = Counter()
    for ended, *_ in history.ended.values():
        told[ended["marker"]] += sum(charge["counted"] for charge in ended["charges"])
    for marker, count in charged.items():
        if count > told[marker] and marker not in history.orphaned:
            yield f"{marker}: {count} calls were billed, {told[marker]} were charged"
    by_key: dict[str, list[str]] = defaultdict(list)
    deleted = {one["stream"] for one in history["deleted"]}
    for one in history["created"]:
        if one["key"] is not None and one["stream"] not in deleted:
            by_key[one["key"]].append(one["stream"])
    for key, streams in by_key.items():
        good = [
            stream
            for stream in streams
            if any(end["status"] != "failed" for end in history.ended.get(stream, ()))
        ]
        if len(good) > 1 and not (history["lost"] or history.expires):
            yield f"{key}: has {len(good)} streams that did not fail: {good}"


def _check_taken_keys(history: _Sorted) -> Iterator[str]:
    """Another stream of a key follows only one that failed before its answer, and may be tried."""
    deleted = {one["stream"] for one in history["deleted"]}
    latest: dict[tuple[str, str], str] = {}
    for one in history["created"] if not (history["lost"] or history.expires) else ():
        if one["key"] is None:
            continue
        before = latest.get((one["key"], one["marker"]))
        latest[one["key"], one["marker"]] = one["stream"]
        if before is None or before in deleted or before not in history.stored:
            continue
        types = [json.loads(data)["type"] for _, data in history.stored[before]]
        error = (_end_of(history, before) or {}).get("error") or {}
        if "stream.target" in types or not error.get("retryable"):
            yield f"{one['key']}: {one['stream']} has replaced {before}, which ended with {error}"


# (e) Settled sum = the provider's books, but for told estimates


def _check_money(history: _Sorted) -> Iterator[str]:
    billed: Counter[str] = Counter()
    for call in history.billed.values():
        billed[call["marker"]] += call["nano"]
    settled: Counter[str] = Counter()
    estimated: set[str] = set()
    for ended, *_ in history.ended.values():
        marker = ended["marker"]
        settled[marker] += ended["nano"] or 0
        if any(charge["estimated"] for charge in ended["charges"]):
            estimated.add(marker)
    for marker in {**billed, **settled}:
        if marker not in estimated | history.orphaned and billed[marker] != settled[marker]:
            yield (
                f"{marker}: {settled[marker]} nano-USD are settled as the provider's count, "
                f"which is {billed[marker]}"
            )


def _check_attempts(history: _Sorted) -> Iterator[str]:
    """Each attempt is charged once; a request that was sent again may be billed twice."""
    made = Counter(one["stream"] for one in history["attempt"])
    for stream, (ended, *_) in history.ended.items() if history.world else ():
        count = sum(charge["counted"] for charge in ended["charges"])
        if not ended["lost"] and count > made[stream] + len(history["resent"]):
            yield f"{stream}: {made[stream]} attempts were made, {count} were charged"


def _check_estimates(history: _Sorted) -> Iterator[str]:
    """No more output is charged than was sent, and may have been generated in pauses.

    A relay that stands still, or whose connection is silent, sees pauses that were none.
    """
    unseen = history["paused"] or history["silent"]
    if not history.world or history.world["strict"] or unseen:
        return
    last: dict[str, float] = {}
    for stream, marker in history.markers.items():
        at = max((one["at"] for one in history.ended.get(stream, ())), default=0.0)
        last[marker] = max(last.get(marker, 0.0), at)
    sent: Counter[str] = Counter()
    for one in history["call"]:
        call = history.billed[one["target"], one["number"]]
        times = [one["at"], *call["times"], max(last.get(one["marker"], 0), call["at"])]
        pauses = sum(gap for a, b in pairwise(times) if (gap := b - a) > QUIET_S)
        sent[one["marker"]] += call["sent"] + int(2 * HIDDEN_RATE * pauses)
    charged: Counter[str] = Counter()
    for ended, *_ in history.ended.values():
        charged[ended["marker"]] += sum(charge["output"] for charge in ended["charges"])
    for marker, count in charged.items():
        if count > sent[marker] and marker not in history.orphaned:
            yield f"{marker}: {count} tokens were charged, at most {sent[marker]} were sent"


def _check_running(history: _Sorted) -> Iterator[str]:
    """An account counts each stream that runs."""
    if not history.world or history.is_disturbed:
        return
    settles_s = 0.1 if history.world["log"] == "memory" else SETTLES_S
    over: dict[str, float] = {}
    for one in sorted((*history["append"], *history["deleted"]), key=lambda one: one["at"]):
        if one.get("end", "") is not None:
            over.setdefault(one["stream"], one["at"])
    for balance in history["balance"]:
        at = balance["at"]
        runs = [
            one["stream"]
            for one in history["created"]
            if one["at"] < balance.get("since", at) and over.get(one["stream"], at) > at + settles_s
        ]
        if len(runs) > balance["running"]:
            yield f"account {balance['name']}: {balance['running']} streams run, and {runs} do"


def _may_turn(history: _Sorted) -> bool:
    """Return whether clocks may have begun a month anew: one that is a day behind is right."""
    created = history["created"]
    drift_s, least_s = 0.0, 0.0
    for one in history["stepped"]:
        drift_s += one["seconds"]
        least_s = min(least_s, drift_s)
        if drift_s < 0 and (not created or one["at"] < created[0]["at"]):
            least_s = -DAY_S
    return bool(history.world.get("begins_month")) and least_s <= -DAY_S


def _check_accounts(history: _Sorted) -> Iterator[str]:
    for one in history["account"]:
        if one["running"] or one["held"]:
            yield f"account {one['name']}: {one['running']} streams and {one['held']} stay held"
    relay = [one for one in history["account"] if one["name"] == "relay"]
    may_turn = _may_turn(history)
    if relay and not history["lost"] and not may_turn:
        settled = sum(_costs(history))
        if relay[0]["nano"] != settled:
            yield f"account relay: has {relay[0]['nano']} nano-USD, its streams {settled}"
    highest: dict[str, int] = {}
    for one in history["balance"]:
        name, used, limit = one["name"], one["nano"], one["limit"]
        if used < highest.get(name, 0) and not (history["lost"] or may_turn):
            yield f"account {name}: its usage sank from {highest[name]} to {used}"
        highest[name] = used
        if limit is not None and used + one["held"] > limit:
            yield f"account {name}: {used} used and {one['held']} held exceed {limit}"
        most = one["most"]
        if most is not None and one["running"] > most:
            yield f"account {name}: {one['running']} streams run, of {most}"


def _costs(history: _Sorted) -> Iterator[int]:
    """Yield what each stream has cost, as observers were told, or as its stored end says."""
    for stream in history.markers:
        if stream in history.ended:
            yield history.ended[stream][0]["nano"] or 0
        elif stream in history.stored:
            end = json.loads(history.stored[stream][-1][1])
            yield round(Decimal(end.get("cost", "0")) * 10**9)


# (f) Nothing hangs beyond its deadline; (g) nothing stays held


def _check_time(history: _Sorted) -> Iterator[str]:
    for one in history["hangs"]:
        yield f"{one['what_hangs']} still waits after {one['after_s']:g} s"
    if not (history["silent"] or history["paused"]):
        for one in history["silence"]:
            yield f"{one['session']}: nothing came, not even a heartbeat"
    for one in history["stuck"]:
        yield f"the simulation does not go on: {one['why']}"


def _check_rests(history: _Sorted) -> Iterator[str]:
    for one in history["held"]:
        for name, count in one.items():
            if name not in ("at", "what", "process") and count:
                yield f"{one['process']}: {count} {name} stay held"
    for one in history["left over"]:
        yield f"{one['process']}: a task is left: {one['task']}"
    for one in history["unhandled"]:
        yield f"unhandled: {one['error']}"
    for one in history["logged"]:
        if one["line"] not in EXPECTED_LINES and not _explains(history, one):
            yield f"the relay has logged an error: {one['line']} {one['why']}"


def _explains(history: _Sorted, line: Mapping[str, Any]) -> bool:
    """Return whether a fault explains a line of the log."""
    if "CancelledError" in line["why"]:
        return bool(history["cancelled"])
    if not history["full"]:
        return False
    # A stream that never began cannot be removed either.
    return "event log" in line["line"] or "no producer" in line["line"]


def _end_of(history: _Sorted, stream: str) -> dict[str, Any] | None:
    """Return the end of a stream, as stored."""
    frames = history.stored.get(stream)
    end: dict[str, Any] = json.loads(frames[-1][1]) if frames else {}
    return end if end.get("type") == "stream.end" else None


def _text_of(history: _Sorted, stream: str) -> str:
    events = [json.loads(data) for _, data in history.stored[stream]]
    return "".join(event["text"] for event in events if event["type"] == "text.delta")


def _number(name: str) -> int:
    return int(name.rpartition(".")[2])


def sentences(found: Iterable[str], *, most: int = 5) -> str:
    """Return some of what is wrong, a line each."""
    lines = [*found]
    more = [f"... and {len(lines) - most} more"] if len(lines) > most else []
    return "\n".join([f"  {line[:400]}" for line in [*lines[:most], *more]])
