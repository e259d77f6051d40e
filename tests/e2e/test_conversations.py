"""Conversations of the page: stored in the browser, reopened, edited, continued, saved, deleted."""

import json
from pathlib import Path

import pytest

from app.testing.upstream import DONE, Hold, Until, event, head, send, text
from tests.e2e.asking import Asking
from tests.e2e.axe import check_accessible
from tests.e2e.talk import (
    FOCUSED,
    IDLE,
    answer,
    ask,
    check_in_view,
    give_key,
    open_page,
    rest,
    says,
    shown,
    status,
    watch_policy,
)
from tests.serving import serve_relay

pytestmark = [pytest.mark.proving, pytest.mark.browser]

TITLES = "[...document.querySelectorAll('#history .title')].map((it) => it.textContent)"
LISTS = f"(expected) => JSON.stringify({TITLES}) === JSON.stringify(expected)"
LENGTH = event(finish_reason="length") + DONE
MARKUP = "It *is* **so**: <img src=x onerror=alert(1)>"


async def titles(page) -> list[str]:
    """Open the list, and read it."""
    await page.click("#open-history")
    return await page.evaluate(TITLES)


def messages(call) -> list[str]:
    return [message["content"] for message in call.json["messages"]]


async def test_conversations_are_kept_reopened_and_deleted(page, upstream, relay):
    first = ["first question\nwith a second line", "first answer"]
    await page.goto(relay.url)
    await page.wait_for_selector("#open-history:not([hidden])")
    assert [] == await titles(page)
    await page.keyboard.press("Escape")
    upstream.script = says(first[1])
    await ask(page, first[0])
    await answer(page)
    await page.click("#new-chat")
    assert await page.is_visible("#welcome")

    # Another tab has another conversation; each tab lists all of them.
    other = await page.context.new_page()
    await other.goto(relay.url)
    assert not await other.locator(".message").count()
    await ask(other, "second question")
    await answer(other)
    for tab in (page, other):  # what one keeps, the browser tells the other of
        await tab.click("#open-history")
        expected = ["second question", "first question with a second line"]
        await tab.wait_for_function(LISTS, arg=expected)
    await check_accessible(page, least=8)

    # One is reopened, and is what a reload comes back to.
    await page.bring_to_front()
    await page.click(".reopen >> nth=1")
    assert first == await shown(page)
    await page.reload()
    assert first == await shown(page)
    upstream.script = says("more")
    await ask(page, "and on")
    assert "more" == await answer(page)
    assert [*first, "and on"] == messages(upstream.calls[-1])

    # One is deleted, also in the list of the other tab, and put back; then all.
    assert "first question with a second line" == (await titles(page))[0]
    await page.click("button[aria-label='Delete second question']")
    await other.wait_for_function(LISTS, arg=["first question with a second line"])
    await page.click("#undo-delete")
    await other.wait_for_function(
        LISTS, arg=["first question with a second line", "second question"]
    )
    await page.click("#delete-all")
    assert 2 == len(await page.evaluate(TITLES))
    await page.click("#delete-all")
    assert [] == await page.evaluate(TITLES)
    await page.keyboard.press("Escape")
    assert await page.is_visible("#welcome")
    assert {} == await page.evaluate("({...localStorage})")
    await page.reload()
    assert not await page.locator(".message").count()


async def test_an_answer_that_was_left_goes_on_and_is_come_back_to(page, upstream, relay):
    go_on = Until()
    upstream.script = [head(), send(text("half ")), go_on, *rest("whole")]
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


async def test_what_was_kept_under_one_key_is_not_shown_under_another(page, upstream):
    async with serve_relay(upstream, watch=Asking(keys={"ssk_one", "ssk_other"})) as relay:
        upstream.script = says("for one only")
        await page.goto(f"{relay.url}/#key=ssk_one")
        await ask(page, "a secret question")
        await answer(page)
        await page.click("#forget-key")
        for _ in range(2):
            await page.wait_for_selector("#key-form")
            assert not await page.locator(".message").count()
            assert not await page.is_visible("#open-history")
            assert {} == await page.evaluate("({...sessionStorage})")
            await page.reload()

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


async def test_a_question_is_edited_and_answered_again_by_keyboard(page, upstream, relay):
    both = ["first", "to first", "second", "to second"]
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
    assert both == await shown(page)
    assert "quiet edit" == await page.evaluate(FOCUSED)

    # The first is edited: what followed it belongs to what it was. Then it is answered again.
    upstream.script = says("to edited")
    await page.locator(".edit").first.focus()
    await page.keyboard.press("Enter")
    await page.keyboard.press("ControlOrMeta+A")
    await page.keyboard.type("edited")
    await page.keyboard.press("Enter")
    assert "to edited" == await answer(page)
    assert ["edited", "to edited"] == await shown(page)
    assert ["edited"] == messages(upstream.calls[-1])
    upstream.script = says("once more")
    await page.locator(".regenerate").focus()
    await page.keyboard.press("Enter")
    assert "once more" == await answer(page)
    assert ["edited"] == messages(upstream.calls[-1])

    # Back to the first version, with all that followed; a reload stays there.
    await page.locator(".step").first.focus()
    await page.keyboard.press("Enter")
    await page.keyboard.press("Enter")
    assert both == await shown(page)
    await page.reload()
    assert both == await shown(page)
    assert ["1/3"] == await page.locator(".versions:visible .count").all_text_contents()
    await ask(page, "third")
    await answer(page)
    assert [*both, "third"] == messages(upstream.calls[-1])
    assert 5 == len(upstream.calls)


async def test_an_answer_that_came_to_the_limit_goes_on_to_the_same_words(page):
    async with serve_relay() as relay:
        body = {"model": "demo", "messages": [{"role": "user", "content": "Hi"}], "stream": False}
        whole = (await relay.client.post("/v1/chat", json=body)).json()["message"]["content"]
        await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        await open_page(page, relay.url)
        for limit in ("12", ""):
            await page.click("#open-settings")
            await page.fill("#max-tokens", limit)
            await page.keyboard.press("Enter")
            if limit:
                await ask(page, "Hi", model="demo")
                begun = await answer(page)
                await check_accessible(page)
            await page.click(".go-on")
            if limit:
                await page.locator(".usage:has-text('24 out')").wait_for()
                further = await answer(page)
                assert begun != further
                assert further.startswith(begun)
        await page.wait_for_selector(f"{IDLE}[data-finish=stop]")

        # As one text, to the letter.
        assert 1 == await page.locator(".text").count() == await page.locator(".assistant").count()
        assert not await page.locator(".go-on").count()
        await page.click(".copy-answer")
        await page.wait_for_selector(".copy-answer:has-text('Copied')")
        assert whole == await page.evaluate("navigator.clipboard.readText()")


async def test_an_answer_that_was_stopped_goes_on_and_again_where_that_fails(page, upstream, relay):
    upstream.script = [head(), send(text("A long ans ")), Hold()]
    await page.goto(relay.url)
    await ask(page, "hello")
    await page.wait_for_selector(".message.assistant .text")
    await page.click("#stop")
    upstream.script = [head("400 Bad Request", "application/json"), send(b"{}")]
    await page.click(".go-on")
    await page.wait_for_selector(f"{IDLE} .error")
    assert "failed" == await status(page)
    assert "A long ans " == await answer(page)  # what there was stays
    await page.reload()
    upstream.script = [head(), send(text("wer, ")), Hold()]
    await page.click(".go-on")
    await page.wait_for_selector(".text:has-text('wer')")
    await page.reload()  # in the middle: it is read on, and asked for once
    await page.wait_for_selector("body[data-state=busy] .text:has-text('wer')")
    await page.click("#stop")
    upstream.script = [head(), send(text(" cut") + LENGTH)]
    await page.click(".go-on")
    await page.wait_for_selector(f"{IDLE}[data-finish=length]")

    assert "A long answer, cut" == await answer(page)
    assert 1 == await page.locator(".text").count() == await page.locator(".assistant").count()
    assert ["hello", "A long answer,"] == messages(upstream.calls[-1])
    assert 4 == len(upstream.calls)
    upstream.script = says("next")
    await ask(page, "and then?")
    assert "next" == await answer(page)
    assert "A long answer, cut" == messages(upstream.calls[-1])[1]


async def test_a_conversation_is_saved_and_opened_again_by_keyboard(page, upstream, relay):
    async def download(key: str) -> tuple[str, str]:
        async with page.expect_download() as saving:
            await page.keyboard.press(key)
        saved = await saving.value
        return saved.suggested_filename, Path(await saved.path()).read_text(encoding="utf-8")

    upstream.script = says(MARKUP)
    broken = await watch_policy(page)
    await open_page(page, relay.url)
    await ask(page, "Is it so?")
    await answer(page)
    await titles(page)
    await page.focus(".kept .save")
    await page.keyboard.press("Enter")
    await page.wait_for_selector(".formats button:focus")
    name, markdown = await download("Enter")
    assert "Is-it-so.md" == name.replace("?", "")
    assert markdown.endswith(f"\n\n{MARKUP}\n")
    await page.keyboard.press("Enter")
    await page.keyboard.press("Tab")
    name, saved = await download("Enter")
    assert MARKUP == json.loads(saved)["turns"][0]["answer"]
    await page.click(".kept .delete")

    # What is no conversation is told, and changes nothing.
    wrong = {"name": "a.json", "mimeType": "application/json", "buffer": b"{}"}
    for data, said in ((b"{}", "no conversation"), (b" " * 4_000_001, "too large")):
        await page.set_input_files("#load-file", wrong | {"buffer": data})
        await page.wait_for_selector(f".deleted:has-text('{said}')")
        assert [] == await page.evaluate(TITLES)
    right = wrong | {"buffer": saved.replace("Is it so?", "<b>Is it?").encode()}
    await page.set_input_files("#load-file", right)
    await page.wait_for_selector(".message.assistant .text")
    assert ["<b>Is it?", "It is so: <img src=x onerror=alert(1)>"] == await shown(page)
    assert 0 == await page.locator("#log img, #log b").count()
    assert 1 == len(upstream.calls)
    await ask(page, "and on")
    await answer(page)
    assert ["<b>Is it?", MARKUP, "and on"] == messages(upstream.calls[-1])
    assert [] == broken


def settings_of(call) -> dict:
    """What an upstream was told beside the words of the user."""
    names = ("temperature", "max_completion_tokens")  # as OpenAI has `max_tokens` now
    told = {name: call.json[name] for name in names if name in call.json}
    system = [one["content"] for one in call.json["messages"] if one["role"] == "system"]
    return told | ({"system": system} if system else {})


async def test_settings_are_sent_and_kept_with_their_conversation(page, upstream, relay):
    upstream.script = says("answered")
    broken = await watch_policy(page)
    await open_page(page, relay.url)
    await ask(page, "without")
    await answer(page)
    assert {} == settings_of(upstream.calls[-1])

    # By keyboard: what is wrong is said in place, and nothing is taken until it is right.
    await page.focus("#open-settings")
    for key in ("Enter", "Answer in verse.", "Tab", "3", "Tab", "1.5", "Enter"):
        await (page.keyboard.press(key) if key in ("Enter", "Tab") else page.keyboard.type(key))
    assert "temperature" == await page.evaluate(FOCUSED)
    assert "from 0 to 2" in await page.inner_text("#temperature-error")
    assert "whole number" in await page.inner_text("#max-tokens-error")
    await check_accessible(page, least=8)
    await page.set_viewport_size({"width": 320, "height": 256})  # 400 %
    await check_in_view(page, "#system", "#temperature", "#max-tokens", "#settings .primary")
    await page.set_viewport_size({"width": 1280, "height": 800})
    await page.fill("#temperature", "0.5")
    await page.fill("#max-tokens", "100")
    await page.keyboard.press("Enter")
    assert not await page.is_visible("#settings")
    told = "Settings: a system prompt, temperature 0.5, at most 100 tokens"
    await ask(page, "with")
    await answer(page)
    expected = {"temperature": 0.5, "max_completion_tokens": 100, "system": ["Answer in verse."]}
    assert expected == settings_of(upstream.calls[-1])

    # With the conversation, and no other; after a reload, and when it is opened again.
    label = page.locator("#open-settings")
    await page.reload()
    assert told == await label.get_attribute("aria-label")
    await page.click("#new-chat")
    assert "Settings" == await label.get_attribute("aria-label")
    await titles(page)
    await page.click(".reopen")
    assert told == await label.get_attribute("aria-label")

    # One that is refused can be changed where that is told.
    refusal = b'{"error": {"message": "no temperature but 1", "param": "temperature"}}'
    upstream.script = [head("400 Bad Request", "application/json"), send(refusal)]
    await ask(page, "hello")
    await page.wait_for_selector(f"{IDLE} .error:has-text('no temperature but 1')")
    await page.click(".error .adjust")
    await page.fill("#temperature", "")
    await page.click("text=Use these settings")
    upstream.script = says("taken")
    await page.click(".regenerate")
    assert "taken" == await answer(page)
    assert "temperature" not in settings_of(upstream.calls[-1])
    assert [] == broken
