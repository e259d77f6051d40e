"""Tests that fail once and pass alone: found in CI, printed, and never retried by pytest itself.

`pytest -p tests.unsteady --failed-to FILE` adds each failure to a file. `python -m
tests.unsteady FILE` runs the tests of that file once more, each alone, and exits with 0 if all
of them pass and they are five at most.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

MOST = 5
TIMEOUT_S = 300


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--failed-to`."""
    parser.addoption("--failed-to", type=Path, help="a file to which failures are added")


def pytest_configure(config: pytest.Config) -> None:
    """Note failures where results are reported: with xdist that is no worker."""
    path: Path | None = config.option.failed_to
    if path is not None:
        os.environ.pop(
            "PYTEST_ADDOPTS", None
        )  # not for those that a test runs, which fail on purpose
    if path is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Failures(path))


class _Failures:
    def __init__(self, path: Path) -> None:
        self._path = path

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            sections = [f"-- {title}\n{text}" for title, text in report.sections]
            output = "\n".join([report.longreprtext, *sections])
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"test": report.nodeid, "output": output}) + "\n")


def read(path: Path) -> dict[str, str]:
    """Return what each test of the file said when it failed."""
    found: dict[str, str] = {}
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            found[row["test"]] = "\n".join(filter(None, (found.get(row["test"]), row["output"])))
    return found


def run_alone(test: str) -> tuple[bool, str]:
    """Run one test without neighbours; return whether it passed, and what it printed."""
    command = [sys.executable, "-m", "pytest", "-q", "-m", "", "-p", "no:xdist", test]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return False, f"it did not end within {TIMEOUT_S} s"
    return done.returncode == 0, done.stdout + done.stderr


def judge(failures: dict[str, str], most: int) -> int:
    """Print what becomes of the tests that failed; return the exit code."""
    if len(failures) > most:
        print(f"{len(failures)} tests failed, too many to be unsteady:", *failures, sep="\n  ")
        return 1
    failed = 0
    for test, first in failures.items():
        passed, second = run_alone(test)
        failed += not passed
        print(f"\n== {'unsteady' if passed else 'failed twice'}: {test}")
        print(f"\n-- the first time\n{first}\n\n-- alone\n{second}")
    print(f"{len(failures) - failed} unsteady, {failed} failed twice")
    return bool(failed)


def main() -> int:
    """Judge the failures of a file."""
    parser = argparse.ArgumentParser(description="Run the tests that failed once more, alone.")
    parser.add_argument("file", type=Path)
    parser.add_argument("--most", type=int, default=MOST, help="more failures are not run again")
    options = parser.parse_args()
    return judge(read(options.file), options.most)


if __name__ == "__main__":
    raise SystemExit(main())
