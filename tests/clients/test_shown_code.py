"""What the page shows as code runs as it stands, and asks what the page would."""

from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from app.dialects.client_formats import CLIENT_FORMATS
from app.testing.upstream import DONE, FINISH, head, send, serve_upstream, text
from tests.api.asking import serve_asked
from tests.clients import programs
from tests.clients.shown_code import CONVERSATION, write_code
from tests.needs import file, program
from tests.serving import HELLO, serve_relay

pytestmark = pytest.mark.proving

ROOT = Path(__file__).parents[2]
ANSWER = "shown\u2028答え"

SCRIPT = ("node", "--input-type=module", "--eval")
COMMANDS = {"curl": ("bash", "-c"), "fetch": SCRIPT, "eventsource": SCRIPT}
EVENT_SOURCE = "import { EventSource } from 'eventsource';\n"


async def run(name: str, code: str, folder: Path, key: str) -> str:
    program(COMMANDS[name][0])
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


@pytest.mark.parametrize(("name", "keyed"), [*((name, True) for name in COMMANDS), ("curl", False)])
async def test_shown_code_asks_the_relay_as_the_page_does(tmp_path, name, keyed):
    async with serve_upstream() as upstream, AsyncExitStack() as stack:
        if keyed:
            relay = (await stack.enter_async_context(serve_asked(upstream))).relay
        else:
            relay = await stack.enter_async_context(serve_relay(upstream))
        upstream.script = [head(), send(text(ANSWER) + FINISH + DONE)]
        written = write_code(CONVERSATION, f"{relay.url}/", keyed=keyed, model="openai/some")
        shown = await run(name, written[name], tmp_path, "plain")

    # The frames are shown, in which JSON escapes U+2028.
    assert ANSWER in shown.replace("\\u2028", "\u2028")
    (call,) = upstream.calls
    assert CONVERSATION == call.json["messages"]
    assert "some" == call.json["model"]


@pytest.mark.parametrize("format", sorted({*CLIENT_FORMATS} - {"native", "openai_completions"}))
@pytest.mark.parametrize("name", COMMANDS)
async def test_shown_code_reads_the_answer_again_in_each_format(tmp_path, name, format):
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.script = [head(), send(text(ANSWER) + FINISH + DONE)]
        first = await relay.client.post("/v1/chat", json=HELLO)
        where = {"stream": first.headers["stream-id"], "format": format}
        written = write_code(CONVERSATION, f"{relay.url}/", keyed=False, **where)
        shown = await run(name, written[name], tmp_path, "plain")

    times = 1 if name == "eventsource" else 2  # natively, and again
    assert times <= shown.replace("\\u2028", "\u2028").count(ANSWER)
    assert 2 == len(upstream.calls)
