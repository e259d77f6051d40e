"""What makes up a question on the page: its model, its files, its words as code, its language."""

import base64
import json
import struct
import zlib

import pytest
from playwright.async_api import FilePayload

from app.testing.upstream import reply
from tests.e2e.axe import check_accessible, check_accessible_everywhere
from tests.e2e.talk import answer, ask, check_in_view, open_page, says, watch_policy

pytestmark = [pytest.mark.proving, pytest.mark.browser]

MODELS = [
    {
        "id": f"lab/model-{number:03}",
        "name": f"Model {number}",
        "context_length": 200_000,
        "architecture": {"input_modalities": ["text", *(["image"] if number % 50 == 0 else [])]},
        "supported_parameters": ["tools"],
    }
    for number in range(400)
]
OPTIONS = "#models [role=option]"
CODES = ["curl", "seseragi.js", "React", "EventSource", "Python, openai", "Python, httpx"]


async def test_one_of_hundreds_of_models_is_found_and_chosen(page, upstream, relay):
    upstream.models = reply("200 OK", json.dumps({"data": MODELS}))
    upstream.script = says("chosen")
    broken = await watch_policy(page)
    await page.goto(relay.url)
    await page.wait_for_selector("#model option:nth-child(400)", state="attached")
    await page.focus("#pick-model")
    await page.keyboard.press("Enter")
    await page.wait_for_selector("#model-search:focus")
    assert await page.locator(OPTIONS).count() <= 60  # of 400
    await check_accessible_everywhere(page)

    # To the last one and back around.
    for key in ("ArrowUp", "ArrowDown", "ArrowDown"):
        await page.keyboard.press(key)
    active = page.locator(f"{OPTIONS}.active")
    named = await page.get_attribute("#model-search", "aria-activedescendant")
    assert (named, "2") == (
        await active.get_attribute("id"),
        await active.get_attribute("aria-posinset"),
    )
    await page.keyboard.type("IMAGE model-1")
    names = page.locator(f"{OPTIONS} .id")
    await page.wait_for_function("() => document.querySelectorAll('#models .id').length === 2")
    assert ["openai/lab/model-100", "openai/lab/model-150"] == await names.all_text_contents()
    facts = page.locator(f"{OPTIONS} >> nth=0").locator(".facts span")
    assert ["200K context", "image", "tools"] == await facts.all_text_contents()
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("Enter")
    assert "openai/lab/model-150" == await page.input_value("#model")
    assert not await page.is_visible("#picker")

    await page.set_viewport_size({"width": 320, "height": 256})  # 400 %
    await page.click("#pick-model")
    await check_in_view(page, "#model-search", f"{OPTIONS}.active")
    await page.fill("#model-search", "no such thing")
    await page.wait_for_selector("#picker :text('No model has all of these words')")
    await page.keyboard.press("Escape")
    await page.fill("#prompt", "hello")
    await page.keyboard.press("Enter")
    assert "chosen" == await answer(page)
    assert "lab/model-150" == upstream.calls[0].json["model"]
    assert [] == broken


FILES = "#composer .files li"
WIDTH = "async (it) => { await it.decode(); return it.naturalWidth; }"
WIDTH_OF = f"(src) => {{ const it = new Image(); it.src = src; return ({WIDTH})(it); }}"
FEET = "(feet) => document.querySelectorAll('.answer-foot').length === feet"


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(side: int) -> bytes:
    rows = zlib.compress((b"\0" + b"\x30\x90\xa0" * side) * side)
    size = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def payload(name: str, kind: str, data: bytes) -> FilePayload:
    return {"name": name, "mimeType": kind, "buffer": data}


IMAGE = payload("river.png", "image/png", png(40))
NOTES = payload("notes.txt", "text/plain", "せせらぎ".encode())
PDF = payload("paper.pdf", "application/pdf", b"%PDF-1.4\n%%EOF\n")
IMAGE_BASE64 = base64.b64encode(IMAGE["buffer"]).decode()
CONTENT = [
    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{IMAGE_BASE64}"}},
    {"type": "text", "text": "notes.txt:\n\nせせらぎ"},
    {"type": "text", "text": "what are these?"},
]
GIVE = """([selector, type, data, mime]) => {
  const bytes = Uint8Array.from(atob(data), (it) => it.charCodeAt(0));
  const transfer = new DataTransfer();
  transfer.items.add(new File([bytes], 'given.png', { type: mime }));
  const init = { bubbles: true, cancelable: true };
  document.querySelector(selector).dispatchEvent(type === 'paste'
    ? new ClipboardEvent('paste', { ...init, clipboardData: transfer })
    : new DragEvent('drop', { ...init, dataTransfer: transfer }));
}"""


async def test_files_are_attached_sent_shown_and_kept(page, upstream, relay):
    upstream.script = says("seen")
    broken = await watch_policy(page)
    await open_page(page, relay.url)
    await page.set_input_files("#files", [IMAGE, NOTES, PDF])
    await page.wait_for_selector(f"{FILES}:nth-child(3)")
    assert await page.locator(f"{FILES} img").evaluate(WIDTH) == 40
    await check_accessible(page)
    await page.get_by_role("button", name="Remove paper.pdf").focus()
    await page.keyboard.press("Enter")
    assert 2 == await page.locator(FILES).count()
    await ask(page, "what are these?")
    assert "seen" == await answer(page)
    assert CONTENT == upstream.calls[0].json["messages"][-1]["content"]
    assert 0 == await page.locator(FILES).count()

    # Kept through a reload, and sent again with the next question; so is what is half written.
    await page.fill("#prompt", "half a question")
    await page.reload()
    assert "half a question" == await page.input_value("#prompt")
    await page.wait_for_selector(".message.user .files li:nth-child(2)")
    assert await page.locator(".message.user img").evaluate(WIDTH) == 40
    await ask(page, "and now?")
    await page.wait_for_function(FEET, arg=2)
    messages = upstream.calls[1].json["messages"]
    assert [CONTENT, "seen", "and now?"] == [message["content"] for message in messages]

    # Dropped wherever it is, pasted, and sent without a word.
    await page.evaluate(GIVE, [".inspector", "drop", IMAGE_BASE64, "image/png"])
    await page.wait_for_selector(FILES)
    await page.evaluate(GIVE, ["#prompt", "paste", IMAGE_BASE64, "image/png"])
    await page.wait_for_selector(f"{FILES}:nth-child(2)")
    await page.click("#send")
    await page.wait_for_function(FEET, arg=3)
    assert [CONTENT[0], CONTENT[0]] == upstream.calls[2].json["messages"][-1]["content"]
    assert [] == broken


async def test_what_cannot_be_attached_is_told(page, upstream, relay):
    upstream.models = reply(
        "200 OK",
        json.dumps(
            {
                "data": [
                    {"id": name, "architecture": {"input_modalities": kinds}}
                    for name, kinds in (("blind", ["text"]), ("sees", ["text", "image"]))
                ]
            }
        ),
    )
    upstream.script = says("seen")
    await open_page(page, relay.url)
    await page.select_option("#model", "openai/blind")
    await page.set_input_files("#files", IMAGE)
    await page.wait_for_selector(".attach-problem:has-text('openai/blind takes no images')")
    await page.select_option("#model", "openai/gpt-6-luna")
    for name, kind, data, said in (
        ("song.mp3", "audio/mpeg", b"x", "song.mp3: only images"),
        ("odd.txt", "text/plain", b"\xff\xfe", "odd.txt: only images"),
        ("long.txt", "text/plain", b"x" * 400_001, "long.txt is too large (400 kB)"),
        ("broken.png", "image/png", b"no", "broken.png cannot be read as an image"),
        ("big.pdf", "application/pdf", b"%" * 2_500_000, "at most 2.4 MB together"),
    ):
        await page.set_input_files("#files", payload(name, kind, data))
        await page.wait_for_selector(f".attach-problem:has-text('{said}')")
    assert 0 == await page.locator(FILES).count()

    # A model is chosen after the file: the question waits for another.
    await page.select_option("#model", "openai/sees")
    await page.set_input_files("#files", [payload("photo.png", "image/png", png(2500))])
    await page.wait_for_selector(FILES)
    await ask(page, "what is this?", model="openai/blind")
    await page.wait_for_selector(".attach-problem:has-text('photo.png')")
    assert "what is this?" == await page.input_value("#prompt")
    await check_accessible(page)
    await page.select_option("#model", "openai/sees")
    await page.click("#send")
    assert "seen" == await answer(page)
    (call,) = upstream.calls
    sent = call.json["messages"][-1]["content"][0]["image_url"]["url"]
    assert sent.startswith("data:image/jpeg;base64,")
    assert 2048 == await page.evaluate(WIDTH_OF, sent)


async def test_a_request_is_shown_as_code_by_keyboard_alone(page, upstream, relay):
    upstream.script = says("answered")
    broken = await watch_policy(page)
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await open_page(page, relay.url)
    await page.fill("#prompt", "what I write")
    await page.focus("#show-code")
    await page.keyboard.press("Enter")
    await page.wait_for_selector("#code[open]")
    codes = {}
    for _ in CODES:
        tab = page.locator("#code [role=tab]:focus")
        codes[await tab.text_content()] = await page.text_content("#code-panel")
        assert "true" == await tab.get_attribute("aria-selected")
        await page.keyboard.press("ArrowRight")
    assert CODES == list(codes)
    assert all("what I write" in code and relay.url in code for code in codes.values())
    await check_accessible(page)
    await page.keyboard.press("End")
    await page.click("#copy-code")
    await page.wait_for_selector("#copy-code:has-text('Copied')")
    assert codes[CODES[-1]] == await page.evaluate("navigator.clipboard.readText()")
    await page.keyboard.press("Escape")
    assert "show-code" == await page.evaluate("document.activeElement.id")

    # What was sent last, once nothing is being written.
    await ask(page, "what I sent")
    await answer(page)
    await page.click("#show-code")
    await page.wait_for_selector("#code[open]")
    assert "what I sent" in await page.text_content("#code-panel")
    assert "what I write" not in await page.text_content("#code-panel")
    assert [] == broken


async def test_page_is_in_japanese_where_the_browser_is(page, upstream, relay):
    upstream.script = says("はい")
    context = await page.context.browser.new_context(locale="ja-JP")
    ours = await context.new_page()
    for one, language, send, placeholder, title in (
        (ours, "ja", "送信", "メッセージを入力", "流れ"),
        (page, "en", "Send", "message", "Seseragi"),
    ):
        await one.goto(relay.url)
        assert language == await one.get_attribute("html", "lang")
        assert send in await one.text_content("#send")
        assert placeholder in await one.get_attribute("#prompt", "placeholder")
        assert title in await one.title()
    await ask(ours, "こんにちは")

    assert "はい" == await answer(ours)
    await ours.wait_for_selector("#status:has-text('完了')")
    await check_accessible(ours)
