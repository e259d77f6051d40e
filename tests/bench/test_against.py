"""Other commits as relays to compare with."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from bench.against import checked_out
from bench.load import Unavailable
from bench.measures import Plan, measure
from bench.relays import ROOT
from tests.needs import program


@pytest.fixture(autouse=True)
def repository():
    program("git")
    if subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"], check=False).returncode:
        pytest.skip("this is no clone of the repository")


def test_a_commit_is_a_relay_of_its_own_files_as_long_as_it_is_measured():
    with checked_out(["HEAD"]) as (then, now):
        folder = Path(then.environ["PYTHONPATH"])
        assert (folder / "app" / "main.py").is_file()

    assert ("seseragi HEAD", "seseragi") == (then.name, now.name)
    assert str(ROOT) == now.environ["PYTHONPATH"]
    assert then.command == now.command
    assert not folder.exists()


def test_relays_of_several_interpreters_are_named_by_their_versions():
    version = f"{platform.python_version()}{sys.abiflags}"
    with checked_out([], [sys.executable, sys.executable]) as relays:
        assert 2 * [f"seseragi, Python {version}"] == [relay.name for relay in relays]


@pytest.mark.parametrize(
    ("build", "flags", "gil", "jit"),
    [
        ("", "", True, False),
        (" JIT", "", True, True),
        ("t", "t", False, False),
        ("t with the GIL", "t", True, False),
        ("t JIT", "t", False, True),
    ],
)
def test_the_name_of_a_relay_tells_the_build_of_its_interpreter(build, flags, gil, jit, tmp_path):
    python = tmp_path / "python"
    python.write_text(
        f"#!{sys.executable}\n"
        "import sys, types\n"
        f"sys.executable, sys.abiflags = {str(python)!r}, {flags!r}\n"
        f"sys._is_gil_enabled = lambda: {gil}\n"
        f"sys._jit = types.SimpleNamespace(is_enabled=lambda: {jit})\n"
        "sys.path[0] = ''\n"
        "exec(sys.argv[2])\n"
    )
    python.chmod(0o755)

    with checked_out([], [sys.executable, str(python)]) as (_, relay):
        assert f"seseragi, Python {platform.python_version()}{build}" == relay.name
        assert str(python) == relay.command[0]


@pytest.mark.parametrize("name", ["no-such-commit", "--help"])
def test_an_unknown_commit_is_named(name):
    with pytest.raises(Unavailable, match=name), checked_out([name]):
        pass


def test_an_interpreter_that_lacks_our_packages_is_named(tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho no module here >&2; exit 1\n")
    python.chmod(0o755)

    with (
        pytest.raises(Unavailable, match="HEAD: cannot be started: no module here"),
        checked_out(["HEAD"], [str(python)]),
    ):
        pass


@pytest.mark.proving
def test_commits_are_measured_together_and_over_tls(load, core, monkeypatch):
    program("nginx")
    monkeypatch.setattr("bench.measures.DENSE_STREAMS", 20)
    parts = ("import", "rest", "dense")
    plan = Plan(rounds=1, seconds=0.5, parts=parts, tls=True, together=2)
    with checked_out(["HEAD"]) as relays:
        rows = measure(relays, load, core, plan)

    assert [[], []] == [row.complaints for row in rows]
    for row in rows:
        assert {"import_modules", "rest_mib", "dense_us", "tls_dense_us"} <= row.rounds.keys()
