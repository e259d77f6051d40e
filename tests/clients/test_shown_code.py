"""What the page shows as code runs as it stands, and asks what the page would."""

import sys
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from app.testing.upstream import DONE, FINISH, head, send, serve_upstream, text
from tests.api.asking import serve_asked
from tests.clients import programs
from tests.clients.shown_code import CONVERSATION, write_code
from tests.needs import file, program
from tests.serving import serve_relay

pytestmark = pytest.mark.proving

ROOT = Path(__file__).parents[2]
ANSWER = "shown\u2028答え"

PYTHON = (sys.executable, "-X", "utf8", "-c")
SCRIPT = ("node", "--input-type=module", "--eval")
COMMANDS = {
    "curl": ("bash", "-c"),
    "client": SCRIPT,
    "eventsource": SCRIPT,
    "openai": PYTHON,
    "httpx": PYTHON,
}
EVENT_SOURCE = "import { EventSource } from 'eventsource';\n"


async def run(name: str, code: str, folder: Path, key: str) -> str:
    program(COMMANDS[name][0] if COMMANDS[name] is not PYTHON else "python3")
    for package, found in (("seseragi", ROOT / "static"), ("eventsource", None)):
        link = folder / "node_modules" / package
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(found or file(ROOT / "node_modules" / package, how="run npm ci"))
    if name == "eventsource":
        code = EVENT_SOURCE + code
    if COMMANDS[name] is SCRIPT:
        code = code.replace("RELAY_KEY", key)
    return await programs.run(
        *COMMANDS[name], code, folder=folder, RELAY_KEY=key, HOME="/nonexistent"
    )


@pytest.mark.parametrize(
    ("name", "keyed"), [*((name, True) for name in COMMANDS), ("curl", False), ("openai", False)]
)
async def test_shown_code_asks_the_relay_as_the_page_does(tmp_path, name, keyed):
    async with serve_upstream() as upstream, AsyncExitStack() as stack:
        if keyed:
            relay = (await stack.enter_async_context(serve_asked(upstream))).relay
        else:
            relay = await stack.enter_async_context(serve_relay(upstream))
        upstream.script = [head(), send(text(ANSWER) + FINISH + DONE)]
        written = write_code(
            CONVERSATION,
            f"{relay.url}/",
            keyed=keyed,
            model="openai/some",
            temperature=0.5,
            max_tokens=7,
        )
        shown = await run(name, written[name], tmp_path, "plain")

    # curl shows the frames, in which JSON escapes U+2028.
    assert ANSWER in shown.replace("\\u2028", "\u2028")
    (call,) = upstream.calls
    assert CONVERSATION == call.json["messages"]
    assert ("some", 0.5) == (call.json["model"], call.json["temperature"])
    assert 7 == call.json["max_completion_tokens"]


def test_shown_code_has_files_cut_short():
    content = [
        {"type": "text", "text": "notes " * 1000},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 10_000}},
        {"type": "text", "text": "typed " * 1000},
    ]
    written = write_code([{"role": "user", "content": content}], "http://a/", keyed=False)

    for code in written.values():
        assert "data:image/png;base64,AAAA" in code
        assert "A" * 100 not in code
        assert 1000 == code.count("typed ")
        assert 30 < code.count("notes ") < 40
