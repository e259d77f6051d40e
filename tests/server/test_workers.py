"""The parent of several workers, apart from what they serve."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import os, signal, sys, time
from pathlib import Path
from app.server.workers import SERVING, Workers

deaths = Path("deaths")

def serve(link, number):
    if number == DIES and len(deaths.read_text() if deaths.exists() else "") < TIMES:
        with deaths.open("a") as file:
            file.write("x")
        HOW
    link.send(SERVING)
    link.recv(1)  # until it is told to stop, or the parent is gone

def on_serving():
    print("all serve", flush=True)
    os.kill(os.getpid(), signal.SIGTERM)

workers = Workers(
    serve, 3, on_serving=on_serving, on_stop=lambda: None, on_end=lambda number: None, stop_s=5
)
sys.exit(workers.run())
"""
EXITS, IS_KILLED = "os._exit(3)", "os.kill(os.getpid(), signal.SIGKILL)"


def run(folder: Path, *, dies: int, times: int, how: str) -> subprocess.CompletedProcess[str]:
    script = SCRIPT.replace("DIES", str(dies)).replace("TIMES", str(times)).replace("HOW", how)
    root = str(Path(__file__).parent.parent.parent)
    return subprocess.run(
        [sys.executable, "-c", script],
        cwd=folder,
        env={"PYTHONPATH": root},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("how", [EXITS, IS_KILLED], ids=["exits", "is killed"])
@pytest.mark.parametrize("dies", [2, 3])
def test_worker_that_dies_before_it_serves_is_started_again(tmp_path: Path, dies: int, how: str):
    done = run(tmp_path, dies=dies, times=1, how=how)

    assert (0, "all serve\n") == (done.returncode, done.stdout[-10:]), done.stderr
    assert "x" == (tmp_path / "deaths").read_text()


def test_what_is_wrong_for_the_first_ends_the_service(tmp_path: Path):
    assert 3 == run(tmp_path, dies=1, times=9, how=EXITS).returncode
    assert "x" == (tmp_path / "deaths").read_text()
