"""The list of events beside the chat: cuts are marked, and each answer has its own, also later."""

import re

import pytest

from app.testing.upstream import Until, head, send, text
from tests.e2e.axe import check_accessible
from tests.e2e.talk import BUSY, IDLE, answer, ask, paced, rest, says, status
from tests.e2e.test_page import at_the_end
from tests.e2e.test_surviving import WORDS, kept_away
from tests.serving import serve_relay
from tests.waiting import until

pytestmark = [pytest.mark.proving, pytest.mark.browser]

EXPECTED_ERRORS = ("net::ERR_",)
NUMBERS = """[...document.querySelectorAll('#events li')]
               .map((row) => row.querySelector('.n')?.textContent ?? row.textContent)"""


async def count(relay, page) -> int:
    """Return how many events the relay has of the stream that the page shows last."""
    link = await page.get_attribute("#tab", "href")
    told = (await relay.client.get(f"/v1/streams/{link.partition('=')[2]}")).json()
    return int(told["last_event_id"].rpartition(".")[2])


async def listed(page, count: int) -> None:
    """Wait until the list has so many events, from the first on."""
    whole = [str(number) for number in range(1, count + 1)]

    async def is_whole() -> bool:
        return whole == await page.locator("#events .n").all_text_contents()

    await until(is_whole)


@pytest.mark.parametrize("transport", ["fetch", "eventsource"])
async def test_a_connection_that_is_cut_comes_back_and_the_cut_is_marked_where_it_was(
    page, upstream, transport
):
    async with serve_relay(upstream, retry_ms=500) as relay:
        go_on = Until()
        upstream.script = paced(WORDS, go_on)
        await page.goto(relay.url)
        await ask(page, "count", transport=transport)
        await page.wait_for_selector(BUSY)
        async with kept_away(page):
            await page.click("#cut")
            await page.wait_for_selector("body[data-ready=reconnecting]")
            await page.wait_for_selector("#events .cut[data-state=away]")
            assert re.fullmatch(r"lost at \d+", await page.text_content("#events .cut"))
        go_on.told.set()
        assert "".join(WORDS).strip() == (await answer(page)).strip()
        assert "completed" == await status(page)
        assert 1 == len(upstream.calls)
        await page.wait_for_selector("#events li[data-type='stream.end']")
        assert len(WORDS) == await page.locator("#events li[data-type='text.delta']").count()

        rows = await page.evaluate(NUMBERS)
        at = next(n for n, row in enumerate(rows) if not row.isdigit())
        told = re.fullmatch(r"lost at (\d+), resumed at (\d+), away ([\d.]+) s", rows[at])
        assert told
        lost, resumed, away = told.groups()
        assert [lost, resumed] == [rows[at - 1], rows[at + 1]]
        assert list(range(1, len(rows))) == [int(row) for row in rows if row.isdigit()]
        assert float(away) >= 0.4
        assert rows[at] in await page.get_attribute("#cadence", "aria-label")
        assert "1" == await page.text_content("[data-stat=reconnects]")
        await check_accessible(page)


async def test_each_answer_has_its_events_also_after_a_reload(page, upstream, relay):
    go_on = Until()
    upstream.script = paced(WORDS, go_on)
    await page.goto(relay.url)
    await ask(page, "count")
    await page.wait_for_selector(BUSY)
    await page.reload()
    go_on.told.set()
    await answer(page)
    whole = await count(relay, page)
    first = (await page.get_attribute("#tab", "href")).partition("=")[2]
    await listed(page, whole)
    assert re.fullmatch(r"reloaded at \d+, away [\d.]+ s", await page.text_content("#events .cut"))
    upstream.script = says("sho", "rt")
    await ask(page, "again")
    await page.wait_for_selector(".message.assistant >> nth=1")
    await answer(page)
    second = await count(relay, page)
    await listed(page, second)
    await page.locator(".inspect").first.click()
    await listed(page, whole)
    await page.locator(".inspect").last.focus()
    await page.keyboard.press("Enter")
    await listed(page, second)
    await check_accessible(page)

    await page.reload()
    await listed(page, second)
    await page.wait_for_selector(".inspect >> nth=1")
    await page.locator(".inspect").first.click()
    await listed(page, whole)

    # What the relay does not store any more: the text is still here.
    await relay.client.delete(f"/v1/streams/{first}")
    await page.reload()
    await page.wait_for_selector(".message.assistant[data-status=completed] .notice")
    assert WORDS[3].strip() in await page.locator(".message.assistant").first.inner_text()
    await page.locator(".inspect").first.click()
    await page.wait_for_selector("#events li", state="detached")


async def test_events_are_listed_in_each_format(page, upstream, relay):
    upstream.script = says("sho", "rt")
    ends = {
        "openai_chat": "[DONE]",
        "openai_responses": "response.completed",
        "anthropic": "message_stop",
        "ui": "[DONE]",
        "ag_ui": "RUN_FINISHED",
    }
    await page.goto(relay.url)
    await ask(page, "hello")
    await answer(page)
    for name, last in ends.items():
        await page.select_option("#format", name)
        await page.wait_for_selector(f"#events li[data-type='{last}']")
        await page.click("#show-code")
        assert f"format={name}" in await page.text_content("#code-panel")
        await page.keyboard.press("Escape")
    await check_accessible(page)
    await page.select_option("#format", "native")
    await listed(page, await count(relay, page))
    await page.fill("#filter", "stream.")
    assert {"stream.start", "stream.target", "stream.end"} == set(
        await page.locator("#events .type").all_text_contents()
    )


async def test_a_burst_is_listed_over_some_frames(page, upstream, relay):
    """However much comes at once, a frame makes few rows, and the list has few."""
    burst = "".join(text(f"{n} ") for n in range(2000))
    upstream.script = [head(), send(burst), *rest()]
    await page.goto(relay.url)
    await page.evaluate(
        """() => {
          const list = document.querySelector('#events');
          window.most_ = [0, 0];
          const { append } = list;
          list.append = (rows) => {
            most_[0] = Math.max(most_[0], rows.childElementCount);
            append.call(list, rows);
          };
          new MutationObserver(() => { most_[1] = Math.max(most_[1], list.childElementCount); })
            .observe(list, { childList: true });
        }"""
    )
    await ask(page, "count")
    await page.wait_for_selector(IDLE, timeout=60_000)
    whole = await answer(page)
    await page.wait_for_selector("#events li[data-type='stream.end']", timeout=60_000)
    a_frame, at_all = await page.evaluate("most_")

    assert [str(n) for n in range(2000)] == whole.split()
    assert 0 < a_frame <= 64
    assert 500 == at_all
    await at_the_end(page, "#rows")
