"""The example of a TanStack AI server over the relay: its resumable streams are the relay's."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from app.testing.upstream import DONE, FINISH, Step, head, send, serve_upstream, text, wait
from tests.api.asking import serve_asked
from tests.clients.programs import run
from tests.needs import file, program

pytestmark = pytest.mark.proving

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
SLOW: list[Step] = [
    head(),
    *(step for word in ("a", "b", "c", "d") for step in (send(text(word)), wait(0.05))),
    send(FINISH + DONE),
]


async def talk(folder: Path, relay: str, **props: Any) -> dict[str, Any]:
    how = "run npm ci --prefix tests/clients/families"
    packages = file(HERE / "node_modules" / "@tanstack" / "ai" / "package.json", how=how).parents[1]
    shutil.copytree(ROOT / "examples" / "tanstack", folder, dirs_exist_ok=True)
    shutil.copy(HERE / "tanstack_route.mjs", folder)
    (folder / "node_modules").mkdir()
    (folder / "node_modules" / "@tanstack").symlink_to(packages)
    (folder / "node_modules" / "seseragi").symlink_to(ROOT / "static")
    command = (program("node"), folder / "tanstack_route.mjs", json.dumps(props))
    found: dict[str, Any] = json.loads(await run(*command, RELAY_URL=relay, RELAY_KEY="ann"))
    assert [] == found["complaints"]
    return found


async def test_client_of_a_server_in_between_resumes_and_joins_the_relays_stream(tmp_path):
    async with serve_upstream() as upstream, serve_asked(upstream) as asked:
        upstream.script = SLOW
        found = await talk(tmp_path, asked.relay.url, model="openai/m")

        *_, answer = found["messages"]
        texts = [one["content"] for one in answer["parts"] if one["type"] == "text"]
        assert (["abcd"], "abcd", "RUN_FINISHED") == (texts, found["joined"], found["last"])
        assert ([], 3) == (found["errors"], found["requests"])  # asked, read on, joined
        assert 1 == len(upstream.calls)


async def test_refused_run_has_the_relays_status(tmp_path):
    async with serve_upstream() as upstream, serve_asked(upstream) as asked:
        upstream.script = SLOW
        found = await talk(tmp_path, asked.relay.url, temperature=9)

        assert ["HTTP error! status: 400 "] == found["errors"]
        assert 1 == found["requests"]
