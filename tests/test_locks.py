"""The locks: what each has, and what works with the smallest of them."""

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import distribution, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.commands.test_command import ROOT, ask, environment, running

LOCKS = ("requirements.lock", "requirements-all.lock", "requirements-dev.lock")
PYTHONS = ("3.11", "3.12", "3.13", "3.14", "3.15")


def pins(name: str) -> set[str]:
    """The packages of a lock, each with its version and hashes."""
    return {*re.split(r"(?m)^(?=\w)", (ROOT / name).read_text())} - {""}


def names(name: str) -> set[str]:
    return {canonicalize_name(pin.partition("==")[0]) for pin in pins(name)}


def needed(texts: list[str], extras: frozenset[str] = frozenset()) -> Iterator[str]:
    """Yield the packages that requirements lead to, on some Python."""
    for requirement in map(Requirement, texts):
        marker = requirement.marker
        if marker is None or any(
            marker.evaluate({"python_version": python, "extra": extra})
            for python in PYTHONS
            for extra in ("", *extras)
        ):
            yield canonicalize_name(requirement.name)
            yield from needed(requires(requirement.name) or [], frozenset(requirement.extras))


@pytest.mark.pure
def test_each_lock_is_part_of_the_next_and_names_no_registry():
    core, everything, dev = map(pins, LOCKS)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert core < everything < dev
    assert not [pin for pin in dev if "--hash=sha256:" not in pin or "://" in pin]
    assert {*needed(project["dependencies"])} == names(LOCKS[0])


@pytest.mark.pure
@pytest.mark.parametrize("name", LOCKS[1:])
def test_locks_serve_the_oldest_python_too(name):
    """What a lock is made with may be newer, and leaves out what only older ones need."""
    assert 'async-timeout==5.0.1 ; python_full_version < "3.11.3"' in (ROOT / name).read_text()


@pytest.mark.pure
@pytest.mark.parametrize("name", LOCKS[1:])
def test_the_extra_that_another_package_asks_for_is_pinned_with_it(name):
    """An older pip takes the newest version for an extra that the lock does not name."""
    assert "\ngoogle-auth[requests]==" in (ROOT / name).read_text()


@pytest.fixture(scope="module")
def core(tmp_path_factory) -> str:
    """A path of Python's with the packages of the core lock alone."""
    folder = tmp_path_factory.mktemp("core")
    for name in names(LOCKS[0]):
        files = distribution(name).files or ()
        for top in {file.parts[0] for file in files} - {"..", "__pycache__"}:
            (folder / top).symlink_to(Path(str(distribution(name).locate_file(top))))
    return f"{folder}:{ROOT}"


WITHOUT = {
    'log = "redis://127.0.0.1/0"': "redis",
    'records = "sqlite:///records.db"': "records",
    'records = "postgresql://u@h/d"': "postgresql",
    "traces = true": "otel",
    '[upstream.bedrock]\nregion = "eu-central-1"': "bedrock",
    '[upstream.vertex]\nproject = "x"': "vertex",
}
"""Settings that need an extra."""

START = """
import sys
from app.__main__ import main
for arguments in (["records"], ["prices", "openai/gpt-5"], *(["--config", one] for one in sys.argv[1:])):
    try:
        main(arguments)
    except SystemExit:
        pass
"""


def test_core_is_enough_to_serve_and_a_missing_extra_names_its_install_line(tmp_path, core):
    command = [sys.executable, "-S", "-m", "app"]
    with running(cwd=tmp_path, command=command, PYTHONPATH=core) as (_, url):
        body = b'{"messages":[{"role":"user","content":"Hello!"}],"max_tokens":3}'
        assert b'"status":"completed"' in ask(url, body).read()

    files = []
    for number, text in enumerate(WITHOUT):
        files.append(f"{number}.toml")
        (tmp_path / files[-1]).write_text(text)
    done = subprocess.run(
        [sys.executable, "-S", "-c", START, *files],
        cwd=tmp_path,
        env=environment(PYTHONPATH=core),
        capture_output=True,
        text=True,
        timeout=60,
    )

    install = re.compile(r"pip install ['\"]\.\[(\w+)\]['\"]")
    assert ["records", *WITHOUT.values()] == install.findall(done.stderr), done.stderr
    assert 1 + len(WITHOUT) == len(done.stderr.splitlines())
    assert ["prices"] == install.findall(done.stdout)
