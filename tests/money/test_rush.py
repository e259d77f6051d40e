"""A budget is not passed, however many ask at once, and whoever is refused is told so at once."""

import pytest

from tests.money.rush import TOKENS, Rush

pytestmark = pytest.mark.proving

LOGS = ("workers", "redis")


@pytest.mark.parametrize("log", LOGS)
async def test_budget_with_room_for_some_is_not_passed_by_many_at_once(log, tmp_path):
    rush = Rush(log, tmp_path, requests=120, room=12)
    await rush.run()

    assert [] == rush.verdict.faults
    assert {200: 12, 429: 108} == rush.by_status
    assert rush.worth == rush.billed == rush.verdict.booked
    assert rush.most_running <= 12
    assert {TOKENS} == rush.asked_for


async def test_budget_of_a_user_is_not_passed_by_what_is_left_of_the_relays(tmp_path):
    rush = Rush("memory", tmp_path, requests=60, room=10, over="user")
    await rush.run()

    assert [] == rush.verdict.faults
    assert {200: 10, 429: 50} == rush.by_status
    assert rush.worth == rush.billed == rush.verdict.booked
