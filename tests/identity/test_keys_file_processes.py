"""The keys file is always whole, whatever processes change it at once, and however they end."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.identity.test_keys_file import names

ROOT = Path(__file__).parent.parent.parent

CHANGER = """
import sys
from pathlib import Path
import msgspec
from app.identity.config import KeyConfig
from app.identity.keys import digest
from app.identity.keys_file import KeysFile, change_keys_file

path, name, times = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
for number in range(times):
    key = KeyConfig(name=f"{name}-{number}", sha256=digest(f"{name}-{number}"))

    def add(file):
        file = file or KeysFile(signing_key="s" * 43)
        kept = file.keys[-500:]
        return msgspec.structs.replace(file, keys=(*kept, key))

    change_keys_file(path, add)
    print(number, flush=True)
"""


def changer(path: Path, name: str, times: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        (sys.executable, "-c", CHANGER, path, name, str(times)),
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )


KILLED = """
import json, os, signal, sys
from pathlib import Path
from app.identity.config import KeyConfig
from app.identity.keys import digest
from app.identity.keys_file import KeysFile, change_keys_file

path = Path(sys.argv[1])

def keys(*names):
    return KeysFile(keys=tuple(KeyConfig(name=name, sha256=digest(name)) for name in names))

def change(lines):
    def trace(frame, event, _):
        nonlocal lines
        if not frame.f_code.co_filename.endswith(("keys_file.py", "pathlib.py")):
            return None
        if event == "line":
            lines -= 1
            if lines == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(trace)
    change_keys_file(path, lambda _: keys("a", "b"))
    os._exit(0)

change_keys_file(path, lambda _: keys("a"))
old = path.read_bytes()
found, lines, status = [], 0, 1
while status:
    path.write_bytes(old)
    lines += int(sys.argv[2])
    if not (pid := os.fork()):
        change(lines)
    _, status = os.waitpid(pid, 0)
    found.append("".join(key["name"] for key in json.loads(path.read_bytes())["keys"]))
print(" ".join(found))
"""


@pytest.mark.parametrize("step", [pytest.param(1, marks=pytest.mark.proving), 9])
def test_file_is_whole_after_a_kill_at_any_line_of_a_change(tmp_path, step):
    """At each ninth line, where there is little time."""
    done = subprocess.run(
        (sys.executable, "-c", KILLED, tmp_path / "keys.json", str(step)),
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert 0 == done.returncode, done.stderr
    found = done.stdout.split()

    assert len(found) > 100 / step
    assert {"a", "ab"} == set(found)


def test_changes_at_once_are_all_kept(tmp_path):
    path = tmp_path / "keys.json"
    changers = [changer(path, name, 40) for name in ("a", "b", "c")]
    for one in changers:
        one.communicate(timeout=60)

    assert [0, 0, 0] == [one.returncode for one in changers]
    assert {f"{n}-{i}" for n in "abc" for i in range(40)} == set(names(path))
