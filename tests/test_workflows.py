"""The workflows: nothing that they run can be replaced behind its name."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

pytestmark = pytest.mark.pure

ROOT = Path(__file__).parent.parent
FILES = sorted((ROOT / ".github").rglob("*.y*ml"))

USES = re.compile(r"^\s*(?:- )?uses:\s*(\S+)(.*)$", re.MULTILINE)
PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}")
VERSION = re.compile(r"\s+# v\d+(\.\d+)+")
INSTALL = re.compile(r"\b(?:pip3?|pipx|uv|uvx|npx|npm|conda)\b[^\n;&|]*", re.MULTILINE)
HARMLESS = re.compile(r"npm (pack|publish) [./\w*-]+( --[\w-]+( \w[\w-]*)?)*")
"""What npm does with files of this repository alone."""
HASHED = re.compile(r"pip install --require-hashes -r (\S+\.lock)")


def jobs() -> Iterator[tuple[str, dict[str, Any]]]:
    for file in FILES:
        for name, job in yaml.safe_load(file.read_text())["jobs"].items():
            yield f"{file.name}: {name}", job


def test_every_action_is_a_commit_with_its_version_beside_it():
    found = [(file.name, *use) for file in FILES for use in USES.findall(file.read_text())]

    assert [] == [use for use in found if not PINNED.fullmatch(use[1])]
    assert [] == [use for use in found if not VERSION.fullmatch(use[2])]
    assert len(found) == sum("uses" in step for _, job in jobs() for step in job["steps"]) > 0


def test_an_action_has_one_commit_and_one_version():
    found = {use for file in FILES for use in USES.findall(file.read_text())}

    assert len(found) == len({action.partition("@")[0] for action, _ in found})


def test_every_package_is_installed_by_its_hash():
    runs = [step.get("run", "") for _, job in jobs() for step in job["steps"]]
    installs = [command.strip() for run in runs for command in INSTALL.findall(run)]
    installs = [command for command in installs if not HARMLESS.fullmatch(command)]
    locks = [HASHED.fullmatch(command) for command in installs]

    assert [] == [command for command, lock in zip(installs, locks, strict=True) if lock is None]
    for lock in filter(None, locks):
        pins = re.split(r"(?m)^(?=\w)", (ROOT / lock[1]).read_text())
        assert [] == [pin for pin in pins if (pin and "==" not in pin) or "://" in pin]
        assert all("--hash=sha256:" in pin for pin in pins if pin)


def test_builds_fetch_nothing_that_is_not_locked():
    """`python -m build` alone installs the newest backend."""
    runs = [step.get("run", "") for _, job in jobs() for step in job["steps"]]
    builds = [run for run in runs if "-m build" in run]

    assert ["python -m build --no-isolation"] == builds


def test_the_lock_of_the_build_has_what_it_needs():
    names = (ROOT / ".github/build.in").read_text().split("\n")
    lock = (ROOT / ".github/build.lock").read_text()
    backend = re.search(r'requires = \["(\w+)', (ROOT / "pyproject.toml").read_text())
    assert backend is not None

    assert backend[1] in names
    for name in filter(None, names):
        assert name.startswith("#") or f"\n{name}==" in f"\n{lock}", name


def test_only_jobs_that_publish_by_it_have_an_identity():
    """Who has it can publish in the project's name."""
    trusted = {
        name
        for name, job in jobs()
        if "id-token" in (job["permissions"] if isinstance(job["permissions"], dict) else "all")
    }

    assert {"release.yml: pypi", "release.yml: npm"} == trusted
    for file in FILES:
        assert {} == yaml.safe_load(file.read_text())["permissions"]
