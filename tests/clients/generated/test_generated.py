"""Clients that are made from `/openapi.json`: typed strictly, and used as docs/openapi.md says."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.clients.programs import run
from tests.needs import file, program
from tests.serving import Relay, serve_relay
from tests.test_docs import block

pytestmark = pytest.mark.proving

HERE = Path(__file__).parent
FAMILIES = HERE.parent / "families" / ".venv"
PAGE = "docs/openapi.md"
SHOWN = "http://127.0.0.1:8000"
STRICT = {
    "compilerOptions": {
        "strict": True,
        "noUncheckedIndexedAccess": True,
        "exactOptionalPropertyTypes": True,
        "target": "es2022",
        "module": "nodenext",
        "lib": ["es2022", "dom", "dom.asynciterable"],
        "types": [],
    },
    "files": ["use.ts"],
}


def use(name: str, relay: Relay) -> str:
    """Return a program of the page that asks this relay."""
    return block(name, PAGE).replace(SHOWN, relay.url)


async def test_typescript_client_is_strict_and_is_told_all(tmp_path):
    node = program("node")
    modules = HERE / "node_modules"
    how = "run npm ci --prefix tests/clients/generated"
    generate = file(modules / ".bin" / "openapi-typescript", how=how)
    (tmp_path / "node_modules").symlink_to(modules)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "tsconfig.json").write_text(json.dumps(STRICT))
    async with serve_relay(demo_pace=0) as relay:
        await run(generate, f"{relay.url}/openapi.json", "--output", "relay.ts", folder=tmp_path)
        (tmp_path / "use.ts").write_text(use("openapi-typescript", relay))
        await run(modules / ".bin" / "tsc", "-p", ".", folder=tmp_path)
        said = await run(node, "use.js", folder=tmp_path)

    assert_answered(said, "false")


async def test_python_client_is_strict_and_is_told_all(tmp_path):
    python = file(FAMILIES / "bin" / "python", how="run .ci/run")
    generator = file(FAMILIES / "generator" / "openapi_python_client", how="run .ci/run").parent
    words = re.search(r"printf '(.*)' > generate.yml\nopenapi-python-client (.*)", page_text())
    assert words is not None
    (tmp_path / "generate.yml").write_text(words[1].replace("\\n", "\n") + "post_hooks: []\n")
    async with serve_relay(demo_pace=0) as relay:
        generate = words[2].replace(SHOWN, relay.url).split()
        command = (python, "-m", "openapi_python_client", *generate, "--fail-on-warning")
        await run(*command, folder=tmp_path, PYTHONPATH=str(generator))
        (tmp_path / "use.py").write_text(use("openapi-python", relay))
        check = (sys.executable, "-m", "mypy", "--strict", "--python-executable", python)
        # The generator casts more than it needs; it does in its own examples.
        await run(*check, "--no-warn-redundant-casts", "use.py", "relay_client", folder=tmp_path)
        said = await run(python, "use.py", folder=tmp_path)
        types = await by_type(relay)

    assert_answered(said, "False")
    models = (tmp_path / "relay_client" / "models" / "__init__.py").read_text()
    assert [] == [name for name in types if f" import {name}\n" not in models]


def page_text() -> str:
    return (HERE.parents[2] / PAGE).read_text()


async def by_type(relay: Relay) -> list[str]:
    """Return the names of the schemas of all events."""
    document: Any = (await relay.client.get("/openapi.json")).json()
    mapping = document["components"]["schemas"]["Event"]["discriminator"]["mapping"]
    return [reference.rpartition("/")[2] for reference in mapping.values()]


def assert_answered(said: str, false: str) -> None:
    """Say whether there is a whole answer, a typed refusal, and the same answer by its events."""
    whole, _, rest = said.partition("\nmodel_not_found 404 ")
    refused, _, streamed = rest.partition("\n")
    assert false == refused
    assert whole.startswith("completed ")
    assert len(whole) > 30
    assert whole == streamed.rstrip("\n")
