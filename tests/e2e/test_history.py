"""Conversations of the page: kept in the browser, reopened, edited, answered again, deleted."""

import json

import pytest

from app.testing.upstream import DONE, FINISH, Until, head, send, serve_upstream, text
from tests.e2e.asking import Asking
from tests.e2e.axe import check_accessible
from tests.e2e.test_keys import give_key
from tests.e2e.test_page import answer, ask, status
from tests.serving import serve_relay

pytestmark = [pytest.mark.proving, pytest.mark.browser]

TITLES = "[...document.querySelectorAll('#history .title')].map((it) => it.textContent)"
LISTS = f"(expected) => JSON.stringify({TITLES}) === JSON.stringify(expected)"
FOCUSED = "document.activeElement.id || document.activeElement.className"


def says(words: str) -> list:
    return [head(), send(text(words) + FINISH + DONE)]


async def titles(page) -> list[str]:
    """Open the list, and read it."""
    await page.click("#open-history")
    return await page.evaluate(TITLES)


async def shown(page) -> list[str]:
    return await page.locator(".message.user > p, .message.assistant .text").all_text_contents()


async def test_conversations_are_kept_reopened_and_deleted(page):
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.script = says("first answer")
        await page.goto(relay.url)
        await page.wait_for_selector("#open-history:not([hidden])")
        assert [] == await titles(page)
        await check_accessible(page, least=8)
        await page.keyboard.press("Escape")
        await ask(page, "first question\nwith a second line")
        await answer(page)
        await page.click("#new-chat")
        assert await page.is_visible("#welcome")
        upstream.script = says("second answer")
        await ask(page, "second question")
        await answer(page)

        # Another tab has another conversation; each tab lists all of them.
        other = await page.context.new_page()
        await other.goto(relay.url)
        assert not await other.locator(".message").count()
        upstream.script = says("third answer")
        await ask(other, "third question")
        await answer(other)
        expected = ["third question", "second question", "first question with a second line"]
        for tab in (page, other):  # what one keeps, the browser tells the other of
            await tab.click("#open-history")
            await tab.wait_for_function(LISTS, arg=expected)
        await check_accessible(page, least=8)

        # One is reopened by keyboard, and is what a reload comes back to.
        await page.bring_to_front()
        for _ in range(8):  # each has a name, and three buttons
            await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        assert ["first question\nwith a second line", "first answer"] == await shown(page)
        await page.reload()
        assert ["first question\nwith a second line", "first answer"] == await shown(page)
        upstream.script = says("more")
        await ask(page, "and on")
        assert "more" == await answer(page)
        assert [
            "first question\nwith a second line",
            "first answer",
            "and on",
        ] == [message["content"] for message in upstream.calls[-1].json["messages"]]

        # One is deleted, also in the list of the other tab; then all.
        assert "first question with a second line" == (await titles(page))[0]
        await page.click("button[aria-label='Delete third question']")
        await other.wait_for_function(
            "() => document.querySelectorAll('#history .title').length === 2"
        )
        assert "quiet delete" == await page.evaluate(FOCUSED)
        await page.click("#delete-all")
        assert 2 == len(await page.evaluate(TITLES))
        await check_accessible(page, least=8)
        await page.click("#delete-all")
        assert [] == await page.evaluate(TITLES)
        assert "undo-delete" == await page.evaluate(FOCUSED)
        await page.keyboard.press("Escape")
        assert await page.is_visible("#welcome")
        assert {} == await page.evaluate("({...localStorage})")
        await page.reload()
        assert not await page.locator(".message").count()


async def test_an_answer_that_was_left_goes_on_and_is_come_back_to(page):
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        go_on = Until()
        upstream.script = [head(), send(text("half ")), go_on, send(text("whole") + FINISH + DONE)]
        await page.goto(relay.url)
        await ask(page, "hello")
        await page.wait_for_selector(".message.assistant .text")
        await page.click("#new-chat")
        assert "idle" == await page.get_attribute("body", "data-state")
        await titles(page)
        await page.click(".reopen")
        await page.wait_for_selector("body[data-state=busy] .text")
        go_on.told.set()

        assert "half whole" == await answer(page)
        assert "completed" == await status(page)
        assert 1 == len(upstream.calls)


async def test_what_was_kept_under_one_key_is_not_shown_under_another(page):
    asking = Asking(keys={"ssk_one", "ssk_other"})
    async with serve_upstream() as upstream, serve_relay(upstream, watch=asking) as relay:
        upstream.script = says("for one only")
        await page.goto(f"{relay.url}/#key=ssk_one")
        await ask(page, "a secret question")
        await answer(page)
        await page.click("#forget-key")
        await page.wait_for_selector("#key-form")
        assert not await page.locator(".message").count()
        assert not await page.is_visible("#open-history")
        assert {} == await page.evaluate("({...sessionStorage})")
        await page.reload()
        await page.wait_for_selector("#key-form")
        assert not await page.locator(".message").count()

        await give_key(page, "ssk_other")
        await page.wait_for_selector("#open-history:not([hidden])")
        assert [] == await titles(page)
        assert "secret" not in await page.inner_text("body")
        assert "ssk_" not in json.dumps(await page.evaluate("({...localStorage})"))

        # A link with a key begins anew; the first key has its own again.
        await page.goto("about:blank")
        await page.goto(f"{relay.url}/#key=ssk_one")
        await page.wait_for_selector("#open-history:not([hidden])")
        assert not await page.locator(".message").count()
        assert ["a secret question"] == await titles(page)
        await page.click(".reopen")
        assert ["a secret question", "for one only"] == await shown(page)


async def test_a_question_is_edited_and_answered_again_by_keyboard(page):
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        await page.goto(relay.url)
        for question in ("first", "second"):
            upstream.script = says(f"to {question}")
            await ask(page, question)
            await answer(page)
        await page.wait_for_selector("#prompt:focus")

        # Up in the empty field edits the last question; Escape leaves it as it was.
        await page.keyboard.press("ArrowUp")
        await page.keyboard.type(" never sent")
        await check_accessible(page)
        await page.keyboard.press("Escape")
        assert ["first", "to first", "second", "to second"] == await shown(page)
        assert "quiet edit" == await page.evaluate(FOCUSED)

        # The first is edited: what followed it belongs to what it was.
        upstream.script = says("to edited")
        await page.locator(".edit").first.focus()
        await page.keyboard.press("Enter")
        await page.keyboard.press("ControlOrMeta+A")
        await page.keyboard.type("edited")
        await page.keyboard.press("Enter")
        assert "to edited" == await answer(page)
        assert ["edited", "to edited"] == await shown(page)
        assert ["edited"] == [it["content"] for it in upstream.calls[-1].json["messages"]]
        assert ["2/2"] == await page.locator(".versions:visible .count").all_text_contents()

        # Another answer to it.
        upstream.script = says("once more")
        await page.locator(".regenerate").focus()
        await page.keyboard.press("Enter")
        assert "once more" == await answer(page)
        assert "edited" == upstream.calls[-1].json["messages"][-1]["content"]
        await check_accessible(page)

        # Back to the first version, with all that followed; a reload stays there.
        await page.locator(".step").first.focus()
        await page.keyboard.press("Enter")
        assert ["edited", "to edited"] == await shown(page)
        await page.keyboard.press("Enter")
        assert ["first", "to first", "second", "to second"] == await shown(page)
        assert "quiet step" == await page.evaluate(FOCUSED)
        await page.reload()
        assert ["first", "to first", "second", "to second"] == await shown(page)
        assert ["1/3"] == await page.locator(".versions:visible .count").all_text_contents()
        upstream.script = says("to third")
        await ask(page, "third")
        await answer(page)
        assert ["first", "to first", "second", "to second", "third"] == [
            it["content"] for it in upstream.calls[-1].json["messages"]
        ]
        assert 5 == len(upstream.calls)


async def test_the_history_stays_beside_the_talk_where_there_is_room(page):
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        await page.set_viewport_size({"width": 1440, "height": 600})
        await page.goto(relay.url)
        await page.wait_for_selector("#prompts li")
        top = "document.querySelector('#scroller').scrollTop"
        await page.click("#open-history")
        await page.wait_for_selector("#dock #history")
        assert 0 == await page.evaluate(top)  # the welcome is read from its beginning
        for number in range(6):
            upstream.script = says(f"answer {number}")
            await ask(page, f"question {number}")
            await answer(page)
            await page.click("#new-chat")
        assert 0 == await page.evaluate(top)
        await check_accessible(page)

        # A name, by keyboard: Escape leaves it, Enter takes it.
        rows = page.locator("#dock .kept li")
        await rows.first.locator(".rename").focus()
        await page.keyboard.press("Enter")
        await page.keyboard.type("never kept")
        await page.keyboard.press("Escape")
        assert "question 5" == await rows.first.locator(".title").inner_text()
        assert "quiet rename" == await page.evaluate(FOCUSED)
        await page.keyboard.press("Enter")
        await check_accessible(page)
        await page.keyboard.type("A name of its own")
        await page.keyboard.press("Enter")
        assert "A name of its own" == await rows.first.locator(".title").inner_text()

        # It stays where it is when one is opened; the field is gone to, and the tab is named.
        await rows.first.locator(".reopen").click()
        assert ["question 5", "answer 5"] == await shown(page)
        assert "prompt" == await page.evaluate(FOCUSED)
        assert "A name of its own · Seseragi" == await page.title()
        await page.reload()
        assert "A name of its own · Seseragi" == await page.title()
        assert 6 == await rows.count()

        # What is deleted by mistake is there again, and on the page.
        await rows.first.locator(".delete").click()
        await page.wait_for_selector("#welcome:not([hidden])")
        assert "Deleted “A name of its own”." == await page.inner_text(".deleted [role=status]")
        await page.click("#undo-delete")
        assert ["question 5", "answer 5"] == await shown(page)
        assert "A name of its own" == await rows.first.locator(".title").inner_text()
        assert not await page.is_visible("#undo-delete")

        # Searched by what was answered; where there is no room it stands over the talk.
        await page.fill("#find-conversation", "ANSWER 3")
        assert ["question 3"] == await page.evaluate(TITLES)
        await page.set_viewport_size({"width": 1000, "height": 600})
        await page.wait_for_selector("#dock", state="hidden")
        assert 6 == len(await titles(page))
        await page.keyboard.press("Escape")
        await page.set_viewport_size({"width": 1440, "height": 600})
        await page.wait_for_selector("#dock #history")
        await page.click("#open-history")
        await page.reload()
        await page.wait_for_selector("#open-history:not([hidden])")
        assert not await page.is_visible("#history")
