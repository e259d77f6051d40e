"""Keys: who is let in by them, and the file that changes meanwhile."""

import asyncio
import json
import os
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import IO

import msgspec
import pytest
import structlog

from app.errors import RequestError
from app.identity import keys as module
from app.identity.config import KeyConfig
from app.identity.keys import Keys, check_keys, digest, make_key
from app.identity.keys_file import KeysUnusable, Reading, read_keys_file
from app.identity.principal import Principal
from tests.clock import StoppedClock

pytestmark = pytest.mark.pure

KEY = "ssk_" + "k" * 43
OTHER = "ssk_" + "o" * 43
SIGNING_KEY = "s" * 43


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock()


@pytest.fixture
def path(tmp_path) -> Path:
    """A file with the one key "app"."""
    return write(tmp_path / "keys.json", row("app"))


def row(name: str, key: str = KEY, **more: object) -> dict[str, object]:
    return {"name": name, "sha256": digest(key), **more}


def write(path: Path, *rows: dict[str, object], **more: object) -> Path:
    """Put a file in the place of another, as `seseragi key` does."""
    new = path.with_name("new")
    new.write_text(json.dumps({"keys": rows, **more}))
    new.chmod(0o600)
    new.replace(path)
    return path


def config(name: str, key: str = KEY, **more: object) -> KeyConfig:
    return KeyConfig(name=name, sha256=digest(key), **more)  # type: ignore[arg-type]


def of(name: str, key: str = KEY) -> Principal:
    """Return the principal of a key of which no more is said."""
    return Principal(key=name, key_id=digest(key)[:16])


async def test_key_of_the_settings_stands_for_its_principal():
    keys = Keys(
        [config("app", tenant="acme", user="ann", models=("openai/*",), roles=("admin",))], None
    )

    expected = msgspec.structs.replace(
        of("app"), tenant="acme", user="ann", models=("openai/*",), roles=frozenset({"admin"})
    )
    assert expected == await keys.verify(KEY)
    assert expected == keys.find("app")
    assert None is keys.find("other")


@pytest.mark.parametrize(
    "shown",
    ["", "ssk_", OTHER, KEY[:-1], KEY + "k", KEY.upper(), digest(KEY), "ssk_" + "あ" * 43, "ssk_\ud800", "ssk_" + "k" * 100_000, KEY.removeprefix("ssk_")],
)  # fmt: skip
async def test_anything_else_is_nobodys(shown):
    assert None is await Keys([config("app")], None).verify(shown)


async def test_keys_that_are_made_differ_and_are_found():
    made = {make_key() for _ in range(100)}

    assert 100 == len(made)
    for key in made:
        assert (47, "ssk_") == (len(key), key[:4])
        assert of("a", key) == await Keys([config("a", key)], None).verify(key)


async def test_key_that_has_ended_is_told_so_without_the_key(clock):
    keys = Keys([config("app", expires_at="2027-01-15T10:00:00+01:00")], None, clock=clock)

    assert await keys.verify(KEY)
    assert keys.find("app")
    clock.now += 10
    assert await keys.verify(KEY)
    clock.now = 1_800_000_000 + 3600
    with pytest.raises(RequestError, match="'app' ended at 2027-01-15T10:00:00") as caught:
        await keys.verify(KEY)
    assert "unauthenticated" == caught.value.code
    assert KEY not in str(caught.value)
    assert None is keys.find("app")


async def test_what_was_issued_before_a_key_was_made_stood_on_another():
    keys = Keys([config("app", created_at="2027-01-15T08:00:00Z")], None, clock=StoppedClock())

    assert keys.find("app", issued_at=1_800_000_000.0)
    assert None is keys.find("app", issued_at=1_799_999_999.0)


async def test_file_is_read_again_when_it_has_changed(tmp_path, clock):
    path = write(tmp_path / "keys.json", row("app"), signing_key=SIGNING_KEY)
    keys = Keys([], path, clock=clock)
    assert (of("app"), None) == (await keys.verify(KEY), await keys.verify(OTHER))

    write(path, row("other", OTHER))
    assert await keys.verify(KEY)
    clock.now += 1
    assert (None, of("other", OTHER)) == (await keys.verify(KEY), await keys.verify(OTHER))
    assert None is keys.find("app")


async def test_clock_that_is_set_back_does_not_keep_a_revoked_key(clock, path):
    keys = Keys([], path, clock=clock)
    write(path)
    clock.now -= 86_400

    assert None is await keys.verify(KEY)


class WatchedPath(type(Path())):  # type: ignore[misc]
    """Counts how often its file is looked at, and how often it is opened."""

    looks = opened = 0

    def stat(self, **options: bool) -> os.stat_result:
        WatchedPath.looks += 1
        return super().stat(**options)

    def open(self, *options: str) -> IO[bytes]:
        WatchedPath.opened += 1
        return super().open(*options)


async def test_file_is_looked_at_once_a_second_and_read_when_changed(tmp_path, clock):
    keys = Keys([], WatchedPath(write(tmp_path / "keys.json", row("app"))), clock=clock)
    WatchedPath.looks = WatchedPath.opened = 0
    for _ in range(1000):
        await keys.verify(KEY)
    assert 0 == WatchedPath.looks
    for _ in range(1000):
        clock.now += 0.01
        await keys.verify(KEY)

    assert WatchedPath.looks in (9, 10)
    assert 0 == WatchedPath.opened


MANY = [row(f"k{number}", str(number)) for number in range(1_000)]
"""More than is read at once."""


@pytest.fixture
def turn(monkeypatch) -> threading.Event:
    """Readings of the file wait for this, which the event loop sets."""
    event = threading.Event()

    def read(path: Path) -> Reading:
        assert event.wait(1), "the event loop stands still"
        return read_keys_file(path)

    event.set()
    monkeypatch.setattr(module, "read_keys_file", read)
    return event


async def test_large_file_is_read_beside_the_event_loop_and_waited_for(clock, path, turn):
    keys = Keys([], write(path, *MANY, row("app")), clock=clock)
    assert await keys.verify(KEY)
    write(path, *MANY, row("other", OTHER))
    clock.now += 1
    turn.clear()
    asyncio.get_running_loop().call_soon(turn.set)
    assert keys.find("app")  # as before, until it is read

    left = asyncio.create_task(keys.verify(KEY))
    left.cancel()
    assert [None, of("other", OTHER)] == [
        *await asyncio.gather(keys.verify(KEY), keys.verify(OTHER))
    ]
    assert (None, 1001) == (keys.find("app"), len(keys.all()))

    path.write_text("{")
    clock.now += 1
    assert await keys.verify(OTHER)
    write(path, *MANY, row("app"))
    clock.now += 1
    assert await keys.verify(KEY)


async def test_file_that_is_read_while_another_takes_its_place_is_dropped(clock, path, turn):
    keys = Keys([], write(path, *MANY, row("app")), clock=clock)
    write(path, *MANY, row("app"), row("other", OTHER))
    clock.now += 1
    turn.clear()
    reading = asyncio.create_task(keys.verify(OTHER))
    await asyncio.sleep(0)
    keys.become(Keys([config("mine", "mine")], None, clock=clock))
    turn.set()

    assert None is await reading
    assert (None, True) == (keys.find("app"), keys.find("mine") is not None)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "file not found"),
        (b"", "invalid JSON"),
        (b'{"keys": [{"name": "app"}]}', "not a keys file"),
        (b"[" * 100_000, "not a keys file"),
        (b" " * (4 * 2**20 + 1), "larger than"),
        (json.dumps({"keys": [row("a"), row("a", OTHER)]}).encode(), "two keys have the name 'a'"),
        (json.dumps({"keys": [row("a"), row("b")]}).encode(), "'a' and 'b' are the same key"),
        (json.dumps({"keys": [row("a", expires_at="soon")]}).encode(), "an invalid time"),
    ],
)
async def test_broken_file_keeps_what_was_known_and_warns_once(content, told, clock, path):
    keys = Keys([], path, clock=clock)
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    with structlog.testing.capture_logs() as lines:
        for _ in range(5):
            clock.now += 1
            assert await keys.verify(KEY)
    assert [("warning", "keys file unusable, keeping the keys that were known")] == [
        (line["log_level"], line["event"]) for line in lines
    ]
    assert told in lines[0]["why"]

    with pytest.raises(KeysUnusable, match=r"^[^\n]+$") as caught:
        Keys([], path)
    assert told in str(caught.value)
    with pytest.raises(KeysUnusable):
        check_keys([], path)

    write(path, row("other", OTHER))
    clock.now += 1
    assert (None, of("other", OTHER)) == (await keys.verify(KEY), await keys.verify(OTHER))


async def test_file_that_cannot_be_read_for_a_moment_is_read_later(monkeypatch, clock, path):
    """As where no file handle is left: the file does not change any more, the reason goes."""
    keys = Keys([], path, clock=clock)
    write(path)

    def refuse(*_: object) -> None:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as full, structlog.testing.capture_logs() as lines:
        full.setattr(Path, "open", refuse)
        for _ in range(3):
            clock.now += 1
            assert await keys.verify(KEY)
    assert 1 == len(lines)
    clock.now += 1

    assert None is await keys.verify(KEY)


async def test_key_of_the_file_may_not_be_one_of_the_settings(path):
    for known in (config("app", OTHER), config("b", KEY)):
        with pytest.raises(KeysUnusable):
            Keys([known], path)


async def test_mounted_link_is_followed_and_its_change_is_seen(tmp_path, clock):
    """As Kubernetes replaces a secret: by another target of a link."""
    for name, rows in (("1", (row("app"),)), ("2", (row("other", OTHER),))):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "keys.json", *rows)
    (tmp_path / "data").symlink_to("1")
    (tmp_path / "keys.json").symlink_to("data/keys.json")
    keys = Keys([], tmp_path / "keys.json", clock=clock)
    assert await keys.verify(KEY)
    (tmp_path / "new").symlink_to("2")
    (tmp_path / "new").replace(tmp_path / "data")
    clock.now += 1

    assert (None, of("other", OTHER)) == (await keys.verify(KEY), await keys.verify(OTHER))


READ, WRITTEN = "readable by others .mode {:o}.; run: chmod 600 '", "writable by others"
EVERY_USER = "every user can read the keys file (mode {:o})"
MODES = [
    *[(mode, "own", READ) for mode in (0o640, 0o604, 0o644)],
    *[(mode, "another's", EVERY_USER) for mode in (0o444, 0o644)],
    (0o440, "another's", None),
    *[(mode, "another's", WRITTEN) for mode in (0o620, 0o602, 0o666)],
    # Docker on Windows shows every file of the host as everybody's.
    *[(mode, "on a disk that cannot be written", EVERY_USER) for mode in (0o644, 0o777)],
]


@pytest.mark.parametrize(
    ("mode", "whose", "told"), MODES, ids=[f"{mode:o} {whose}" for mode, whose, _ in MODES]
)
async def test_mode_of_the_file_is_refused_or_warned_of(tmp_path, monkeypatch, mode, whose, told):
    path = write(tmp_path / "keys file.json", row("app"))
    path.chmod(mode)
    mine = os.geteuid()
    if whose == "another's":
        monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
    elif whose != "own":
        monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=os.ST_RDONLY))
    if told in (READ, WRITTEN):
        with pytest.raises(KeysUnusable, match=told.format(mode)):
            Keys([], path)
        return
    with structlog.testing.capture_logs() as lines:
        assert await Keys([], path).verify(KEY)

    assert ([EVERY_USER.format(mode)] if told else []) == [line["event"] for line in lines]


def test_file_that_others_can_replace_is_refused(tmp_path):
    folder = tmp_path / "open"
    folder.mkdir()
    write(folder / "keys.json", row("app"))
    folder.chmod(0o777)
    (tmp_path / "keys.json").symlink_to("open/keys.json")
    for path in (folder / "keys.json", tmp_path / "keys.json"):
        with pytest.raises(
            KeysUnusable, match=r"in a world-writable directory; run: chmod o-w .*open"
        ):
            Keys([], path)
    folder.chmod(0o1777)  # as a folder for all has to be

    assert "Keys(1 known)" == repr(Keys([], tmp_path / "keys.json"))


async def test_file_that_was_replaced_out_of_sight_is_warned_of(clock, path):
    """As of a container that has the file alone mounted: it goes on seeing the old one."""
    with path.open() as mounted:
        keys = Keys([], Path(f"/proc/self/fd/{mounted.fileno()}"), clock=clock)
        write(path)
        with structlog.testing.capture_logs() as lines:
            for _ in range(3):
                clock.now += 1
                assert await keys.verify(KEY)

    told = "the keys file was replaced where this process cannot see: mount its folder"
    assert [told] == [line["event"] for line in lines if line["log_level"] == "warning"]


def test_what_is_no_file_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for place in ("pipe", "."):
        with pytest.raises(KeysUnusable, match="not a regular file"):
            Keys([], tmp_path / place)
    with pytest.raises(KeysUnusable, match="invalid file name"):
        Keys([], tmp_path / "a\0b")
