"""The package as it is installed: `seseragi`, beside a package `app` of the project's own."""

import os
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from tests.versions import versions

pytestmark = pytest.mark.proving

ROOT = Path(__file__).parent.parent

PROJECT = {
    "app/__init__.py": "",
    "app/main.py": """
from fastapi import FastAPI
from seseragi import create_app

relay = create_app()
app = FastAPI(lifespan=relay.lifespan)
app.mount("/llm", relay)
""",
    "check.py": """
from fastapi.testclient import TestClient
from app.main import app

with TestClient(app) as client:
    body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 9}
    answer = client.post("/llm/v1/chat", json=body)
    assert '"status":"completed"' in answer.text, answer.text
    assert "<html" in client.get("/llm/").text
    assert client.get("/llm/static/seseragi.js").status_code == 200
print("works")
""",
}

MIGRATES = """
import asyncio
from seseragi.records.address import Address
from seseragi.records.database import Database


async def main():
    database = Database(Address("sqlite:///records.db"))
    await database.migrate()
    await database.close()


asyncio.run(main())
print("works")
"""


TESTED = {
    "pyproject.toml": """
[tool.pytest.ini_options]
filterwarnings = ["error"]
seseragi_cassettes = "tapes"
""",
    "conftest.py": """
import pytest


@pytest.fixture(scope="session")
def seseragi_settings():
    return {"attempts": 1}
""",
    "test_page.py": """
import asyncio
import json
import urllib.request
from seseragi.testing import answer


def ask(relay, model):
    body = {"model": model, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 9}
    headers = {"content-type": "application/json"}
    url = f"{relay.api_url}/chat"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=30) as reply:
        return reply.headers["stream-id"], reply.read().decode()


def test_script_and_cassette(seseragi_relay, pytestconfig):
    seseragi_relay.upstream.script = answer("from", " a script")
    stream, text = ask(seseragi_relay, "scripted/any")
    assert " a script" in text and len(seseragi_relay.upstream.calls) == 1
    url = f"{seseragi_relay.url}/v1/streams/{stream}/cassette"
    with urllib.request.urlopen(urllib.request.Request(url, method="POST")) as reply:
        (seseragi_relay.cassettes / "one.jsonl").write_bytes(reply.read())
    assert seseragi_relay.cassettes == pytestconfig.rootpath / "tapes"
    assert " a script" in ask(seseragi_relay, "cassette/one?speed=0")[1]


def test_script_of_another_test_is_gone(seseragi_relay):
    assert seseragi_relay.upstream.calls == []
    assert "Hello" in ask(seseragi_relay, "scripted/any")[1]


def test_event_loop_is_the_tests_own(seseragi_relay):
    async def run():
        return await asyncio.to_thread(ask, seseragi_relay, "demo")

    assert '"status":"completed"' in asyncio.run(run())[1]
""",
    "test_async.py": """
import asyncio
import pytest
from test_page import ask

pytest.importorskip("pytest_asyncio")


@pytest.mark.asyncio
async def test_fixture_in_an_async_test(seseragi_relay):
    assert "Hello" in (await asyncio.to_thread(ask, seseragi_relay, "scripted/any"))[1]
""",
}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the wheel puts into `site-packages`."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation")
    subprocess.run((*pip, "--wheel-dir", folder, ROOT), check=True)
    [wheel] = folder.glob("*.whl")
    site = folder / "site"
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(site)
    return site


def run(*arguments: str, cwd: Path, path: Path) -> str:
    environ = {**os.environ, "PYTHONPATH": f".{os.pathsep}{path}"}
    done = subprocess.run(
        (sys.executable, *arguments), cwd=cwd, env=environ, capture_output=True, text=True
    )
    assert 0 == done.returncode, done.stderr
    return done.stdout


def test_wheel_has_one_package_of_one_name(installed):
    assert {"seseragi"} == {one.name for one in installed.iterdir() if one.suffix != ".dist-info"}
    [info] = installed.glob("*.dist-info")
    assert "seseragi = seseragi.__main__:main" in (info / "entry_points.txt").read_text()


def test_relay_works_in_a_project_with_a_package_called_app(installed, tmp_path):
    for name, text in PROJECT.items():
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)

    assert "works\n" == run("check.py", cwd=tmp_path, path=installed)
    assert run("-m", "seseragi", "--version", cwd=tmp_path, path=installed).startswith("seseragi ")


def test_wheel_has_the_migrations_of_the_records(installed, tmp_path):
    pytest.importorskip("aiosqlite")
    (tmp_path / "check.py").write_text(MIGRATES)

    assert "works\n" == run("check.py", cwd=tmp_path, path=installed)


def test_pytest_plugin_works_in_an_environment_that_has_the_wheel(installed, tmp_path):
    """Alone, and with the plugins that most projects have."""
    venv = tmp_path / "venv"
    subprocess.run((sys.executable, "-m", "venv", "--without-pip", venv), check=True)
    [site] = venv.glob("lib/python*/site-packages")
    for one in installed.iterdir():  # not copied, so that it is compiled once
        (site / one.name).symlink_to(one)
    [outer] = {Path(pytest.__file__).parent.parent}  # for what it needs; nothing is fetched
    (site / "outer.pth").write_text(f"{outer}\n")

    def test(arguments: str, number: int) -> str:
        project = tmp_path / f"project{number}"
        project.mkdir()
        for name, text in TESTED.items():
            (project / name).write_text(text)
        environ = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "PYTHON"))}
        done = subprocess.run(
            (venv / "bin" / "python", "-m", "pytest", "-q", *arguments.split()),
            cwd=project,
            env=environ,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert 0 == done.returncode, done.stdout + done.stderr
        return done.stdout

    without = "-p no:anyio -p no:asyncio -p no:xdist --ignore test_async.py"
    beside = "-n 1 -o asyncio_default_fixture_loop_scope=function"
    with ThreadPoolExecutor() as both:
        alone, beside_others = both.map(test, (without, beside), (1, 2))
    assert "3 passed" in alone
    assert "4 passed" in beside_others


def test_wheel_has_the_package_and_nothing_else(installed):
    (wheel,) = installed.parent.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        names = set(packed.namelist())
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        said = packed.read(metadata).decode()

    assert {"seseragi", metadata.partition("/")[0]} == {name.partition("/")[0] for name in names}
    for name in ("py.typed", "__main__.py", "static/index.html", "static/seseragi.js"):
        assert f"seseragi/{name}" in names, name
    tables = ("commands/doctor/advice", "commands/why", "demo/texts", "upstreams/presets")
    assert {*(f"seseragi/{name}.toml" for name in tables), "seseragi/static/README.md"} == {
        name for name in names if "node_modules" in name or name.endswith((".pyc", ".toml", ".md"))
    }
    for line in ("Name: seseragi", "License-Expression: MIT", "Requires-Python: >=3.11"):
        assert f"{line}\n" in said


def test_versions_agree_and_the_release_trusts_no_stored_secret():
    found = versions()
    workflow = (ROOT / ".github/workflows/release.yml").read_text()

    assert found["app/__init__.py"] == found["static/package.json"]
    assert {"pypi", "npm", "image"} < {*yaml.safe_load(workflow)["jobs"]}
    assert "secrets." not in workflow
