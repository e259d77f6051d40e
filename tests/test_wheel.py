"""The package as it is installed: `seseragi`, beside a package `app` of the project's own."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

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
    answer = client.post("/llm/v1/chat", json={"messages": [{"role": "user", "content": "hi"}]})
    assert '"status":"completed"' in answer.text, answer.text
    assert "<html" in client.get("/llm/").text
    assert client.get("/llm/static/seseragi.js").status_code == 200
print("works")
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
