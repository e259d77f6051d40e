"""A test that fails once more, alone, is red; one that passes then is printed with both outputs.

One that has passed is not run in another place.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.proving  # it starts pytest ten times

ROOT = Path(__file__).parent.parent

NO_PLUGINS = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
"""Those that are installed take pytest longer to import than these tests take."""
WORKER = ("-p", "xdist", "-n", "1")

ONCE = """
from pathlib import Path

def test_once():
    first = not Path("ran").exists()
    Path("ran").touch()
    print("words of the first time" if first else "words of the second")
    assert not first
"""


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": "", **NO_PLUGINS},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_what_fails_is_run_once_more_and_what_passes_is_left_out(tmp_path: Path):
    more = "import pytest\ndef test_good(): pass\ndef test_left(): pytest.skip()\n"
    (tmp_path / "test_once.py").write_text(more + ONCE)
    broken = "import pytest\n@pytest.fixture\ndef broken(): {}assert 0\ndef test_it(broken): pass\n"
    (tmp_path / "test_twice.py").write_text(broken.format(""))
    (tmp_path / "test_torn.py").write_text(broken.format("yield; "))

    options = ["--failed-to", "failed", "-p", "tests.passed", "--passed-to", "passed"]
    noted = run(tmp_path, "pytest", "-p", "tests.unsteady", *options, *WORKER)
    again = run(tmp_path, "tests.unsteady", "failed")
    (tmp_path / "test_twice.py").unlink()
    rest = run(tmp_path, "pytest", "-p", "tests.passed", "--without", "passed", *WORKER)

    assert (1, 1) == (noted.returncode, again.returncode), noted.stdout + again.stdout
    for words in (
        "== unsteady: test_once.py::test_once",
        "of the first time",
        "1 passed",
        "== failed twice: test_twice.py::test_it",
        "== failed twice: test_torn.py::test_it",
    ):
        assert words in again.stdout
    assert again.stdout.endswith("1 unsteady, 2 failed twice\n")
    assert '["test_once.py::test_good"]' == (tmp_path / "passed").read_text()
    assert "2 passed, 1 skipped, 1 error in" in rest.stdout


def test_a_module_with_nothing_left_is_not_imported(tmp_path: Path):
    (tmp_path / "test_all.py").write_text("def test_good(): pass\n")
    (tmp_path / "test_some.py").write_text("def test_good(): pass\ndef test_bad(): assert 0\n")
    collected = run(tmp_path, "pytest", "-q", "--collect-only")
    (tmp_path / "collected").write_text(collected.stdout)
    plugin = ["pytest", "-q", "-p", "tests.passed"]
    run(tmp_path, *plugin, "--passed-to", "passed")
    (tmp_path / "test_all.py").write_text("raise ImportError\n")

    left = ["--without", "passed", "--collected", "collected", *WORKER]
    rest = run(tmp_path, *plugin, *left)

    assert "1 failed in" in rest.stdout
    (tmp_path / "test_some.py").write_text("def test_good(): assert 0\ndef test_bad(): pass\n")
    assert "1 passed" in run(tmp_path, *plugin, *left, "--passed-to", "passed").stdout
    assert 3 == len(json.loads((tmp_path / "passed").read_text()))


def test_what_passes_then_is_not_red(tmp_path: Path):
    (tmp_path / "test_it.py").write_text(ONCE)

    run(tmp_path, "pytest", "-p", "tests.unsteady", "--failed-to", "failed")

    assert 0 == run(tmp_path, "tests.unsteady", "failed").returncode


def test_six_are_too_many_to_be_run_again(tmp_path: Path):
    rows = [f'{{"test": "test_it.py::test_{n}", "output": ""}}\n' for n in range(6)]
    (tmp_path / "failed").write_text("".join(rows))
    again = run(tmp_path, "tests.unsteady", "failed")

    assert 1 == again.returncode
    assert "6 tests failed, too many to be unsteady" in again.stdout
    assert "failed twice" not in again.stdout


def test_without_failures_nothing_is_run_again(tmp_path: Path):
    assert "0 unsteady, 0 failed twice\n" == run(tmp_path, "tests.unsteady", "failed").stdout
