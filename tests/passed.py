"""Tests that passed in one run, left out of another.

`pytest -p tests.passed --passed-to FILE` writes them, `--without FILE` deselects them.
"""

import json
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--passed-to` and `--without`."""
    parser.addoption("--passed-to", type=Path, help="a file for the tests that pass")
    parser.addoption("--without", type=Path, help="such a file: its tests are not run")


def pytest_configure(config: pytest.Config) -> None:
    """Note passes where results are reported: with xdist that is no worker."""
    path: Path | None = config.option.passed_to
    if path is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Passed(path))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests of `--without`."""
    path: Path | None = config.option.without
    if path is None:
        return
    passed = set(json.loads(path.read_text(encoding="utf-8")))
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in passed])
    items[:] = [item for item in items if item.nodeid not in passed]


class _Passed:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._passed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self._passed.add(report.nodeid)
        elif not report.passed:
            self._passed.discard(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self._path.write_text(json.dumps(sorted(self._passed)), encoding="utf-8")
