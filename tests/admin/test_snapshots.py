"""What processes show: bounded whatever clients send, and put together without a loss."""

import functools
import random
from typing import Any

import msgspec
import pytest

from app.admin.history import History
from app.admin.snapshot import (
    MAX_LAST,
    MAX_STREAMS,
    MAX_TEXT,
    MINUTES,
    LastError,
    LastTrouble,
    LiveStream,
    Process,
    Share,
    Snapshot,
    TargetHealth,
    merge,
    pack_snapshot,
    unpack_snapshot,
)
from app.errors import CODES, RequestError, UpstreamError
from app.eventlog.peers import MAX_MESSAGE_BYTES
from app.eventlog.stream_ended import StreamEnded
from app.eventlog.stream_info import StreamInfo
from app.events import ErrorInfo, Status, StreamEnd
from app.generation.account_reader import MAX_ACCOUNTS, list_named
from app.generation.reservation import Reservations
from app.identity.principal import Principal
from app.ledger.config import LimitsConfig, UsageLimits
from app.ledger.prices import PriceBook
from app.policies.retry import State
from app.telemetry.observer import AttemptFailed, Refused
from tests.clock import StoppedClock

pytestmark = pytest.mark.pure

NOW = 1_795_358_000.0


def live(number: int, *, text: str = "") -> LiveStream:
    return LiveStream(
        id=f"st_{number:022}",
        request_id="",
        owner=text,
        tenant="",
        key=None,
        user=text,
        route=text,
        target=None,
        process="a",
        attempt=1,
        started_at=NOW + number,
        first_event_s=None,
        events=0,
        gap_s=0.0,
        longest_gap_s=None,
    )


def board(name: str = "a", **fields: object) -> Snapshot:
    process = Process(
        id=name,
        host="h",
        pid=1,
        started_at=NOW,
        at=NOW,
        streams=len(name),
        readers=0,
        draining=False,
        log_healthy=True,
        log_streams=0,
        log_bytes=0,
    )
    counts: dict[Any, Any] = {"refused": {}, "failed": {}}
    return msgspec.structs.replace(Snapshot(processes=[process], counts=counts), **fields)


def health(
    target: str,
    state: State,
    *,
    failures: int = 0,
    retry_at: float | None = None,
    last_error: LastError | None = None,
) -> TargetHealth:
    return TargetHealth(
        target=target,
        routes=[],
        state=state,
        failures=failures,
        retry_at=retry_at,
        last_error=last_error,
        processes=Share(int(state == "open"), 1),
    )


def merged(*snapshots: Snapshot) -> Snapshot:
    return functools.reduce(merge, snapshots)


def history(clock: StoppedClock) -> History:
    return History({"fast", "openai"}, {"openai/m"}, wall=clock)


def refused(code: str = "rate_limited", *, model: str | None = "m", message: str = "no") -> Refused:
    return Refused(
        owner="owner", request_id="req_1", model=model, error=RequestError(code, message)
    )


def test_board_of_hostile_names_fits_into_a_post():
    worst = "\U0001f9ec" * MAX_TEXT  # four bytes each
    whole = board(live=[live(n, text=worst) for n in range(MAX_STREAMS)], readers={worst: 1})
    packed = pack_snapshot(whole, most=MAX_MESSAGE_BYTES)

    assert len(packed) <= MAX_MESSAGE_BYTES
    assert whole.live[:10] == unpack_snapshot(packed).live[:10]
    usual = board(live=[live(n, text="acme") for n in range(MAX_STREAMS)])
    assert usual == unpack_snapshot(pack_snapshot(usual, most=MAX_MESSAGE_BYTES))


def test_oldest_streams_of_all_snapshots_are_listed():
    numbers = list(range(3 * MAX_STREAMS))
    random.Random(1).shuffle(numbers)
    shares = [sorted(numbers[start::3]) for start in range(3)]
    found = merged(
        *(board(f"{n}", live=[live(one) for one in share]) for n, share in enumerate(shares))
    )

    expected = [live(number).id for number in range(MAX_STREAMS)]
    assert expected == [stream.id for stream in found.live]


def test_readers_of_a_stream_are_those_of_all_processes():
    there = board("b", readers={live(1).id: 2, "st_of_nobody": 9})
    found = merged(board("a", live=[live(1)], readers={live(1).id: 1}), there)

    assert 3 == found.readers[live(1).id]


def test_minutes_of_all_processes_are_added():
    minute = int(NOW // 60)
    found = merged(
        board("a", counts={"refused": {"x": {minute: 2, minute - 1: 3}}, "failed": {}}),
        board("b", counts={"refused": {"x": {minute: 5}, "y": {minute: 1}}}),
        board("c", counts={}),
    )

    assert {"x": {minute: 7, minute - 1: 3}, "y": {minute: 1}} == found.counts["refused"]


def test_target_is_as_the_worst_process_sees_it_and_others_are_not_shown():
    error = LastError(code="upstream_auth", at=NOW)
    states = [
        health("u/m", "closed", failures=1, last_error=error),
        health("u/m", "half-open"),
        health("u/m", "open", failures=4, retry_at=NOW + 5),
        health("made/up", "open"),
    ]
    found = merged(*(board(f"{n}", targets=[s]) for n, s in enumerate(states)))

    (target,) = found.targets
    assert ("u/m", "open", 5, NOW + 5) == (
        *(target.target, target.state, target.failures, target.retry_at),
    )
    assert (1, 3, error) == (target.processes.open, target.processes.of, target.last_error)


def test_newest_of_all_processes_are_told_of_one_by_one():
    def troubles(first: int) -> list[LastTrouble]:
        rest: Any = {"kind": "refused", "code": "x", "model": None, "request_id": ""}
        return [
            LastTrouble(at=NOW + n, message=f"{n}", stream=None, owner="", **rest)
            for n in range(first + 2 * MAX_LAST, first, -2)
        ]

    found = merged(board("a", last=troubles(0)), board("b", last=troubles(1)))

    times = [row.at for row in found.last]
    assert MAX_LAST == len(times)
    assert times == sorted(times, reverse=True)
    assert {"0", "1"} == {f"{int(row.message) % 2}" for row in found.last}
    assert b'"refused"' in msgspec.json.encode(found)


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xc1", b"{}", b"\x81\xa4live\x01"])
def test_what_is_no_board_is_refused(data: bytes):
    with pytest.raises(msgspec.MsgspecError):
        unpack_snapshot(data)


def test_board_of_a_newer_version_is_read():
    newer = msgspec.msgpack.encode({**msgspec.to_builtins(board("a")), "later": [1]})

    assert board("a") == unpack_snapshot(newer)


def test_hour_has_a_bound_whatever_is_refused():
    clock = StoppedClock(NOW)
    kept = history(clock)
    codes = [*CODES]
    for minute in range(3 * MINUTES):
        clock.now = NOW + 60 * minute
        for code in codes:
            kept.refused(refused(code, model=f"made up {minute}" * 99, message="m" * 2000))

    counts = kept.counts()["refused"]
    assert set(codes) == set(counts)
    assert {MINUTES} == {len(minutes) for minutes in counts.values()}
    assert MAX_LAST == len(kept.last)
    assert {None} == {row.model for row in kept.last}
    size = len(
        pack_snapshot(board(counts=kept.counts(), last=[*kept.last]), most=MAX_MESSAGE_BYTES)
    )
    assert size < 100_000
    clock.now += 3600
    assert {"refused": {}, "failed": {}} == kept.counts()


def test_names_of_models_are_those_of_the_settings():
    kept = history(StoppedClock(NOW))
    for model in ("fast", "openai/secret-name", "sk-typed-by-a-client", None):
        kept.refused(refused(model=model))

    assert ["fast", "openai", None, None] == [row.model for row in kept.last]


def test_only_what_failed_counts_as_failed():
    kept = history(StoppedClock(NOW))
    error = ErrorInfo("upstream_auth", "x" * 2000, retryable=False)
    ends: list[tuple[Status, ErrorInfo | None]] = [
        *(("completed", None), ("cancelled", None)),
        *(("failed", error), ("interrupted", error)),
    ]
    for status, told in ends:
        record = StreamInfo("st_1", route="fast", owner="o")
        end = StreamEnd(status, "error", None, told)
        times: Any = {"started_at": NOW - 1, "ended_at": NOW, "duration_s": 1.0}
        kept.ended(StreamEnded(info=record, end=end, target="openai/m", events=1, **times))

    (minutes,) = kept.counts()["failed"].values()
    assert (2, 4, 2) == (sum(minutes.values()), len(kept.list_recent()), len(kept.last))
    assert {"upstream_auth"} == {row.code for row in kept.last}
    blamed, unknown = kept.last_error("openai/m"), kept.last_error("made/up")
    assert (LastError(code="upstream_auth", at=NOW), None) == (blamed, unknown)


def test_accounts_with_limits_of_their_own_come_first():
    limited = UsageLimits(usd_per_day=1)
    keys = tuple(
        Principal(f"t{n % 300}", key=f"k{n}", key_limits=limited if n > 990 else UsageLimits())
        for n in range(1000)
    )
    accounts = Reservations(LimitsConfig(tenants={"big": limited}), PriceBook(()))
    listed, more = list_named(accounts, keys)

    names = [account.name for account in listed]
    assert ["relay", "tenant:big", *(f"key:k{n}" for n in range(991, 1000)), "tenant:t0"] == (
        names[:12]
    )
    assert (MAX_ACCOUNTS, 1 + 301 + 1000 - MAX_ACCOUNTS) == (len(names), more)
    assert ["relay", "tenant:big"] == [one.name for one in list_named(accounts, ())[0]]


def test_blame_falls_on_targets_of_the_settings_alone():
    kept = history(StoppedClock(NOW))
    error = UpstreamError("upstream_timeout", "late")
    made_up = [f"made/up-{number}" for number in range(1000)]
    for target in (*made_up, "openai/m"):
        record = StreamInfo("st_1")
        kept.attempt_failed(
            AttemptFailed(
                info=record,
                attempt=1,
                upstream="u",
                target=target,
                error=error,
                next_target="b/m",
                wait_s=0.0,
                then="b is next",
            )
        )

    blamed = [target for target in (*made_up, "openai/m") if kept.last_error(target) is not None]
    assert ["openai/m"] == blamed
