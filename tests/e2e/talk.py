"""Scripts of the provider, and how a test asks the page and reads what it shows."""

from collections.abc import Sequence

from playwright.async_api import Dialog, Page

from app.testing.upstream import DONE, FINISH, Step, Until, head, send, text, wait

IDLE = "body[data-state=idle] .message.assistant:last-child"
BUSY = "body[data-state=busy] .message.assistant .text"
READY = "#model option:nth-child(2)"
PACE_S = 0.02
TRANSPORTS = ("fetch", "eventsource")


def rest(*pieces: str) -> list[Step]:
    """Return an answer after its head, one read a piece, to its end."""
    *first, last = [text(piece) for piece in pieces] or [""]
    return [*(send(piece) for piece in first), send(last + FINISH + DONE)]


def says(*pieces: str) -> list[Step]:
    """Return a whole answer, one read a piece."""
    return [head(), *rest(*pieces)]


def paced(words: Sequence[str], go_on: Until | None = None) -> list[Step]:
    """Return a whole answer, word by word; it stands still in its midst until `go_on` is told."""
    steps = [step for word in words for step in (send(text(word)), wait(PACE_S))]
    standing = [] if go_on is None else [go_on]
    return [head(), *steps[:12], *standing, *steps[12:], *rest()]


async def open_page(page: Page, url: str) -> None:
    """Open the page, and wait until it knows the relay's models."""
    await page.goto(url)
    await page.wait_for_selector(READY, state="attached")


async def ask(
    page: Page, prompt: str, *, model: str | None = None, transport: str | None = None
) -> None:
    if model is not None:
        await page.select_option("#model", model)
    if transport is not None:
        await page.select_option("#transport", transport)
    await page.fill("#prompt", prompt)
    await page.click("#send")


async def answer(page: Page) -> str:
    """Return the text of the last answer once it has ended."""
    await page.wait_for_selector(IDLE)
    last = page.locator(".message.assistant").last
    return "".join(await last.locator(".text").all_text_contents())


def answer_dialogs(page: Page, *, agrees: bool) -> list[str]:
    """Answer each question of the page so; return what they said."""
    asked: list[str] = []

    async def reply(dialog: Dialog) -> None:
        asked.append(dialog.message)
        await (dialog.accept() if agrees else dialog.dismiss())

    page.on("dialog", reply)
    return asked


async def status(page: Page) -> str | None:
    return await page.locator(".message.assistant").last.get_attribute("data-status")


async def shown(page: Page) -> list[str]:
    """Return what was said, by turns."""
    return await page.locator(".message.user > p, .message.assistant .text").all_text_contents()


async def go_offline(page: Page) -> None:
    """Take the network away; the browser's own process for it may know only a while later."""
    await page.context.set_offline(True)
    await page.wait_for_function("() => fetch('/healthz').then(() => false, () => true)")


async def give_key(page: Page, key: str) -> None:
    await page.fill("#key", key)
    await page.click("#use-key")


async def watch_policy(page: Page) -> list[str]:
    """List what the policy of the page is broken by."""
    broken: list[str] = []
    page.on(
        "console",
        lambda message: (
            broken.append(message.text) if "Content Security Policy" in message.text else None
        ),
    )
    return broken


async def check_in_view(page: Page, *parts: str) -> None:
    """Check that each part can be scrolled into view, whole."""
    size = page.viewport_size
    assert size is not None
    for part in parts:
        await page.locator(part).scroll_into_view_if_needed()
        box = await page.locator(part).bounding_box()
        assert box is not None
        assert 0 <= box["x"] <= box["x"] + box["width"] <= size["width"]
        assert 0 <= box["y"] <= box["y"] + box["height"] <= size["height"]
