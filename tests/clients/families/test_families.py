"""No client takes an answer that was cut, failed, stopped or lost for a whole one.

Real clients ask a real relay, and what each shows is its row in docs/clients/frameworks.md.
Those that no environment of the tests has are asked by hand: see `probe`.
"""

import os
import sys
from pathlib import Path

import pytest

from tests.clients.families.faults import Running
from tests.clients.families.probe import COLUMNS, probe
from tests.clients.programs import run
from tests.needs import file, program
from tests.serving import serve_relay
from tests.test_docs import block

pytestmark = pytest.mark.proving

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
PAGE = "docs/clients/frameworks.md"
PYTHON = HERE / ".venv" / "bin" / "python"
HOW = "run .ci/run, or its lines of tests/clients/families"

_CHAT = ("openai-chat", "openai-chat-helper")
_RESPONSES = ("openai-responses", "openai-responses-helper")
_STREAMS = ("openai-node-chat-helper", "openai-node-responses-helper")

FAMILIES = {
    "openai 3": ("ours", (*_CHAT, *_RESPONSES)),
    "openai 2": ("families", ("openai-chat", "openai-responses")),
    "openai 1": ("older", ("openai-chat", *_RESPONSES)),
    "anthropic 2": ("ours", ("anthropic", "anthropic-helper")),
    "LangChain 1": ("families", ("langchain-chat", "langchain-responses")),
    "LlamaIndex 0.14": ("families", ("llama-index-chat", "llama-index-responses")),
    "pydantic-ai 2": ("families", ("pydantic-ai-chat", "pydantic-ai-responses")),
    "openai for Node.js 7": ("node", ("openai-node-chat", "openai-node-responses")),
    "openai for Node.js 7 by `.stream()`": ("node", _STREAMS),
    "anthropic for Node.js 1": ("node", ("anthropic-node",)),
    "LangChain.js 1": ("node", ("langchain-js-chat", "langchain-js-responses")),
    "AI SDK 5": ("node", ("ai-5-responses", "ai-5-chat", "ai-5-anthropic")),
    "AI SDK 6": ("node", ("ai-6-responses", "ai-6-chat", "ai-6-anthropic")),
    "AI SDK 7": ("node", ("ai-7-responses", "ai-7-chat", "ai-7-anthropic")),
    "`useChat` 5": ("node", ("ai-5-ui",)),
    "`useChat` 6": ("node", ("ai-6-ui",)),
    "`useChat` 7": ("node", ("ai-7-ui",)),
    "AG-UI 1": ("node", ("ag-ui",)),
    "CopilotKit 1": ("node", ("copilotkit",)),
    "TanStack AI 0.58": ("node", ("tanstack",)),
    "`seseragi.js`": ("node", ("seseragi",)),
}
"""By the names in the table: the environment, and the clients of its program."""

ELSEWHERE = os.environ.get("FAMILIES_PYTHON")
BY_HAND = ("agents", "agno", "haystack", "litellm", "semantic-kernel")
"""The examples of clients that are too large to install for every run of the tests."""

TOGETHER = ("langchain", "llamaindex", "pydantic-ai")
"""The examples that one process runs: what they import takes longest, and is much the same."""
SNIPPETS = (*TOGETHER, "langchain-js", "ai-sdk", *BY_HAND)
RUN = [(name,) for name in SNIPPETS[len(TOGETHER) :] if ELSEWHERE or name not in BY_HAND]
IN_TURN = "import sys\nfor code in sys.argv[1:]: exec(code, {}), print(end='\\0')"


def command(environment: str) -> tuple[list[str], dict[str, str]]:
    """Return the program that has the clients of an environment, and its variables."""
    match environment:
        case "node":
            node = program("node")
            file(HERE / "node_modules" / "@langchain" / "openai" / "package.json", how=HOW)
            file(ROOT / "node_modules" / "openai" / "package.json", how="run npm ci")
            return [node, str(HERE / "ask.mjs")], {}
        case "ours":
            return [sys.executable, str(HERE / "ask.py")], {}
        case "older":
            older = file(HERE / ".venv" / "openai1" / "openai", how=HOW).parent
            return [str(file(PYTHON, how=HOW)), str(HERE / "ask.py")], {"PYTHONPATH": str(older)}
        case _:
            return [str(file(PYTHON, how=HOW)), str(HERE / "ask.py")], {}


def rows() -> dict[str, list[str]]:
    """Return the table of what clients show, by their names; a row may have several."""
    _, _, table = (ROOT / PAGE).read_text(encoding="utf-8").partition("\n| client |")
    lines = table.partition("\n\n")[0].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert [*COLUMNS] == cells[0]
    found = [(name, rest) for names, *rest in cells[2:] for name in names.split(", ")]
    assert len(found) == len(dict(found))
    return dict(found)


@pytest.mark.parametrize("environment", ["ours", "families", "older", "node"])
async def test_clients_show_what_was_not_completed(environment):
    """All of an environment at once: what they import takes longer than what they ask."""
    start, environ = command(environment)
    names = {
        client: name
        for name, (where, clients) in FAMILIES.items()
        if where == environment
        for client in clients
    }
    shown = dict(zip(names, await probe(start, [*names], environ), strict=True))
    table = rows()

    # Where a client has two ways to say it, which of them comes first is a race within the client.
    for client, cells in shown.items():
        row = table[names[client]]
        for said, cell in zip(row, cells, strict=True):
            assert set(cell.split(", ")) <= set(said.split(", ")), (client, row, cells)


@pytest.mark.parametrize("names", [TOGETHER, *RUN], ids="+".join)
async def test_examples_write_the_whole_answer(names):
    answered = Running()
    async with serve_relay(demo_pace=0, observers=[answered]) as relay:
        codes = []
        for code in (block(name, PAGE) for name in names):
            assert 1 == code.count("localhost:8000")
            codes.append(code.replace("localhost:8000", f"127.0.0.1:{relay.port}"))
        if " from '" in codes[0]:
            (node, _), _ = command("node")
            start = [node, "--input-type=module", "--eval"]
        else:
            python = ELSEWHERE if names[0] in BY_HAND else None
            start = [python or command("families")[0][0], *("-X", "utf8", "-W", "ignore")]
            start += ["-c", IN_TURN]
        out = await run(*start, *codes, folder=HERE)
        # The demo answers the request as the client made it: so the answer is the relay's.
        answers = [(await relay.client.get(f"/v1/streams/{one}")).json() for one in answered.all]

    for answer, text in zip(answers, out.removesuffix("\0").split("\0"), strict=True):
        assert ("completed", text.removesuffix("\n")) == (answer["status"], answer["text"])
        assert len(text) > 100
    assert len(names) == len(answers)
