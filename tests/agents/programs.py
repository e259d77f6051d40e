"""Coding agents from npm: where they are, and how one is run with a home of its own.

`npm ci --prefix tests/agents` installs them, with the Node.js that some of them want.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

BINARIES = Path(__file__).parent / "node_modules" / ".bin"

QUIET: Mapping[str, str] = {
    "CI": "1",
    "NO_COLOR": "1",
    "TERM": "dumb",
    "DO_NOT_TRACK": "1",
    # Claude Code: no updates, telemetry, error reports or surveys.
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    # opencode: no updates, no list of models from models.dev, no language servers.
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    # pi: no updates, no reports.
    "PI_OFFLINE": "1",
    "PI_TELEMETRY": "0",
}
"""What keeps agents from speaking to anybody but the relay, as far as variables do.

What stays is refused: there is a proxy on a port where nobody listens.
"""

NOWHERE = "http://127.0.0.1:9"


class Done(NamedTuple):
    """How a program ended."""

    status: int
    output: str
    complaints: str


async def run(
    command: Sequence[str],
    *,
    home: Path,
    folder: Path,
    environ: Mapping[str, str],
    timeout_s: float = 60,
) -> Done:
    """Run an agent in a folder, and end it with all that it started."""
    home.mkdir(parents=True, exist_ok=True)
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env={
            "HOME": str(home),
            "PATH": f"{BINARIES}:{os.environ['PATH']}",
            "HTTPS_PROXY": NOWHERE,
            "NO_PROXY": "127.0.0.1,localhost",
            **QUIET,
            **environ,
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        out, complaints = await asyncio.wait_for(process.communicate(), timeout_s)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode is not None
    return Done(process.returncode, out.decode(), complaints.decode())
