"""The keys file is always whole and its owner's, whoever changes it and however that ends."""

import json
import os
import random
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from app.identity.config import KeyConfig
from app.identity.keys import check_keys, digest
from app.identity.keys_file import KeysFile, KeysUnusable, change_keys_file, read_keys_file

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


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def add(name: str):
    def edit(file: KeysFile | None) -> KeysFile:
        key = KeyConfig(name=name, sha256=digest(name))
        return KeysFile(keys=(*(file.keys if file else ()), key))

    return edit


def names(path: Path) -> list[str]:
    return [key.name for key in read_keys_file(path).file.keys]


def test_file_is_made_for_its_owner_alone(tmp_path):
    path = tmp_path / "keys.json"
    before = os.umask(0)
    try:
        change_keys_file(path, add("a"))
    finally:
        os.umask(before)

    assert (0o600, ["a"]) == (mode(path), names(path))
    assert [path] == list(tmp_path.iterdir())


def test_file_says_only_what_was_said(tmp_path):
    change_keys_file(tmp_path / "keys.json", add("a"))

    expected = {"signing_key": None, "keys": [{"name": "a", "sha256": digest("a")}]}
    assert expected == json.loads((tmp_path / "keys.json").read_bytes())


def test_mode_that_was_given_stays(tmp_path):
    path = tmp_path / "keys.json"
    change_keys_file(path, add("a"))
    path.chmod(0o400)
    change_keys_file(path, add("b"))

    assert (0o400, ["a", "b"]) == (mode(path), names(path))


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only root gives files away")
def test_owner_stays_when_root_changes_it(tmp_path):
    """Else the relay could not read it again, and would keep a key that was revoked."""
    path = tmp_path / "keys.json"
    change_keys_file(path, add("a"))
    os.chown(path, 12345, 54321)
    change_keys_file(path, add("b"))

    assert (12345, 54321) == (path.stat().st_uid, path.stat().st_gid)


def test_link_stays_one(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "keys.json").symlink_to("real/keys.json")
    change_keys_file(tmp_path / "keys.json", add("a"))
    change_keys_file(tmp_path / "keys.json", add("b"))

    assert (tmp_path / "keys.json").is_symlink()
    assert ["a", "b"] == names(tmp_path / "real/keys.json")


def test_what_cannot_be_changed_says_why_and_stays(tmp_path):
    with pytest.raises(KeysUnusable, match="cannot be written: no such file"):
        change_keys_file(tmp_path / "none" / "keys.json", add("a"))
    (tmp_path / "keys.json").write_text("{")
    (tmp_path / "keys.json").chmod(0o600)
    with pytest.raises(KeysUnusable, match="not valid JSON"):
        change_keys_file(tmp_path / "keys.json", add("a"))

    assert "{" == (tmp_path / "keys.json").read_text()
    with pytest.raises(KeysUnusable, match="no file can be called so"):
        change_keys_file(tmp_path / "a\0b", add("a"))


def test_file_that_would_be_too_large_is_not_written(tmp_path):
    path = tmp_path / "keys.json"
    change_keys_file(path, add("a"))
    many = tuple(KeyConfig(name=f"k{n}", sha256=digest(str(n))) for n in range(40_000))
    with pytest.raises(KeysUnusable, match="would have more than 4194304 bytes"):
        change_keys_file(path, lambda _: KeysFile(keys=many))

    assert ["a"] == names(path)


def test_planted_link_is_not_written_through(tmp_path):
    (tmp_path / ".keys.json.new").symlink_to(tmp_path / "victim")
    (tmp_path / "victim").write_text("precious")
    change_keys_file(tmp_path / "keys.json", add("a"))

    assert "precious" == (tmp_path / "victim").read_text()
    assert ["a"] == names(tmp_path / "keys.json")


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
    lines += 1
    if not (pid := os.fork()):
        change(lines)
    _, status = os.waitpid(pid, 0)
    found.append("".join(key["name"] for key in json.loads(path.read_bytes())["keys"]))
print(" ".join(found))
"""


def test_file_is_whole_after_a_kill_at_any_line_of_a_change(tmp_path):
    done = subprocess.run(
        (sys.executable, "-c", KILLED, tmp_path / "keys.json"),
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert 0 == done.returncode, done.stderr
    found = done.stdout.split()

    assert len(found) > 50
    assert {"a", "ab"} == set(found)


def test_changes_at_once_are_all_kept(tmp_path):
    path = tmp_path / "keys.json"
    changers = [changer(path, name, 40) for name in ("a", "b", "c")]
    for one in changers:
        one.communicate(timeout=60)

    assert [0, 0, 0] == [one.returncode for one in changers]
    assert {f"{n}-{i}" for n in "abc" for i in range(40)} == set(names(path))


def test_file_is_whole_however_its_changers_are_killed(tmp_path):
    randomly = random.Random(16)
    path = tmp_path / "keys.json"
    change_keys_file(path, lambda _: KeysFile(keys=tuple(rows(500))))
    for turn in range(5):
        running = changer(path, f"t{turn}", 100_000)
        assert running.stdout is not None
        running.stdout.readline()
        until = time.monotonic() + randomly.uniform(0, 0.05)
        while time.monotonic() < until:
            assert len(names(path)) >= 500
        running.kill()
        out, _ = running.communicate()

        told = [int(line) for line in out.split()]
        kept = names(path)[-1]
        assert len(names(path)) >= 500
        assert 0o600 == mode(path)
        # What was told to be done is done; one more may be, of which nobody was told.
        last = int(kept.partition("-")[2])
        assert kept.startswith(f"t{turn}-")
        assert last >= max(told, default=0)
    change_keys_file(path, add("after"))

    assert "after" == names(path)[-1]
    assert [path] == list(tmp_path.iterdir())


def rows(count: int) -> list[KeyConfig]:
    return [KeyConfig(name=f"k{n}", sha256=digest(str(n))) for n in range(count)]


def test_broken_files_are_refused_in_one_line(tmp_path):
    """Cut anywhere, with bytes changed, or with values of other types: never another failure."""
    randomly = random.Random(16)
    path = tmp_path / "keys.json"
    key = {"name": "a", "sha256": digest("a"), "tenant": "t", "models": ["x*"], "roles": ["admin"], "expires_at": "2027-01-01T00:00:00Z"}  # fmt: skip
    whole = json.dumps({"signing_key": "s" * 43, "keys": [key]}).encode()
    broken = [whole[:at] for at in range(len(whole))]
    for _ in range(1000):
        changed = bytearray(whole)
        for _ in range(randomly.choice((1, 2, 8))):
            changed[randomly.randrange(len(changed))] = randomly.randrange(256)
        broken.append(bytes(changed))
    values: tuple[object, ...] = (None, 0, -1, 1e308, [], {}, [[]], "", "x" * 5000, True, "\ud800", "a\nb")  # fmt: skip
    for name in key:
        for value in values:
            broken.append(json.dumps({"keys": [{**key, name: value}]}).encode())
    broken += [
        b"[]",
        b"null",
        b'"x"',
        b"{}",
        b'{"keys":' + b"[" * 10_000,
        b'{"more":1}',
        b"\xff\xfe{}",
    ]
    path.touch(0o600)
    refusals = [why for content in broken if (why := refusal(path, content)) is not None]

    assert len(refusals) >= len(whole)
    assert [] == [why for why in refusals if "\n" in why or len(why) > 500 + len(str(path))]


def refusal(path: Path, content: bytes) -> str | None:
    path.write_bytes(content)
    try:
        check_keys([], path)
    except KeysUnusable as error:
        return str(error)
    return None
