"""What the page says where nothing can be had: why, and what to do next."""

import re

import msgspec
import pytest
from playwright.async_api import expect

from app.ledger.limits import UsageLimits
from tests.api.test_usage_limits import serve
from tests.e2e.axe import check_accessible
from tests.e2e.talk import IDLE, READY, answer, ask
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
        assert "room again" in await page.inner_text(".error .hint")
        assert "will fail again" not in await page.inner_text(".error .hint")
        await check_accessible(page)
        hint = await page.inner_text(".next-step")
        await page.reload()  # the time stays the same
        again = await page.inner_text(".next-step")
        if " from " in again:  # else the day is nearly over
            assert hint == again

        await page.goto("about:blank")
        await page.goto(f"{world.relay.url}/#key=bob")
        await page.wait_for_selector(READY, state="attached")
        await ask(page, "hello")
        assert "a" == await answer(page)
        await ask(page, "more")
        await page.wait_for_selector(f"{IDLE} .error .retry")
        assert "rate_limited" == await page.inner_text(".error-code")
        told = await page.inner_text(".next-step")
        assert re.fullmatch(r"It may work again in \d+ s\.", told)
        await expect(page.locator(".next-step")).not_to_have_text(told, timeout=20_000)


async def test_a_page_that_finds_no_relay_goes_on_by_itself(page):
    async with serve_relay() as relay:
        broken = True

        async def serve_models(route):
            await (route.abort() if broken else route.continue_())

        await page.route("**/v1/models", serve_models)
        await page.goto(relay.url)
        expected = expect(page.locator("#connection"))
        await expected.to_contain_text(
            re.compile("The relay cannot be reached. Next attempt in"), timeout=30_000
        )
        await check_accessible(page)
        await page.context.set_offline(True)
        await expected.to_contain_text("You are offline.", timeout=30_000)
        await page.click("#retry-now")
        await expected.to_contain_text("by itself when the network is back", timeout=60_000)
        broken = False
        await page.context.set_offline(False)
        await page.wait_for_selector(READY, state="attached")
        await page.wait_for_selector("#connection", state="hidden")

        broken = True
        await page.reload()
        await page.wait_for_selector("#retry-now")
        broken = False
        await page.wait_for_selector(READY, state="attached")  # without a press
