"""Writes that come fast wait for company, others for nobody."""

import pytest

from app.eventlog.pace import BURST_S, EACH_S, GATHER_S, Pace

pytestmark = pytest.mark.pure


def wait_of_each(times, counts):
    """Return how long each write has waited, from when its first events came."""
    pace, waits = Pace(), []
    for came_at, count in zip(times, counts, strict=True):
        begins = max(came_at, pace.due)
        pace.note(begins, count)
        waits.append(begins - came_at)
    return waits


def test_streams_in_step_wait_for_nobody():
    bursts = [round_s + event * 0.0001 for round_s in (1, 2, 3) for event in range(40)]

    assert {0} == set(wait_of_each(bursts, [1] * len(bursts)))


def test_a_quiet_stream_waits_for_nobody_after_a_burst():
    assert 0 == wait_of_each([1, 1 + BURST_S + EACH_S], [60, 1])[-1]


def test_events_that_come_faster_than_they_may_are_written_together():
    every_s = EACH_S / 5
    waits = wait_of_each([1 + number * every_s for number in range(500)], [1] * 500)

    assert 0 == waits[0]
    assert GATHER_S / 2 < waits[-1]


def test_no_event_waits_longer_than_the_limit():
    assert [0, pytest.approx(GATHER_S)] == wait_of_each([1, 1], [10_000, 1])
