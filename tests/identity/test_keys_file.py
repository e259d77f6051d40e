"""The keys file: how it is changed, whose it stays, and what is said of a broken one."""

import json
import os
import random
import stat
from pathlib import Path

import pytest

from app.identity.config import KeyConfig
from app.identity.keys import check_keys, digest
from app.identity.keys_file import (
    MAX_FILE,
    KeysFile,
    KeysUnusable,
    change_keys_file,
    read_keys_file,
)

pytestmark = pytest.mark.pure


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
    with pytest.raises(KeysUnusable, match="invalid JSON"):
        change_keys_file(tmp_path / "keys.json", add("a"))

    assert "{" == (tmp_path / "keys.json").read_text()
    with pytest.raises(KeysUnusable, match="invalid file name"):
        change_keys_file(tmp_path / "a\0b", add("a"))


def test_file_that_would_be_too_large_is_not_written(tmp_path):
    path = tmp_path / "keys.json"
    change_keys_file(path, add("a"))
    large = KeyConfig(name="b", sha256=digest("b"), models=("x" * MAX_FILE,))
    with pytest.raises(KeysUnusable, match="would be larger than 4194304 bytes"):
        change_keys_file(path, lambda _: KeysFile(keys=(large,)))

    assert ["a"] == names(path)


def test_key_is_revoked_in_a_full_file_without_indentation(tmp_path):
    path = tmp_path / "keys.json"
    large = {"name": "a", "sha256": digest("a"), "models": ["x"] * (MAX_FILE // 5)}
    rows = [large, {"name": "b", "sha256": digest("b")}]
    path.touch(0o600)
    path.write_text(json.dumps({"keys": rows}, separators=(",", ":")))

    first = read_keys_file(path).file.keys[:1]
    change_keys_file(path, lambda _: KeysFile(keys=first))

    assert ["a"] == names(path)


def test_planted_link_is_not_written_through(tmp_path):
    (tmp_path / ".keys.json.new").symlink_to(tmp_path / "victim")
    (tmp_path / "victim").write_text("precious")
    change_keys_file(tmp_path / "keys.json", add("a"))

    assert "precious" == (tmp_path / "victim").read_text()
    assert ["a"] == names(tmp_path / "keys.json")


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
    broken += [b"[]", b"null", b'"x"', b"{}", b'{"keys":' + b"[" * 10_000, b'{"more":1}']
    broken.append(b"\xff\xfe{}")
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
