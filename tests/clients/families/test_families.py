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

FAMILIES = {
    "openai 3, Chat Completions": ("ours", "openai-chat"),
    "openai 3, `chat.completions.stream`": ("ours", "openai-chat-helper"),
    "openai 3, Responses": ("ours", "openai-responses"),
    "openai 3, `responses.stream`": ("ours", "openai-responses-helper"),
    "openai 2, Chat Completions": ("families", "openai-chat"),
    "openai 2, Responses": ("families", "openai-responses"),
    "openai 1, Chat Completions": ("older", "openai-chat"),
    "openai 1, Responses": ("older", "openai-responses"),
    "openai 1, `responses.stream`": ("older", "openai-responses-helper"),
    "anthropic 2": ("ours", "anthropic"),
    "anthropic 2, `messages.stream`": ("ours", "anthropic-helper"),
    "LangChain 1, Chat Completions": ("families", "langchain-chat"),
    "LangChain 1, Responses": ("families", "langchain-responses"),
    "LlamaIndex 0.14, `OpenAILike`": ("families", "llama-index-chat"),
    "LlamaIndex 0.14, `OpenAIResponses`": ("families", "llama-index-responses"),
    "pydantic-ai 2, Chat Completions": ("families", "pydantic-ai-chat"),
    "pydantic-ai 2, Responses": ("families", "pydantic-ai-responses"),
    "openai for Node.js 7, Chat Completions": ("node", "openai-node-chat"),
    "openai for Node.js 7, `chat.completions.stream`": ("node", "openai-node-chat-helper"),
    "openai for Node.js 7, Responses": ("node", "openai-node-responses"),
    "openai for Node.js 7, `responses.stream`": ("node", "openai-node-responses-helper"),
    "Anthropic's for Node.js 1": ("node", "anthropic-node"),
    "LangChain.js 1, Chat Completions": ("node", "langchain-js-chat"),
    "LangChain.js 1, Responses": ("node", "langchain-js-responses"),
    "AI SDK 5, OpenAI (Responses)": ("node", "ai-5-responses"),
    "AI SDK 5, OpenAI `.chat`": ("node", "ai-5-chat"),
    "AI SDK 5, Anthropic": ("node", "ai-5-anthropic"),
    "AI SDK 5, `useChat`": ("node", "ai-5-ui"),
    "AI SDK 6, OpenAI (Responses)": ("node", "ai-6-responses"),
    "AI SDK 6, OpenAI `.chat`": ("node", "ai-6-chat"),
    "AI SDK 6, Anthropic": ("node", "ai-6-anthropic"),
    "AI SDK 6, `useChat`": ("node", "ai-6-ui"),
    "AI SDK 7, OpenAI (Responses)": ("node", "ai-7-responses"),
    "AI SDK 7, OpenAI `.chat`": ("node", "ai-7-chat"),
    "AI SDK 7, Anthropic": ("node", "ai-7-anthropic"),
    "AI SDK 7, `useChat`": ("node", "ai-7-ui"),
    "AG-UI 1, `HttpAgent`": ("node", "ag-ui"),
    "`seseragi.js`": ("node", "seseragi"),
}
"""The names of the rows: the environment, and the client of its program."""

BY_HAND = {"agents", "agno", "haystack", "litellm", "semantic-kernel"}
"""The examples of clients that are too large to install for every run of the tests."""

SNIPPETS = [
    *("langchain", "llamaindex", "pydantic-ai", "langchain-js", "ai-sdk"),
    *sorted(BY_HAND),
]


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
    """Return the table of what clients show, by their names."""
    _, _, table = (ROOT / PAGE).read_text(encoding="utf-8").partition("\n| client |")
    lines = table.partition("\n\n")[0].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert [*COLUMNS] == cells[0]
    return {name: rest for name, *rest in cells[2:]}


@pytest.mark.parametrize("environment", ["ours", "families", "older", "node"])
async def test_clients_show_what_was_not_completed(environment):
    """All of an environment at once: what they import takes longer than what they ask."""
    start, environ = command(environment)
    named = {name: client for name, (where, client) in FAMILIES.items() if where == environment}
    shown = dict(zip(named, await probe(start, [*named.values()], environ), strict=True))
    table = rows()

    # Where a client has two ways to say it, which of them comes first is a race within the client.
    for name, cells in shown.items():
        for said, cell in zip(table[name], cells, strict=True):
            assert set(cell.split(", ")) <= set(said.split(", ")), (name, table[name], cells)


@pytest.mark.parametrize("name", SNIPPETS)
async def test_example_writes_the_whole_answer(name):
    answered = Running()
    async with serve_relay(demo_pace=0, observers=[answered]) as relay:
        code = block(name, PAGE)
        assert 1 == code.count("localhost:8000")
        code = code.replace("localhost:8000", f"127.0.0.1:{relay.port}")
        if " from '" in code:
            (node, _), _ = command("node")
            start = [node, "--input-type=module", "--eval", code]
        else:
            python = os.environ.get("FAMILIES_PYTHON") if name in BY_HAND else None
            if name in BY_HAND and python is None:
                pytest.skip("FAMILIES_PYTHON names no environment that has this client")
            start = [python or command("families")[0][0], "-X", "utf8", "-W", "ignore", "-c", code]
        out = await run(*start, folder=HERE)
        # The demo answers the request as the client made it: so the answer is the relay's.
        (stream,) = answered.all
        answer = (await relay.client.get(f"/v1/streams/{stream}")).json()

    assert ("completed", out.removesuffix("\n")) == (answer["status"], answer["text"])
    assert len(answer["text"]) > 100
