"""The clocks over one generation, without a clock."""

import pytest

from app.policies.deadlines import FINISHED_WAIT_S, Deadlines, Timeouts

pytestmark = pytest.mark.pure

LIMITS = Timeouts(
    first_event_timeout_s=100, event_gap_timeout_s=70, idle_timeout_s=20, total_timeout_s=1000
)


def told(deadlines: Deadlines) -> tuple[float, str]:
    """When to give up, and why."""
    return deadlines.next(), deadlines.reason()


def test_first_event_has_its_own_time_whatever_bytes_come():
    deadlines = Deadlines(LIMITS, now=0)
    deadlines.on_bytes(90, events=False, finished=False)

    assert (100, "sent no event for 100 s") == told(deadlines)


def test_silence_after_an_event_is_idle():
    deadlines = Deadlines(LIMITS, now=0)
    deadlines.on_bytes(50, events=True, finished=False)

    assert (70, "sent nothing for 20 s") == told(deadlines)


def test_bytes_without_events_end_too():
    deadlines = Deadlines(LIMITS, now=0)
    deadlines.on_bytes(50, events=True, finished=False)
    deadlines.on_bytes(110, events=False, finished=False)

    assert (120, "sent no further event for 70 s") == told(deadlines)


def test_finished_answer_waits_shortly_for_its_end_marker():
    deadlines = Deadlines(LIMITS, now=0)
    deadlines.on_bytes(50, events=True, finished=True)

    assert 50 + FINISHED_WAIT_S == deadlines.next()


def test_pauses_are_quiet_but_not_the_pace_of_tokens_nor_the_wait_for_the_end():
    deadlines = Deadlines(LIMITS, now=0)
    assert (0, 0.9) == deadlines.silence(0.9)
    assert (6, 6) == deadlines.silence(6)
    for now in (7, 7.5, 8.4, 11, 11.9):
        deadlines.on_bytes(now, events=True, finished=False)
    assert (7 + 2.6, 12) == deadlines.silence(12)
    assert (7 + 2.6 + 3.1, 15) == deadlines.silence(15)
    deadlines.on_bytes(12, events=True, finished=True)
    assert (7 + 2.6, 15) == deadlines.silence(15)


def test_silence_counts_from_the_request():
    deadlines = Deadlines(LIMITS, now=0)
    deadlines.sent_at = 4

    assert (0, 0.5) == deadlines.silence(4.5)
    deadlines.on_bytes(6, events=True, finished=False)
    assert (2, 2.5) == deadlines.silence(6.5)


def test_a_time_without_reading_is_no_silence():
    deadlines = Deadlines(LIMITS, now=0)
    deadlines.on_bytes(0.1, events=True, finished=False)
    deadlines.leave_out(5)
    deadlines.on_bytes(5.2, events=True, finished=False)
    deadlines.leave_out(3)

    assert (0, 8.3) == deadlines.silence(8.3)
    assert 0.1 == pytest.approx(deadlines.longest_gap_s)


def test_total_time_is_the_last_word():
    deadlines = Deadlines(LIMITS, now=0)
    deadlines.on_bytes(995, events=True, finished=False)

    assert (1000, "did not finish within 1000 s") == told(deadlines)


def test_it_is_told_when_the_wait_becomes_shorter():
    deadlines = Deadlines(LIMITS, now=0)

    assert not deadlines.on_bytes(1, events=False, finished=False)
    assert deadlines.on_bytes(2, events=True, finished=False)
    assert not deadlines.on_bytes(3, events=True, finished=False)
    assert deadlines.on_bytes(4, events=True, finished=True)
    assert not deadlines.on_bytes(5, events=False, finished=True)
