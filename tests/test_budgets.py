"""The set-up of docs/budgets.md, run as it stands there."""

import asyncio
import re
import shlex
import sys
from asyncio.subprocess import PIPE, STDOUT
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.needs import program
from tests.serving import serve_relay

ROOT = Path(__file__).parent.parent
DOCUMENT = (ROOT / "docs" / "budgets.md").read_text(encoding="utf-8")

BLOCK = re.compile(
    r"<!-- budgets: (\w+) -->\n```(\w+)\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL
)
VARYING = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"), "TIME"),
    (re.compile(r"\bek_[\w.-]+"), "ek_SECRET"),
    (re.compile(r'"expires_at":\d+'), '"expires_at":TIME'),
)


class Block(NamedTuple):
    name: str
    kind: str
    code: str
    shown: str


BLOCKS = [Block(*found) for found in BLOCK.findall(DOCUMENT)]


def alike(text: str) -> str:
    for pattern, word in VARYING:
        text = pattern.sub(word, text.replace("\r", ""))
    return text


def session(block: Block) -> tuple[list[str], str]:
    """The commands of a block, and what it shows of each."""
    lines = block.code.splitlines()
    commands = [line[2:] for line in lines if line.startswith("$ ")]
    return commands, "".join(f"{line}\n" for line in lines if not line.startswith("$ "))


def test_every_block_is_of_a_kind_that_is_run():
    shows = {"toml": False, "console": False, "python": True}
    assert {block.name: shows[block.kind] for block in BLOCKS} == {
        block.name: bool(block.shown) for block in BLOCKS
    }


@pytest.mark.proving
async def test_budgets_of_a_small_company(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    program("curl")
    seseragi = f"PYTHONPATH={shlex.quote(str(ROOT))} {shlex.quote(sys.executable)} -m app"

    async def run(*command: str) -> str:
        process = await asyncio.create_subprocess_exec(
            *command, cwd=tmp_path, stdout=PIPE, stderr=STDOUT
        )
        out, _ = await asyncio.wait_for(process.communicate(), 120)
        said = out.decode()
        return said if said.endswith("\n") or not said else f"{said}\n"

    settings, keys, *rest = BLOCKS
    (tmp_path / "seseragi.toml").write_text(settings.code)
    commands, shown = session(keys)
    said = ""
    for command in commands:
        quiet = f"{command} 2>/dev/null".replace("seseragi ", f"{seseragi} ", 1)
        said += await run("sh", "-c", quiet)
    assert alike(shown) == alike(said)

    async with serve_relay(config="seseragi.toml", max_starts_per_minute_per_address=600) as relay:

        def here(code: str) -> str:
            return code.replace("localhost:8000", f"127.0.0.1:{relay.port}")

        for block in rest:
            if block.kind == "console":
                commands, shown = session(block)
                said = "".join([await run("sh", "-c", here(command)) for command in commands])
            else:
                shown, said = block.shown, await run(sys.executable, "-c", here(block.code))
            assert alike(shown) == alike(said), block.name
