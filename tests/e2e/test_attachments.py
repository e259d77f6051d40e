"""Files of a question, on the page."""

import base64
import json
import struct
import zlib
from typing import Any

import pytest
from playwright.async_api import FilePayload

from app.testing.upstream import DONE, FINISH, head, reply, send, serve_upstream, text
from tests.e2e.axe import check_accessible_everywhere
from tests.e2e.test_keys import watch_policy
from tests.e2e.test_page import answer
from tests.serving import serve_relay

pytestmark = [pytest.mark.proving, pytest.mark.browser]

FILES = "#composer .files li"
WIDTH = "async (it) => { await it.decode(); return it.naturalWidth; }"
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


def data_url(file: FilePayload) -> str:
    return f"data:{file['mimeType']};base64,{base64.b64encode(file['buffer']).decode()}"


CONTENT = [
    {"type": "image_url", "image_url": {"url": data_url(IMAGE)}},
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


async def test_files_are_attached_sent_shown_and_kept(page):
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.script = [head(), send(text("seen") + FINISH + DONE)]
        broken = await watch_policy(page)
        await page.goto(relay.url)
        await page.wait_for_selector("#model option:nth-child(2)", state="attached")
        await page.set_input_files("#files", [IMAGE, NOTES, PDF])
        await page.wait_for_selector(f"{FILES}:nth-child(3)")
        assert await page.locator(f"{FILES} img").evaluate(WIDTH) == 40
        await check_accessible_everywhere(page)
        await page.get_by_role("button", name="Remove paper.pdf").focus()
        await page.keyboard.press("Enter")
        assert 2 == await page.locator(FILES).count()
        assert await page.evaluate("document.activeElement.closest('.files') !== null")
        await page.click("#show-code")
        await page.wait_for_selector("#code[open]")
        assert "data:image/png;base64," in await page.text_content("#code-panel")
        await page.keyboard.press("Escape")
        await page.fill("#prompt", "what are these?")
        await page.keyboard.press("Enter")

        assert "seen" == await answer(page)
        assert CONTENT == upstream.calls[0].json["messages"][-1]["content"]
        assert 0 == await page.locator(FILES).count()

        # Kept through a reload, and sent again with the next question; so is what is half written.
        await page.fill("#prompt", "half a question")
        await page.reload()
        assert "half a question" == await page.input_value("#prompt")
        await page.wait_for_selector(".message.user .files li:nth-child(2)")
        assert await page.locator(".message.user img").evaluate(WIDTH) == 40
        await page.fill("#prompt", "and now?")
        await page.click("#send")
        await page.wait_for_function(FEET, arg=2)
        messages = upstream.calls[1].json["messages"]
        assert [CONTENT, "seen", "and now?"] == [message["content"] for message in messages]

        # Dropped wherever it is, pasted, and sent without a word.
        assert "null" == await page.evaluate("`${sessionStorage['seseragi.draft'] ?? null}`")
        image = base64.b64encode(IMAGE["buffer"]).decode()
        await page.evaluate(GIVE, [".inspector", "drop", image, "image/png"])
        await page.wait_for_selector(FILES)
        await page.evaluate(GIVE, ["#prompt", "paste", image, "image/png"])
        await page.wait_for_selector(f"{FILES}:nth-child(2)")
        await page.click("#send")
        await page.wait_for_function(FEET, arg=3)
        assert [CONTENT[0], CONTENT[0]] == upstream.calls[2].json["messages"][-1]["content"]
        assert [] == broken


async def test_what_cannot_be_attached_is_told(page):
    models: list[dict[str, Any]] = [
        {"id": "blind", "architecture": {"input_modalities": ["text"]}},
        {"id": "sees", "architecture": {"input_modalities": ["text", "image"]}},
    ]
    problem = page.locator(".attach-problem")
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.models = reply("200 OK", json.dumps({"data": models}))
        upstream.script = [head(), send(text("seen") + FINISH + DONE)]
        await page.goto(relay.url)
        await page.wait_for_selector("#model option:nth-child(2)", state="attached")
        await page.select_option("#model", "openai/blind")
        await page.set_input_files("#files", IMAGE)
        await page.wait_for_selector(".attach-problem:has-text('openai/blind takes no images')")
        both = [{"name": f"{n}.zip", "mimeType": "application/zip", "buffer": b"PK"} for n in "ab"]
        await page.set_input_files("#files", both)
        await page.wait_for_selector(".attach-problem:has-text('a.zip'):has-text('b.zip')")
        for name, kind, data, said in (
            ("song.mp3", "audio/mpeg", b"x", "song.mp3: only images"),
            ("odd.txt", "text/plain", b"\xff\xfe", "odd.txt: only images"),
            ("long.txt", "text/plain", b"x" * 400_001, "long.txt is too large (400 kB)"),
            ("broken.png", "image/png", b"no", "broken.png cannot be read as an image"),
            ("big.pdf", "application/pdf", b"%" * 2_500_000, "big.pdf"),
        ):
            await page.select_option("#model", "openai/gpt-6-luna")
            await page.set_input_files("#files", payload(name, kind, data))
            await page.wait_for_selector(f".attach-problem:has-text('{said}')")
        assert "at most 2.4 MB together" in (await problem.text_content() or "")
        assert 0 == await page.locator(FILES).count()

        # A model is chosen after the file: the question waits for another.
        await page.select_option("#model", "openai/sees")
        await page.set_input_files("#files", [payload("photo.png", "image/png", png(2500))])
        await page.wait_for_selector(FILES)
        await page.select_option("#model", "openai/blind")
        await page.fill("#prompt", "what is this?")
        await page.click("#send")
        assert "photo.png" in (await problem.text_content() or "")
        assert "what is this?" == await page.input_value("#prompt")
        await check_accessible_everywhere(page)
        await page.select_option("#model", "openai/sees")
        await page.click("#send")
        assert "seen" == await answer(page)
        (call,) = upstream.calls
        sent = call.json["messages"][-1]["content"][0]["image_url"]["url"]
        assert sent.startswith("data:image/jpeg;base64,")
        assert 2048 == await page.evaluate(
            "async (url) => { const it = new Image(); it.src = url; await it.decode(); return it.naturalWidth; }",
            sent,
        )
