"""The code of docs/clients runs as it stands there; only the relay's address differs.

That of ai-sdk.md is a page, which tests/e2e/test_usechat.py runs; that of the README is run by
tests/test_docs.py and tests/e2e/test_page.py, those of frameworks.md, copilotkit.md and tanstack-ai.md
by tests/clients/families, and those of agents.md by tests/agents.
"""

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.agents.agents import BLOCKS
from tests.clients.programs import run
from tests.needs import file, program
from tests.serving import Relay, chat, serve_relay, text_of
from tests.test_docs import block

pytestmark = pytest.mark.proving

ROOT = Path(__file__).parents[2]
PROMPT = [{"role": "user", "content": "Hi"}]

SNIPPETS = {
    ("anthropic.md", "python"): 1,
    ("anthropic.md", "node"): 1,
    ("openai.md", "python"): 2,
    ("openai.md", "node"): 2,
    ("ag-ui.md", "node"): 1,
}
"""How many answers each writes."""

ELSEWHERE = {
    ("anthropic.md", "environment"),
    ("ai-sdk.md", "usechat"),
    ("ai-sdk.md", "provider"),
    ("openai.md", "stored"),
    *(("agents.md", name) for name in BLOCKS),
    ("copilotkit.md", "copilotkit"),
    ("tanstack-ai.md", "tanstack"),
    ("codex.md", "built-in"),
    ("codex.md", "config"),
}


def code(document: str, name: str, relay: Relay) -> str:
    found = block(name, f"docs/clients/{document}")
    assert 1 == found.count("localhost:8000")
    return found.replace("localhost:8000", f"127.0.0.1:{relay.port}")


def python(snippet: str) -> list[str]:
    return [sys.executable, "-X", "utf8", "-c", snippet]


def node(snippet: str) -> list[str]:
    binary = program("node")
    (package,) = re.findall(r" from '(.+)'", snippet)
    file(ROOT / "node_modules" / package / "package.json", how="run npm ci")
    return [binary, "--input-type=module", "--eval", snippet]


COMMANDS: dict[str, Callable[[str], list[str]]] = {"python": python, "node": node}


@pytest.mark.parametrize(("document", "name"), SNIPPETS)
async def test_snippet_writes_the_whole_answer(document, name):
    async with serve_relay(demo_pace=0) as relay:
        written = await run(*COMMANDS[name](code(document, name, relay)), quiet=True)
        answer = text_of(await chat(relay, messages=PROMPT, model="demo"))

    assert len(answer) > 100
    assert answer * SNIPPETS[document, name] == written


async def test_environment_leads_anthropics_client_to_the_relay():
    async with serve_relay(demo_pace=0) as relay:
        ask = "import anthropic; print(*(it.id for it in anthropic.Anthropic().models.list()))"
        exports = code("anthropic.md", "environment", relay)
        names = await run(
            "sh", "-c", f'{exports}exec "$0" -c "$1"', sys.executable, ask, quiet=True
        )

    assert "demo" in names.split()


async def test_conversation_goes_on_from_a_stored_response():
    async with serve_relay(demo_pace=0) as relay:
        written = await run(*python(code("openai.md", "stored", relay)), quiet=True)

    assert ["user", "assistant", "user"] == written.split()


async def test_ai_sdk_with_the_openai_provider_answers():
    folder = ROOT / "tests" / "clients" / "ai_sdk"
    package = file(folder / "node_modules" / "openai7", how=f"run npm ci --prefix {folder}")
    ask = """
        const { generateText } = await import(process.argv[1]);
        console.log((await generateText({ model, prompt: 'Hi' })).text.length);
    """
    async with serve_relay(demo_pace=0) as relay:
        snippet = code("ai-sdk.md", "provider", relay)
        snippet = snippet.replace("@ai-sdk/openai", f"{package}/dist/index.js")
        ai = f"{package.with_name('ai7')}/dist/index.js"
        node = (program("node"), "--input-type=module", "--eval", snippet + ask, ai)
        written = await run(*node, quiet=True)

    assert int(written) > 100
