"""Refusals on the page: the reason, and what to do next."""

import re

import msgspec
import pytest

from app.ledger.config import UsageLimits
from tests.api.test_usage_limits import serve
from tests.e2e.axe import check_accessible
from tests.e2e.talk import IDLE, READY, answer, answer_dialogs, ask
from tests.serving import serve_relay

pytestmark = [pytest.mark.proving, pytest.mark.browser]

EXPECTED_ERRORS = ("net::ERR_",)


async def test_a_budget_and_a_limit_say_when_there_is_room_again(page, tmp_path):
    async with serve(tmp_path) as world:
        for name, limit in (("ann", {"usd_per_day": 1e-6}), ("bob", {"requests_per_minute": 1})):
            limits = UsageLimits(**limit)
            world.keys[name] = msgspec.structs.replace(world.keys[name], user_limits=limits)
        await page.goto(f"{world.relay.url}/#key=ann")
        await page.wait_for_selector(READY, state="attached")
        await ask(page, "hello")
        await page.wait_for_selector(f"{IDLE} .error")
        assert "budget_exceeded" == await page.inner_text(".error-code")
        assert "Try again " in await page.inner_text(".error .hint")
        assert "will fail again" not in await page.inner_text(".error .hint")
        await check_accessible(page)
        await page.reload()
        await page.wait_for_selector(f"{IDLE} .error")

        await page.goto("about:blank")
        answer_dialogs(page, agrees=True)
        await page.goto(f"{world.relay.url}/#key=bob")
        await page.wait_for_selector(READY, state="attached")
        await ask(page, "hello")
        assert "a" == await answer(page)
        await ask(page, "more")
        await page.wait_for_selector(f"{IDLE} .error .retry")
        assert "rate_limited" == await page.inner_text(".error-code")
        assert re.match(r"Try again in \d+ s\.", await page.inner_text(".error .hint"))


async def test_a_page_that_finds_no_relay_goes_on_by_itself(page):
    async with serve_relay() as relay:
        broken = True

        async def serve_models(route):
            await (route.abort() if broken else route.continue_())

        await page.route("**/v1/models", serve_models)
        await page.goto(relay.url)
        await page.wait_for_selector("#status:has-text('Could not load the models')")
        await check_accessible(page)
        broken = False
        await page.wait_for_selector(READY, state="attached")  # by itself
