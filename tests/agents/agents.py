"""How each agent is led to the relay: by the lines of docs/clients/agents.md, as they stand."""

import shlex
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.agents.programs import BINARIES, Done, run
from tests.needs import file
from tests.test_docs import block

PAGE = "docs/clients/agents.md"
SHOWN_URL, SHOWN_MODEL = "http://localhost:8000", "demo-tools"

PROMPT = "Write the word hello into the file hello.txt here."
FILE = "hello.txt"
CONTENT = "hello\n"


class Agent(NamedTuple):
    """One way to run an agent."""

    block: str
    """The page's block that ends with its command."""
    arguments: tuple[str, ...]
    """What makes it do the prompt, without questions, and end."""
    config: str | None = None
    """Where the file goes, in the home, that the block NAME_config holds."""
    instead: Mapping[str, str] = {}
    """What the page says may stand in place of other words of it."""
    environ: Mapping[str, str] = {}
    installed: bool = True
    """Whether tests/agents/package.json brings it; others are run where the path has them."""


_OPENCODE = Agent("opencode", ("run", PROMPT), ".config/opencode/opencode.json")
_PI = Agent("pi", ("-p", PROMPT), ".pi/agent/models.json")
_COPILOT = Agent("copilot", ("--allow-all", "-s", "-p", PROMPT), installed=False)

_CODEX_FLAGS = ("--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox")

ELSEWHERE = {
    "codex": "codex",
    "codex_config": f"""
model = "{SHOWN_MODEL}"
model_provider = "seseragi"

[model_providers.seseragi]
name = "Seseragi"
base_url = "{SHOWN_URL}/v1"
wire_api = "responses"
""",
}
"""What stands in the page of one agent alone."""

AGENTS = {
    "codex": Agent("codex", ("exec", *_CODEX_FLAGS, PROMPT), ".codex/config.toml"),
    "claude": Agent(
        "claude",
        ("-p", "--dangerously-skip-permissions", PROMPT),
        environ={"IS_SANDBOX": "1", "CLAUDE_CODE_MAX_RETRIES": "3"},
    ),
    "opencode": _OPENCODE,
    "opencode-responses": _OPENCODE._replace(
        instead={"@ai-sdk/openai-compatible": "@ai-sdk/openai"}
    ),
    "opencode-messages": _OPENCODE._replace(
        instead={"@ai-sdk/openai-compatible": "@ai-sdk/anthropic"}
    ),
    "qwen": Agent("qwen", ("--yolo", "-p", PROMPT)),
    "pi": _PI,
    "pi-responses": _PI._replace(instead={"openai-completions": "openai-responses"}),
    "pi-messages": _PI._replace(
        instead={"openai-completions": "anthropic-messages", f"{SHOWN_URL}/v1": SHOWN_URL}
    ),
    "copilot": _COPILOT,
    "copilot-responses": _COPILOT._replace(environ={"COPILOT_PROVIDER_WIRE_API": "responses"}),
    "copilot-messages": _COPILOT._replace(
        environ={"COPILOT_PROVIDER_TYPE": "anthropic"}, instead={f"{SHOWN_URL}/v1": SHOWN_URL}
    ),
    "cline": Agent("cline", (PROMPT,), installed=False),
    "cn": Agent("cn", ("--auto", "-p", PROMPT), ".continue/config.yaml", installed=False),
}
HERE = [name for name, agent in AGENTS.items() if agent.installed or shutil.which(agent.block)]
NOT_RUN = {"claude_routes", "vscode"}
BLOCKS = {
    name
    for agent in AGENTS.values()
    for name in (agent.block, agent.config and f"{agent.block}_config")
    if name and name not in ELSEWHERE
} | NOT_RUN


async def work(name: str, url: str, model: str, *, tmp_path: Path, timeout_s: float = 90) -> Done:
    """Run an agent on the prompt in the folder `work`."""
    agent = AGENTS[name]
    if agent.installed:
        file(BINARIES / agent.block, how="run npm ci --prefix tests/agents")
    home, folder = tmp_path / "home", tmp_path / "work"
    folder.mkdir()

    def shown(name: str) -> str:
        text = ELSEWHERE.get(name) or block(name, PAGE)
        for words, others in agent.instead.items():
            text = text.replace(words, others)
        return text.replace(SHOWN_URL, url).replace(SHOWN_MODEL, model)

    if agent.config is not None:
        path = home / agent.config
        path.parent.mkdir(parents=True)
        path.write_text(shown(f"{agent.block}_config"), encoding="utf-8")
    script = f"set -e\n{shown(agent.block).rstrip()} {shlex.join(agent.arguments)}"
    return await run(
        ["sh", "-c", script],
        home=home,
        folder=folder,
        environ=agent.environ,
        timeout_s=timeout_s,
    )


def write_file(folder: Path) -> Callable[[dict[str, Any]], tuple[str, dict[str, Any]] | None]:
    """Pick the call that writes the file, by the tools and arguments that an agent offers."""
    path = str(folder / FILE)
    command = f"printf 'hello\\n' > {path}"
    files = ("Write", "write", "write_file", "create")
    shells = ("exec_command", "shell_command", "shell", "run_commands", "Bash", "bash")

    def pick(offered: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
        for name in (*files, *shells):
            if name not in offered:
                continue
            fields = offered[name]["properties"]
            arguments: dict[str, Any] = {}
            for field in offered[name].get("required", fields):
                lists = fields[field].get("type") == "array"
                match field.lower():
                    case "file_path" | "filepath" | "path":
                        arguments[field] = path
                    case "content" | "file_text":
                        arguments[field] = CONTENT
                    case "cmd" | "command":
                        arguments[field] = ["sh", "-c", command] if lists else command
                    case "commands":
                        arguments[field] = [command]
                    case _:
                        arguments[field] = "x"
            return name, arguments
        return None

    return pick
