"""Tabs and devices of one user share what the relay tells of their streams, over one connection."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import BrowserContext, Page, Request, Route

from app.testing.upstream import DONE, FINISH, Until, event, head, send, text, wait
from tests.api.asking import Asked, serve_asked
from tests.waiting import until

pytestmark = [pytest.mark.proving, pytest.mark.browser]

EXPECTED_ERRORS = ("net::ERR_",)
TABS = 8
OPEN = """
  async ([name, credential, chat, owner]) => {
    const { ChatStore } = await import('/static/store.js');
    window.events = [];
    window.store = new ChatStore({
      id: name, owner: owner ?? undefined, url: '/v1/chat', credential, retryMs: 100, storage: () => localStorage,
      request: { model: 'openai/m', ...(chat && { chat }) }, onEvent: ({ id }) => events.push(id),
    });
    store.subscribe(() => {});
    window.last = () => {
      const { messages, status } = store.getSnapshot();
      const { role, parts, status: ended } = messages.at(-1) ?? {};
      return [status, role, parts?.map(({ text }) => text).join('') ?? '', ended];
    };
  }
"""
WHOLE = ["ready", "assistant", "half whole", "completed"]


@pytest_asyncio.fixture(loop_scope="session")
async def asked(upstream):
    async with serve_asked(upstream) as asked:
        yield asked


def standing(upstream) -> Until:
    """Script answers that stand still after their first word."""
    go_on = Until()
    upstream.script = [head(), send(text("half")), go_on, send(text(" whole") + FINISH + DONE)]
    return go_on


def requests_of(context: BrowserContext) -> list[Request]:
    """The requests to the API that run: a list that changes."""
    running: list[Request] = []

    def note(request: Request) -> None:
        if "/v1/" in request.url:
            running.append(request)

    def forget(request: Request) -> None:
        if request in running:
            running.remove(request)

    context.on("request", note)
    context.on("requestfinished", forget)
    context.on("requestfailed", forget)
    return running


async def secret_of(asked: Asked, user: str = "ann") -> str:
    """A client secret of a user."""
    reply = await asked.by("backend", "POST", "/v1/client_secrets", json={"user": user})
    return str(reply.json()["value"])


async def open_tab(
    context: BrowserContext, asked: Asked, name: str, *, user: str = "ann", chat: str | None = None
) -> Page:
    page = await context.new_page()
    page.set_default_timeout(20_000)
    await page.goto(f"{asked.relay.url}/docs")
    await page.evaluate(OPEN, [name, await secret_of(asked, user), chat, None])
    return page


async def shows(page: Page, part: Any, at: int) -> None:
    """Wait until the last message of a tab has this status, role, text or end."""

    async def found() -> bool:
        return bool(part == (await page.evaluate("last()"))[at])

    await until(found, limit_s=25)


async def ask(page: Page) -> None:
    assert await page.evaluate("store.send('hi')")


async def is_whole(page: Page) -> None:
    """Check that a tab has had its answer, each event once."""
    await shows(page, "ready", 0)
    assert WHOLE == await page.evaluate("last()")
    assert await page.evaluate("events.every((id, at) => id.endsWith(`.${at + 1}`))")


def watches(running: list[Request]) -> list[Request]:
    return [request for request in running if "/streams/watch" in request.url]


async def test_eight_tabs_with_a_conversation_each_load_and_are_answered(page, upstream, asked):
    go_on = standing(upstream)
    running = requests_of(page.context)
    tabs: list[Page] = []
    for number in range(TABS):
        tab = await open_tab(page.context, asked, f"chat-{number}")
        tabs.append(tab)
        await ask(tab)
        await shows(tab, "half", 2)
    assert TABS == len(upstream.calls)
    assert 0 == sum(call.closed.is_set() for call in upstream.calls)
    await until(lambda: 1 == len(running))
    assert running == watches(running)

    go_on.told.set()
    for tab in tabs:
        await is_whole(tab)
    assert TABS == len(upstream.calls)


async def test_tabs_that_are_loaded_again_during_answers_go_on(page, upstream, asked):
    go_on = standing(upstream)
    running = requests_of(page.context)
    tabs = [await open_tab(page.context, asked, f"chat-{number}") for number in range(TABS)]
    for tab in tabs:
        await ask(tab)
        await shows(tab, "half", 2)
    for number, tab in enumerate(tabs):
        await tab.reload()
        await tab.evaluate(OPEN, [f"chat-{number}", await secret_of(asked), None, None])
        await shows(tab, "half", 2)
    await until(lambda: running == watches(running) and len(running) == 1)

    go_on.told.set()
    for tab in tabs:
        await shows(tab, "ready", 0)
        assert WHOLE == await tab.evaluate("last()")
    assert TABS == len(upstream.calls)


async def test_another_device_shows_the_answer_as_it_comes(page, upstream, asked):
    go_on = standing(upstream)
    other = await page.context.browser.new_context()
    first = await open_tab(page.context, asked, "talk", chat="talk")
    second, third = [await open_tab(other, asked, "talk", chat="talk") for _ in range(2)]
    elsewhere = await open_tab(other, asked, "else", chat="else")
    await ask(first)
    for tab in (first, second, third):
        await shows(tab, "half", 2)
    go_on.told.set()
    answers = "store.getSnapshot().messages.filter(({ status }) => status === 'completed').length"
    for tab in (first, second, third):
        await is_whole(tab)
        assert 1 == await tab.evaluate(answers)
    assert [] == await elsewhere.evaluate("store.getSnapshot().messages")

    await ask(second)  # and the other way round
    for tab in (first, second, third):
        await tab.wait_for_function(f"() => {answers} === 2")  # a text is refused by the policy
    assert 2 == len(upstream.calls)


async def close(leader: Page) -> None:
    await leader.close()


async def freeze(leader: Page) -> None:
    session = await leader.context.new_cdp_session(leader)
    await session.send("Page.setWebLifecycleState", {"state": "frozen"})


@pytest.mark.parametrize("end", [close, freeze])
async def test_another_tab_watches_where_the_leader_is_closed_or_frozen(
    page, upstream, asked, end: Callable[[Page], Awaitable[None]]
):
    go_on = standing(upstream)
    running = requests_of(page.context)
    tabs = [await open_tab(page.context, asked, f"chat-{number}") for number in range(3)]
    for tab in tabs:
        await ask(tab)
        await shows(tab, "half", 2)
    await until(lambda: running == watches(running))
    leader = next(tab for tab in tabs if running[0].frame.page == tab)
    tabs.remove(leader)
    await end(leader)

    go_on.told.set()
    for tab in tabs:
        await is_whole(tab)
    assert 3 == len(upstream.calls)


async def test_users_of_one_browser_hear_nothing_of_each_other(page, upstream, asked):
    go_on = standing(upstream)
    running = requests_of(page.context)
    ann = await open_tab(page.context, asked, "talk", chat="talk")
    bob = await open_tab(page.context, asked, "talk", user="bob", chat="talk")
    await ask(ann)
    await shows(ann, "half", 2)
    await ann.evaluate("store.forget()")  # signs out
    bobs = f"Bearer {await bob.evaluate('store.options.credential')}"
    await until(lambda: [bobs] == [one.headers["authorization"] for one in watches(running)])
    go_on.told.set()
    await until(lambda: nothing_runs(asked))
    assert [] == await bob.evaluate("store.getSnapshot().messages")
    assert [] == await ann.evaluate("store.getSnapshot().messages")


async def nothing_runs(asked: Asked) -> bool:
    reply = await asked.by(await secret_of(asked), "GET", "/v1/streams?status=running")
    return [] == reply.json()["data"]


async def test_key_that_all_users_may_have_watches_nothing(page, upstream, asked):
    go_on = standing(upstream)
    requests: list[str] = []
    page.context.on("request", lambda request: requests.append(request.url))
    tabs = []
    for user in ("ann", "bob"):
        tab = await page.context.new_page()
        await tab.goto(f"{asked.relay.url}/docs")
        await tab.evaluate(OPEN, ["talk", "plain", "talk", user])
        tabs.append(tab)
    await ask(tabs[0])
    await shows(tabs[0], "half", 2)
    go_on.told.set()
    await is_whole(tabs[0])
    assert [] == await tabs[1].evaluate("store.getSnapshot().messages")
    assert [] == [url for url in requests if "/streams/watch" in url]


@pytest.mark.parametrize("status", [404, 403])
async def test_without_a_watch_each_answer_is_read_by_a_tab(page, upstream, asked, status):
    go_on = standing(upstream)
    refused = {
        "status": status,
        "content_type": "application/json",
        "body": '{"code": "not_found"}',
    }
    await page.context.route("**/v1/streams/watch*", lambda route: route.fulfill(**refused))
    running = requests_of(page.context)
    tabs = [await open_tab(page.context, asked, "talk") for _ in range(3)]
    await ask(tabs[0])
    for tab in tabs:
        await shows(tab, "half", 2)
    await asyncio.sleep(0.05)
    assert 1 == len(running)
    go_on.told.set()
    for tab in tabs:
        await is_whole(tab)
    assert 1 == len(upstream.calls)


async def test_tabs_read_themselves_while_the_watch_is_down(page, upstream, asked, monkeypatch):
    monkeypatch.setattr("app.api.stream_watch.LONGEST_S", 2.0)
    go_on, asked_for = standing(upstream), 0

    async def refuse(route: Route) -> None:
        nonlocal asked_for
        asked_for += 1
        await (route.continue_() if asked_for == 1 else route.fulfill(status=503))

    await page.context.route("**/v1/streams/watch*", refuse)
    running = requests_of(page.context)
    tabs = [await open_tab(page.context, asked, f"chat-{number}") for number in range(2)]
    for tab in tabs:
        await ask(tab)
        await shows(tab, "half", 2)
    await until(lambda: 2 == sum("/events" in request.url for request in running))
    assert asked_for > 1

    go_on.told.set()
    for tab in tabs:
        await is_whole(tab)
    assert 2 == len(upstream.calls)


async def test_a_watch_that_ends_loses_and_doubles_nothing(page, upstream, asked, monkeypatch):
    monkeypatch.setattr("app.api.stream_watch.LONGEST_S", 0.7)
    words = [f"{number} " for number in range(100)]
    upstream.script = [head(), *(step for word in words for step in (send(text(word)), wait(0.04)))]
    upstream.script += [send(FINISH + DONE)]
    tabs = [await open_tab(page.context, asked, f"chat-{number}") for number in range(2)]
    for tab in tabs:
        await ask(tab)
    for tab in tabs:
        await shows(tab, "ready", 0)
        assert ["ready", "assistant", "".join(words), "completed"] == await tab.evaluate("last()")
        assert await tab.evaluate("events.every((id, at) => id.endsWith(`.${at + 1}`))")


async def test_any_tab_or_device_stops_an_answer(page, upstream, asked):
    standing(upstream)
    running = requests_of(page.context)
    device = await page.context.browser.new_context()
    tabs = [
        await open_tab(context, asked, "talk", chat="talk")
        for context in (page.context, page.context, device)
    ]
    for number, stopper in enumerate((tabs[1], tabs[2])):
        await ask(tabs[0])
        for tab in tabs:
            await shows(tab, "half", 2)
        await until(lambda: running == watches(running))
        await stopper.evaluate("store.stop()")
        for tab in tabs:
            await shows(tab, "cancelled", 3)
            assert ["ready", "assistant", "half", "cancelled"] == await tab.evaluate("last()")
        await until(upstream.calls[number].closed.is_set)


TOOLS = """
  window.ran = 0;
  store.options = { ...store.options, tools: { add: { run: () => { ran += 1; return '3'; } } } };
"""


async def test_tools_run_on_the_device_that_asked_alone(page, upstream, asked):
    called = {"index": 0, "id": "call_1", "function": {"name": "add", "arguments": "{}"}}
    ends = event(finish_reason="tool_calls") + DONE
    scripts = [
        [head(), send(event({"tool_calls": [called]}) + ends)],
        [head(), send(text("3") + FINISH + DONE)],
    ]
    upstream.choose = lambda call: scripts[len(upstream.calls) - 1]
    other = await page.context.browser.new_context()
    first, second = [
        await open_tab(context, asked, "talk", chat="talk") for context in (page.context, other)
    ]
    for tab in (first, second):
        await tab.evaluate(TOOLS)
    await ask(first)
    for tab in (first, second):
        await shows(tab, "3", 2)
        await shows(tab, "ready", 0)
    assert [1, 0] == [await tab.evaluate("ran") for tab in (first, second)]
    assert 2 == len(upstream.calls)
