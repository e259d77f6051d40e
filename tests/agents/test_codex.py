"""OpenAI's Codex CLI does a small task over upstreams of every kind: a command, a patch, a resume."""

import json
import re
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from app.testing.upstream import Call, Step, Upstream, head, send, serve_upstream
from tests.agents.programs import run
from tests.agents.scripted import DIALECTS, call_id, responses
from tests.needs import file
from tests.serving import serve_relay

pytestmark = pytest.mark.proving

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).parent / "node_modules" / ".bin" / "codex"

PATCH = "*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+“two” \\ \t🐟\n*** End Patch\n"
COMMAND = "printf 'one\\n' > a.txt"


class Said(NamedTuple):
    """What the model says: a text, or a call of a tool in the words of Codex."""

    text: str = ""
    tool: str = ""
    space: str = ""
    given: Any = None


SCRIPT = [
    Said(tool="exec_command", given={"cmd": COMMAND}),
    Said(tool="apply_patch", given=PATCH),
    Said("The file is changed."),
    Said("Nothing is left to do."),
]


def function(said: Said) -> tuple[str, Any]:
    """Return a call as one of a function: its name, and its arguments."""
    name = f"{said.space}__{said.tool}" if said.space else said.tool
    return name, {"input": said.given} if isinstance(said.given, str) else said.given


def own_item(said: Said, number: int) -> dict[str, Any]:
    """Return a call as OpenAI's Responses have it, in Codex's own kinds of tools."""
    if said.tool == "compaction":
        return {"type": "compaction", "id": f"up_{number}", "encrypted_content": said.given}
    call: dict[str, Any] = {"id": f"up_{number}", "call_id": call_id(number), "status": "completed"}
    if said.tool == "tool_search":
        return {"type": "tool_search_call", "execution": "client", "arguments": said.given, **call}
    call["name"] = said.tool
    if isinstance(said.given, str):
        return {"type": "custom_tool_call", "input": said.given, **call}
    space = {"namespace": said.space} if said.space else {}
    return {"type": "function_call", "arguments": json.dumps(said.given), **call, **space}


def speak(dialect: str, said: Said, number: int) -> bytes:
    """Return what a model of a dialect says."""
    if said.text:
        return b"".join(DIALECTS[dialect].say(said.text))
    if dialect == "openai_responses":
        item = own_item(said, number)
        return b"".join(responses(item, done=item))
    return DIALECTS[dialect].ask(call_id(number), *function(said))


CODEX_DIALECTS = ("openai_chat", "anthropic", "gemini", "openai_responses")


def play(upstream: Upstream, dialect: str, script: list[Said]) -> None:
    """Have the upstream say one thing after the other."""

    def choose(call: Call) -> Sequence[Step]:
        number = len(upstream.calls) - 1
        said = script[number] if number < len(script) else Said("Again?")
        return [head(), send(speak(dialect, said, number))]

    upstream.choose = choose


async def codex(
    folder: Path,
    port: int,
    *arguments: str,
    config: Sequence[str] = (),
    provider: str = "config",
) -> str:
    """Run Codex in a folder with a configuration of docs/clients/codex.md; give its answer."""
    home, work = folder / "home", folder / "work"
    home.mkdir(exist_ok=True)
    work.mkdir(exist_ok=True)
    document = (ROOT / "docs" / "clients" / "codex.md").read_text()
    block = rf"^<!-- run: {provider} -->\n```toml\n(.+?)^```$"
    (lines,) = re.findall(block, document, re.DOTALL | re.MULTILINE)
    assert "localhost:8000" in lines
    (home / "config.toml").write_text(lines.replace("localhost:8000", f"127.0.0.1:{port}"))
    unasked = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
    done = await run(
        [
            str(file(PROGRAM, how="run npm ci --prefix tests/agents")),
            *("exec", *(word for line in config for word in ("-c", line)), "-m", "gpt-5.5"),
            *(*unasked, *arguments),
        ],
        home=home,
        folder=work,
        environ={"CODEX_HOME": str(home), "CODEX_API_KEY": "any"},
    )
    assert done.status == 0, done.complaints
    return done.output.strip()


def configure(folder: Path, upstream: Upstream, dialect: str) -> dict[str, str]:
    base_url = upstream.base_url.removesuffix("/v1")
    config = folder / "seseragi.toml"
    config.write_text(
        f'[upstream.u]\nbase_url = "{base_url}"\ndialect = "{dialect}"\n'
        '[[route]]\nname = "gpt-5.5"\ntargets = ["u/m"]\n'
    )
    return {"SESERAGI_CONFIG": str(config)}


@pytest.mark.parametrize(
    ("dialect", "provider"),
    [*((dialect, "config") for dialect in CODEX_DIALECTS), ("openai_responses", "built-in")],
)
async def test_a_command_a_patch_and_a_resume(dialect: str, provider: str, tmp_path: Path) -> None:
    file(PROGRAM, how="run npm ci --prefix tests/agents")
    async with serve_upstream() as upstream:
        play(upstream, dialect, SCRIPT)
        async with serve_relay(environ=configure(tmp_path, upstream, dialect)) as relay:
            run_codex = partial(codex, tmp_path, relay.port, provider=provider)
            answer = await run_codex("change the file")

            assert SCRIPT[2].text == answer
            assert "“two” \\ \t🐟\n" == (tmp_path / "work" / "a.txt").read_text()
            assert 3 == len(upstream.calls)

            answer = await run_codex("resume", "--last", "and then?")

            assert SCRIPT[3].text == answer
            assert 4 == len(upstream.calls)


@pytest.mark.parametrize(
    ("dialect", "summary", "going_on"),
    [
        ("anthropic", Said("One is written."), b"work that is done.\\n\\nOne is written."),
        ("openai_responses", Said("One is written."), b"work that is done.\\n\\nOne is written."),
        ("openai_responses", Said(tool="compaction", given="E"), b'"encrypted_content":"E"'),
    ],
)
async def test_a_compaction_in_the_middle_of_a_turn(
    dialect: str, summary: Said, going_on: bytes, tmp_path: Path
) -> None:
    """Codex leaves it to the server where the provider is called OpenAI, as its own one is."""
    file(PROGRAM, how="run npm ci --prefix tests/agents")
    config = ['model_providers.seseragi.name="OpenAI"', "model_auto_compact_token_limit=1"]
    async with serve_upstream() as upstream:
        play(upstream, dialect, [SCRIPT[0], summary, SCRIPT[2]])
        environ = configure(tmp_path, upstream, dialect)
        if summary.tool:
            toml = Path(environ["SESERAGI_CONFIG"])
            toml.write_text(f"{toml.read_text()}[upstream.u.quirks]\ncompaction = true\n")
        async with serve_relay(environ=environ) as relay:
            answer = await codex(tmp_path, relay.port, "change the file", config=config)

        assert SCRIPT[2].text == answer
        asked, last = upstream.calls[1].body, upstream.calls[2].body
        assert (b"compaction_trigger" if summary.tool else b"Do not call any tools.") in asked
        assert (3, True) == (len(upstream.calls), going_on in last)
        assert COMMAND.encode() not in last


WEATHER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    found = {}
    if asked["method"] == "initialize":
        version = asked["params"]["protocolVersion"]
        found = {"protocolVersion": version, "capabilities": {"tools": {}}}
        found["serverInfo"] = {"name": "w", "version": "1"}
    elif asked["method"] == "tools/list":
        schema = {"type": "object", "properties": {"city": {"type": "string"}}}
        tool = {"name": "get_weather", "description": "Weather", "inputSchema": schema}
        found = {"tools": [tool]}
    elif asked["method"] == "tools/call":
        text = "sunny in " + asked["params"]["arguments"]["city"]
        found = {"content": [{"type": "text", "text": text}]}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": found}), flush=True)
"""


@pytest.mark.parametrize("dialect", CODEX_DIALECTS)
async def test_a_tool_in_a_namespace_that_was_searched_for(dialect: str, tmp_path: Path) -> None:
    file(PROGRAM, how="run npm ci --prefix tests/agents")
    server = tmp_path / "weather.py"
    server.write_text(WEATHER)
    script = [
        Said(tool="tool_search", given={"query": "weather"}),
        Said(tool="get_weather", space="mcp__w", given={"city": "Rome"}),
        Said("It is sunny."),
    ]
    config = [f'mcp_servers.w.command="{sys.executable}"', f'mcp_servers.w.args=["{server}"]']
    async with serve_upstream() as upstream:
        play(upstream, dialect, script)
        async with serve_relay(environ=configure(tmp_path, upstream, dialect)) as relay:
            answer = await codex(tmp_path, relay.port, "how is it in Rome?", config=config)

        assert "It is sunny." == answer
        assert 3 == len(upstream.calls)
        assert b"sunny in Rome" in upstream.calls[2].body
        if dialect != "openai_responses":
            assert b"mcp__w__get_weather" in upstream.calls[1].body
