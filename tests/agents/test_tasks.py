"""Coding agents do a small task through the relay, whatever their upstream speaks."""

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from app.testing.upstream import Upstream, serve_upstream
from tests.agents.agents import CONTENT, FILE, HERE, SHOWN_MODEL, work, write_file
from tests.agents.programs import Done
from tests.agents.scripted import ANSWER, CUT_AFTER, DIALECTS, Picker, Task, call_id
from tests.agents.test_codex import CODEX_DIALECTS as OF_CODEX
from tests.agents.watched import Watch
from tests.sdk.conversations import PNG
from tests.serving import Relay, serve_relay

pytestmark = pytest.mark.proving

MODEL = "work"
CUT_ONCE = ("claude", "codex", "qwen")
LONGER = ("openai_chat", "anthropic", "gemini", "openai_responses")
"""The dialects in which Claude Code does the task after others."""
MATRIX = [
    *(("pi", dialect) for dialect in DIALECTS),
    *(("claude", dialect) for dialect in DIALECTS if dialect not in LONGER),
    *(("codex", dialect) for dialect in DIALECTS if dialect not in OF_CODEX),  # see test_codex.py
    # opencode speaks Chat Completions to the demo.
    *((agent, "openai_chat") for agent in HERE if agent not in (*CUT_ONCE, "opencode", "pi")),
]
PAPER = (
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj "
    b"2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj "
    b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 3 3]>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n"
)


class Stage(NamedTuple):
    relay: Relay
    upstream: Upstream
    task: Task
    watch: Watch


@contextlib.asynccontextmanager
async def stage(
    dialect: str, tmp_path: Path, *, calls: Sequence[Picker] = (), cuts: int = 0
) -> AsyncIterator[Stage]:
    """Run the relay with one route to a scripted upstream of a dialect, under its preset."""
    async with serve_upstream() as upstream:
        task = Task(dialect, calls or [write_file(tmp_path / "work")], cuts=cuts)
        upstream.choose = task.choose
        config = tmp_path / "seseragi.toml"
        config.write_text(
            f"[upstream.up]\n"
            f'preset = "{DIALECTS[dialect].preset}"\n'
            f'base_url = "{upstream.base_url}"\n'
            f'auth = "none"\n'
            f"[[route]]\n"
            f'name = "{MODEL}"\n'
            f'targets = ["up/m"]\n',
            encoding="utf-8",
        )
        watch = Watch()
        environ = {"SESERAGI_CONFIG": str(config)}
        async with serve_relay(environ=environ, watch=watch) as relay:
            yield Stage(relay, upstream, task, watch)


@pytest.mark.parametrize(("agent", "dialect"), MATRIX)
async def test_agent_writes_a_file_and_says_so(agent, dialect, tmp_path):
    async with stage(dialect, tmp_path) as on:
        done = await work(agent, on.relay.url, MODEL, tmp_path=tmp_path)

    assert [] == on.watch.refused
    assert (0, 1) == (done.status, on.task.asked), done
    if dialect == "openai_chat":
        assert [call_id(0)] == on.task.results  # it goes back as it came
    check_written(tmp_path, done)
    # A title or a summary may be asked for beside the two.
    assert 2 <= len(on.upstream.calls) <= 4


def check_written(tmp_path: Path, done: Done) -> None:
    """The file is there, and the agent says so."""
    assert CONTENT.strip() == (tmp_path / "work" / FILE).read_text(encoding="utf-8").strip()
    assert ANSWER in done.output


@pytest.mark.parametrize("agent", CUT_ONCE)
async def test_agent_asks_again_where_an_answer_was_cut(agent, tmp_path):
    async with stage("openai_chat", tmp_path, cuts=1) as on:
        done = await work(agent, on.relay.url, MODEL, tmp_path=tmp_path)

    assert [] == on.watch.refused
    assert (0, 1, 2) == (done.status, on.task.asked, on.task.told), done
    assert {call_id(0)} == {*on.task.results}
    check_written(tmp_path, done)


@pytest.mark.parametrize("agent", ["claude", "pi", "pi-messages"])
async def test_agent_fails_where_every_answer_is_cut(agent, tmp_path):
    async with stage("openai_chat", tmp_path, cuts=99) as on:
        done = await work(agent, on.relay.url, MODEL, tmp_path=tmp_path)

    assert done.status != 0, done
    assert done.output.replace(CUT_AFTER, "").strip() or done.complaints
    # It gave up: no agent asks for ever.
    assert on.task.told <= 10


async def test_agents_get_along_with_the_demo(tmp_path):
    agents = ["claude", "codex", "opencode", "pi", "pi-responses", "qwen"]
    watches = {agent: Watch() for agent in agents}

    async def run(agent: str) -> Done:
        folder = tmp_path / agent
        folder.mkdir()
        async with serve_relay(watch=watches[agent]) as relay:
            return await work(agent, relay.url, SHOWN_MODEL, tmp_path=folder)

    # Together, since the demo takes its time.
    ends = await asyncio.gather(*map(run, agents))

    for agent, done in zip(agents, ends, strict=True):
        assert (0, []) == (done.status, watches[agent].refused), (agent, done)
        assert done.output.strip(), (agent, done)
        # A call, its results, an answer, perhaps a title: it does not call for ever.
        assert 2 <= len(watches[agent].exchanges) <= 5, agent


@pytest.mark.parametrize("dialect", LONGER)
@pytest.mark.sends_refused  # it names a role of the next version of its API
async def test_claude_goes_on_after_pictures_documents_and_a_search_for_tools(dialect, tmp_path):
    (tmp_path / "picture.png").write_bytes(base64.b64decode(PNG))
    (tmp_path / "paper.pdf").write_bytes(PAPER)
    calls = [
        claude_calls("Read", file_path=str(tmp_path / "picture.png")),
        claude_calls("ToolSearch", query="select:WebFetch", max_results=5),
        claude_calls("Read", file_path=str(tmp_path / "paper.pdf")),
        write_file(tmp_path / "work"),
    ]
    async with stage(dialect, tmp_path, calls=calls) as on:
        done = await work("claude", on.relay.url, MODEL, tmp_path=tmp_path)

    assert [] == on.watch.refused
    assert (0, len(calls), 1) == (done.status, on.task.asked, on.task.told), done
    check_written(tmp_path, done)


def claude_calls(name: str, **arguments: Any) -> Picker:
    return lambda offered: (name, arguments) if name in offered else None
