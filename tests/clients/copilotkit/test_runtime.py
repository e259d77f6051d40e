"""The example of CopilotKit's runtime over the relay: its runs are the relay's, at every server."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from app.testing.upstream import DONE, FINISH, Hold, Step, head, send, serve_upstream, text, wait
from tests.api.asking import serve_asked
from tests.clients.programs import run
from tests.needs import file, program

pytestmark = pytest.mark.proving

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
PACES: list[Step] = [
    head(),
    *(step for word in ("a", "b", "c", "d") for step in (send(text(word)), wait(0.1))),
    send(FINISH + DONE),
]


async def talk(folder: Path, relay: str, *, stops: bool) -> dict[str, Any]:
    how = "run npm ci --prefix tests/clients/copilotkit"
    modules = HERE / "node_modules"
    file(modules / "@copilotkit" / "runtime" / "package.json", how=how)
    shutil.copytree(ROOT / "examples" / "copilotkit", folder, dirs_exist_ok=True)
    shutil.copy(HERE / "runtime.mjs", folder)
    (folder / "node_modules").mkdir()
    for package in ("@ag-ui", "@copilotkit", "rxjs"):
        (folder / "node_modules" / package).symlink_to(modules / package)
    (folder / "node_modules" / "seseragi").symlink_to(ROOT / "static")
    command = (program("node"), folder / "runtime.mjs", json.dumps(["openai/m", stops]))
    found: dict[str, Any] = json.loads(
        await run(*command, RELAY_URL=relay, RELAY_KEY="ann", COPILOTKIT_TELEMETRY_DISABLED="true")
    )
    return found


async def test_page_reads_on_at_another_server_what_it_asked_at_one_that_is_gone(tmp_path):
    async with serve_upstream() as upstream, serve_asked(upstream) as asked:
        upstream.script = PACES
        found = await talk(tmp_path, asked.relay.url, stops=False)

        assert [["user", "hello"], ["assistant", "abcd"]] == found["joined"]
        assert [] == found["errors"]
        assert 1 == len(upstream.calls)


async def test_another_server_stops_the_run(tmp_path):
    async with serve_upstream() as upstream, serve_asked(upstream) as asked:
        upstream.script = [head(), send(text("a")), Hold()]
        found = await talk(tmp_path, asked.relay.url, stops=True)

        assert [["user", "hello"], ["assistant", "a"]] == found["joined"]
        await upstream.calls[0].closed.wait()
