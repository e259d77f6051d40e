"""Blocks of guides for a shell, and settings that they show: each is run as it stands."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.ports import free_port
from tests.test_docs import block

ROOT = Path(__file__).parent.parent
Shell = Callable[[str], str]


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """Run a block in an empty folder, with the command on the path and a port of its own."""
    programs, port = tmp_path / "bin", free_port()
    programs.mkdir()
    for name, words in (("seseragi", f"exec {sys.executable} -m app"), ("pip", "exit 0 #")):
        (programs / name).write_text(f'#!/bin/sh\n{words} "$@"\n')
        (programs / name).chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    environ = {**kept, "PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}

    def run(code: str) -> str:
        # What it starts in the background ends with it.
        ended = f"trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT\n{code}"
        done = subprocess.run(
            [
                "bash",
                "-euo",
                "pipefail",
                "-c",
                ended.replace("localhost:8000", f"127.0.0.1:{port}"),
            ],
            **{"cwd": tmp_path, "env": {**environ, "SESERAGI_PORT": str(port)}, "text": True},
            **{"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "timeout": 60},
        )
        assert 0 == done.returncode, done.stdout
        return str(done.stdout)

    return run


@pytest.mark.proving  # it starts a relay and waits for its rows
def test_records_are_reported_as_their_guide_says(shell):
    assert shutil.which("curl")
    out = shell(block("records", "docs/records.md"))

    assert re.search(r"^total +1 +0 ", out, re.MULTILINE), out
