"""The process that fuzzes keeps what it finds, and ends."""

import importlib.util
import subprocess
import sys

import pytest

from tests import needs

PLANTED = """
import sys
from pathlib import Path
from tests.fuzz import process, targets
from tests.fuzz.target import Target

def check(data):
    assert data != b"found"

targets.load = lambda name: Target(check, seeds=(sys.argv[2].encode(),), tokens=(b"b",))
process.main("planted", 1, int(sys.argv[3]), Path(sys.argv[1]))
"""


@pytest.mark.parametrize(
    ("example", "seed", "status", "kept"),
    [("found", 1, 77, 1), ("a", 1, 0, 0), ("a", 1 << 64, 1, 0)],
)
def test_a_finding_is_kept_and_a_refused_start_ends(tmp_path, example, seed, status, kept) -> None:
    if importlib.util.find_spec("atheris") is None:
        needs.missing("no atheris; pip install -r requirements-dev.lock")
    command = [sys.executable, "-c", PLANTED, str(tmp_path), example, str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (status, kept) == (done.returncode, len([*tmp_path.glob("crash-*")])), done.stderr
