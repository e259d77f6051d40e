"""The relays' books beside the provider's ledger: what must not be."""

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from app.telemetry.row import StreamRow
from tests.money.books import Books, held
from tests.money.company import MEMBERS, QUICK
from tests.money.provider import INPUT_NANO, OUTPUT_NANO, Call, Provider

IN_FLIGHT = 12
"""By how many tokens an answer that was cut may be estimated wrong: those that were under way."""
LATE = 0.01
"""How many such estimates may be more wrong, where processes wait for a busy machine."""


@dataclass
class Asked:
    """One request, as its client saw it; `name` is that of its plan."""

    name: str
    status: int | None = None
    """None: it heard nothing."""
    code: str = ""
    streams: set[str] = field(default_factory=set)
    """Those that it was told of."""
    end: str | None = None
    """The status of the end that it read."""
    keyed: bool = False
    """Whether it was sent again, with a key, until it was answered."""
    way: str = ""


@dataclass
class Verdict:
    """What was found; `faults` is empty where the books are right."""

    faults: list[str]
    streams: int
    billed: int
    booked: int
    """In nano-USD."""


def judge(books: Books, provider: Provider, asked: Iterable[Asked]) -> Verdict:
    """Compare the books with the ledger, once everything is quiet."""
    asked = list(asked)
    rows: dict[str, list[StreamRow]] = defaultdict(list)
    for _, row in books.rows:
        rows[row.request_id].append(row)
    streams = Counter(stream for stream, _ in books.rows)
    faults = held(books.accounts)
    faults += [f"{count} rows of {stream}" for stream, count in streams.items() if count > 1]
    faults += [f"row of {kept} says {row.stream}" for kept, row in books.rows if kept != row.stream]
    estimates: list[str] = []
    for one in asked:
        calls, own = provider.ledger.get(one.name, []), rows.get(one.name, [])
        found = _judge_one(one, calls, own, streams, estimates)
        faults += [f"{one.name}: {fault}" for fault in found]
    late = [estimate for estimate in estimates if estimate]
    if len(late) > 1 + LATE * len(estimates):
        faults += late
    unknown = rows.keys() - {one.name for one in asked}
    faults += [f"a row of {name!r}, which nobody asked for" for name in unknown]
    faults += _sums(books)
    booked = sum(row.nano_usd or 0 for _, row in books.rows)
    return Verdict(faults, len(books.rows), billed=provider.billed, booked=booked)


def _judge_one(
    one: Asked,
    calls: Sequence[Call],
    rows: Sequence[StreamRow],
    streams: Mapping[str, int],
    estimates: list[str],
) -> list[str]:
    """Judge one request: it has one row where a stream was begun, at what the calls cost.

    Adds to `estimates` one whose cost is not the provider's: a text if it is more wrong than by
    what was under way, else "".
    """
    gone = [stream for stream in one.streams if stream not in streams]
    faults = [f"no row of its stream {stream}; {one}; {_tell(calls, rows)}" for stream in gone]
    if len(rows) > 1 and not one.keyed:
        faults.append(f"{len(rows)} rows; {one}; {_tell(calls, rows)}")
    if calls and not rows:
        faults.append(f"no row; {one}; {_tell(calls, rows)}")
    if one.status == 429 and one.code == "budget_exceeded" and (calls or rows) and not one.keyed:
        faults.append(f"refused, and {len(calls)} calls, {len(rows)} rows")
    if not rows:
        return faults
    booked, billed = sum(row.nano_usd or 0 for row in rows), sum(call.billed for call in calls)
    if any(row.nano_usd is None for row in rows):
        faults.append("a row without a price")
    told = all(row.usage_from == "provider" for row in rows)
    if told:
        if booked != billed:
            faults.append(
                f"booked {booked} by the provider's count, billed {billed}; {_tell(calls, rows)}"
            )
        return faults
    kept = sum(row.output_tokens or 0 for row in rows)
    sent = sum(call.sent for call in calls)
    lost = any(row.lost for row in rows)
    taken = sum(call.input_tokens for call in calls if call.taken)
    least = min(taken, sum(call.estimate for call in calls if call.taken))
    read = sum(row.input_tokens or 0 for row in rows)
    if not lost and read < least:
        faults.append(f"{read} tokens of input booked, {least} used; {_tell(calls, rows)}")
    error = booked - billed
    if taken != least:  # what is estimated cannot know that the provider counts otherwise
        error += (taken - read) * INPUT_NANO
    if lost:
        # What the relay had not written, and calls of it that nobody knows of, are not known.
        if kept > sent + IN_FLIGHT:
            faults.append(f"{kept} tokens of output booked, {sent} sent")
    else:
        late = (
            f"{one.name}: booked {booked} ({kept} tokens of output), billed {billed} ({sent}); "
            f"{_tell(calls, rows)}"
        )
        estimates.append(late if abs(error) > IN_FLIGHT * OUTPUT_NANO else "")
    charged = [call for call in calls if call.taken]
    # A call that was too late for the relay has told it nothing, not even that it is refused.
    in_time = (rows[0].first_event_s or 0) < QUICK["first_event_timeout_s"]
    told_all = len(charged) == 1 and charged[0].told and in_time
    if told_all and rows[0].status == "completed" and not lost:
        faults.append(f"estimated, and the provider has told: {rows}")
    return faults


def _tell(calls: Sequence[Call], rows: Sequence[StreamRow]) -> str:
    told = [
        f"{call.plan.prompt!r} taken={call.taken} sent={call.sent} told={call.told}"
        for call in calls
    ]
    brief = [
        f"{row.stream} {row.status} {row.code} attempts={row.attempts} {row.usage_from} {row.client_format} "
        f"{row.target}"
        for row in rows
    ]
    return f"calls {told}, rows {brief}"


def _sums(books: Books) -> list[str]:
    """Compare each account with the rows of those who take from it.

    A storm over midnight (UTC) has rows of a day that the account no longer counts: the month
    alone is compared then, and at its end nothing.
    """
    times = {time.time(), *(row.started_at for _, row in books.rows)}
    days = {datetime.fromtimestamp(at, UTC).date() for at in times}
    months = {day.month for day in days}
    sums: dict[str, list[int]] = {name: [0, 0, 0, 0] for name in books.accounts}
    known = {(member.tenant, member.key, member.user): member.accounts for member in MEMBERS}
    for _, row in books.rows:
        for name in known.get((row.tenant, row.key, row.user), ("relay",)):
            if name in sums:
                of = sums[name]
                of[0] += 1
                of[1] += row.input_tokens or 0
                of[2] += row.output_tokens or 0
                of[3] += row.nano_usd or 0
    faults = []
    for name, of in sums.items():
        account = books.accounts[name]
        for period, spans in ((account.day, days), (account.month, months)):
            if len(spans) > 1:
                continue
            found = [period.requests, period.input_tokens, period.output_tokens, period.nano_usd]
            if found != of:
                faults.append(f"{name} has {found} in its books (requests, tokens, USD), rows {of}")
    return faults
