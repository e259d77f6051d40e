"""Tests that passed in one run, left out of another.

`pytest -p tests.passed --passed-to FILE` adds them, `--without FILE` deselects them.
`--collected FILE`, the output of `--collect-only -q` in the same place, names all tests: a module
with none left is not imported.
"""

import json
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--passed-to` and `--without`."""
    parser.addoption("--passed-to", type=Path, help="a file for the tests that pass")
    parser.addoption("--without", type=Path, help="such a file: its tests are not run")
    parser.addoption("--collected", type=Path, help="a file with all tests, one a line")


def pytest_configure(config: pytest.Config) -> None:
    """Note passes where results are reported: with xdist that is no worker."""
    if config.option.without is not None and config.option.collected is not None:
        config.pluginmanager.register(_Modules(config))
    path: Path | None = config.option.passed_to
    if path is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Passed(path))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests of `--without`."""
    path: Path | None = config.option.without
    if path is None:
        return
    passed = _read(path)
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in passed])
    items[:] = [item for item in items if item.nodeid not in passed]


def _read(path: Path) -> set[str]:
    return set(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else set()


class _Modules:
    def __init__(self, config: pytest.Config) -> None:
        text = config.option.collected.read_text(encoding="utf-8")
        tests = {line for line in text.splitlines() if "::" in line}
        remaining = {test.split("::")[0] for test in tests - _read(config.option.without)}
        finished = {test.split("::")[0] for test in tests} - remaining
        self._finished = {config.rootpath / module for module in finished}

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        return True if collection_path in self._finished else None


class _Passed:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._passed = _read(path)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self._passed.add(report.nodeid)
        elif not report.passed:
            self._passed.discard(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self._path.write_text(json.dumps(sorted(self._passed)), encoding="utf-8")
