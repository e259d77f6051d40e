"""OpenAI's Codex CLI does a small task over upstreams of every kind: a command, a patch, a resume."""

import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from app.testing.upstream import Call, Step, Upstream, head, send, serve_upstream
from tests.agents.programs import run
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


def frame(data: dict[str, Any]) -> str:
    name = f"event: {data['type']}\n" if "type" in data else ""
    return f"{name}data: {json.dumps(data)}\n\n"


def frames(*all: dict[str, Any]) -> str:
    return "".join(map(frame, all))


def function(said: Said) -> tuple[str, str]:
    """Return a call as one of a function: its name, and its arguments as a model writes them."""
    name = f"{said.space}__{said.tool}" if said.space else said.tool
    given = {"input": said.given} if isinstance(said.given, str) else said.given
    return name, json.dumps(given)


def pieces(text: str) -> list[str]:
    return [text[at : at + 7] for at in range(0, len(text), 7)]


def openai_chat(said: Said, number: int) -> str:
    def chunk(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
        return {"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

    if said.text:
        return frames(chunk({"content": said.text}), chunk({}, "stop")) + "data: [DONE]\n\n"
    name, arguments = function(said)
    begun = {"index": 0, "id": f"call_x{number}", "function": {"name": name, "arguments": ""}}
    told = [{"index": 0, "function": {"arguments": piece}} for piece in pieces(arguments)]
    calls = [chunk({"tool_calls": [call]}) for call in (begun, *told)]
    return frames(*calls, chunk({}, "tool_calls")) + "data: [DONE]\n\n"


def anthropic(said: Said, number: int) -> str:
    block: dict[str, Any] = {"type": "text", "text": ""}
    deltas: list[dict[str, Any]] = [{"type": "text_delta", "text": said.text}]
    if said.tool:
        name, arguments = function(said)
        block = {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": {}}
        deltas = [
            {"type": "input_json_delta", "partial_json": piece} for piece in pieces(arguments)
        ]
    return frames(
        {"type": "message_start", "message": {"id": "m", "model": "m", "usage": {}}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use" if said.tool else "end_turn"},
            "usage": {"output_tokens": 1},
        },
        {"type": "message_stop"},
    )


def gemini(said: Said, number: int) -> str:
    part: dict[str, Any] = {"text": said.text}
    if said.tool:
        name, arguments = function(said)
        part = {"functionCall": {"name": name, "args": json.loads(arguments)}}
    content = {"role": "model", "parts": [part]}
    return frames({"candidates": [{"content": content, "finishReason": "STOP"}]})


def openai_responses(said: Said, number: int) -> str:
    call: dict[str, Any] = {"call_id": f"call_{number}", "name": said.tool, "status": "completed"}
    if said.text:
        text = {"type": "output_text", "text": said.text, "annotations": []}
        item = {"type": "message", "role": "assistant", "status": "completed", "content": [text]}
    elif said.tool == "tool_search":
        item = {"type": "tool_search_call", "execution": "client", "arguments": said.given}
        item |= {"call_id": call["call_id"], "status": "completed"}
    elif isinstance(said.given, str):
        item = {"type": "custom_tool_call", "input": said.given, **call}
    else:
        item = {"type": "function_call", "arguments": json.dumps(said.given), **call}
        item |= {"namespace": said.space} if said.space else {}
    item["id"] = f"up_{number}"
    response = {"id": "r", "status": "completed", "output": [item], "model": "m"}
    return frames(
        {"type": "response.created", "response": {**response, "output": []}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": response},
    )


DIALECTS: dict[str, Callable[[Said, int], str]] = {
    "openai_chat": openai_chat,
    "anthropic": anthropic,
    "gemini": gemini,
    "openai_responses": openai_responses,
}


def play(upstream: Upstream, dialect: str, script: list[Said]) -> None:
    """Have the upstream say one thing after the other."""

    def choose(call: Call) -> Sequence[Step]:
        number = len(upstream.calls) - 1
        said = script[number] if number < len(script) else Said("Again?")
        return [head(), send(DIALECTS[dialect](said, number))]

    upstream.choose = choose


async def codex(folder: Path, port: int, *arguments: str, config: Sequence[str] = ()) -> str:
    """Run Codex in a folder with the configuration of docs/clients/codex.md; give its answer."""
    home, work = folder / "home", folder / "work"
    home.mkdir(exist_ok=True)
    work.mkdir(exist_ok=True)
    document = (ROOT / "docs" / "clients" / "codex.md").read_text()
    (lines,) = re.findall(r"^```toml\n(.+?)^```$", document, re.DOTALL | re.MULTILINE)
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
        environ={"CODEX_HOME": str(home)},
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


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_command_a_patch_and_a_resume(dialect: str, tmp_path: Path) -> None:
    file(PROGRAM, how="run npm ci --prefix tests/agents")
    async with serve_upstream() as upstream:
        play(upstream, dialect, SCRIPT)
        async with serve_relay(environ=configure(tmp_path, upstream, dialect)) as relay:
            answer = await codex(tmp_path, relay.port, "change the file")

            assert SCRIPT[2].text == answer
            assert "“two” \\ \t🐟\n" == (tmp_path / "work" / "a.txt").read_text()
            assert 3 == len(upstream.calls)

            answer = await codex(tmp_path, relay.port, "resume", "--last", "and then?")

            assert SCRIPT[3].text == answer
            assert 4 == len(upstream.calls)


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


@pytest.mark.parametrize("dialect", DIALECTS)
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
