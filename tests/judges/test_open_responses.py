"""The compliance suite of Open Responses against a real relay on the demo models."""

import asyncio
import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.judges.folder import MODULES, ROOT, judge, package
from tests.needs import program
from tests.serving import serve_relay

pytestmark = pytest.mark.proving

LEFT_OUT = [
    # The relay speaks HTTP and no WebSocket.
    "websocket-response",
    "websocket-sequential-responses",
    "websocket-continuation",
    "websocket-reconnect-store-false-recovery",
    "websocket-previous-response-not-found",
    "websocket-failed-continuation-evicts-cache",
    "websocket-compact-new-chain",
]


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Return Node.js and the bundled suite; esbuild and Zod 3 are packages of the tests."""
    node = program("node")
    source = judge("open_responses/src/lib/compliance-tests.ts")
    for name in ("esbuild", "zod3"):
        package(name)
    bundle = tmp_path_factory.mktemp("open_responses") / "suite.mjs"
    command = [
        str(MODULES / ".bin" / "esbuild"),
        str(Path(__file__).with_name("open_responses.mjs")),
        "--bundle",
        "--format=esm",
        "--platform=node",
        "--log-level=warning",
        f"--alias:suite={source}",
        "--alias:zod=zod3",
        f"--outfile={bundle}",
    ]
    environ = {**os.environ, "NODE_PATH": str(MODULES)}
    subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, check=True)
    return node, str(bundle)


@pytest.mark.parametrize(
    ("model", "left_out"), [("demo-tools", "compact-response"), ("demo", "tool-calling")]
)
async def test_every_http_test_of_the_suite_passes(suite, model: str, left_out: str):
    """The one model calls tools whatever is asked of it, the other never."""
    node, bundle = suite
    async with serve_relay() as relay:
        process = await asyncio.create_subprocess_exec(
            node,
            bundle,
            f"{relay.url}/v1",
            model,
            ",".join([*LEFT_OUT, left_out]),
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await asyncio.wait_for(process.communicate(), 60)

    assert 0 == process.returncode
    results = json.loads(out)
    assert [] == [result for result in results if result["status"] != "passed"]
    assert 9 <= len(results)
