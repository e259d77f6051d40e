"""The folder of cassettes: read once, written whole, and cleared of what a kill has left."""

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from app.cassettes.cassette import Cassette, parse_tape, render_tape
from app.cassettes.folder import Folder, FolderFull
from app.composition import open_cassettes
from app.errors import RequestError, UpstreamError
from app.settings import load_settings
from tests.cassettes.test_tape import HEAD, TAPE, TARGET
from tests.waiting import wait_until


def test_folder_reads_once_what_many_ask_for_at_the_same_time(tmp_path, monkeypatch):
    folder = Folder(tmp_path)
    folder.save("one", render_tape(TAPE.head, TAPE.played))
    together = threading.Barrier(4)
    read: list[int] = []
    begun: list[int] = []

    def slowly(data: bytes) -> Cassette:
        read.append(len(data))
        wait_until(lambda: len(begun) == 4)
        return parse_tape(data)

    def load(number: int) -> Cassette:
        together.wait(20)
        begun.append(number)
        return folder.load("one")

    monkeypatch.setattr("app.cassettes.folder.parse_tape", slowly)
    with ThreadPoolExecutor(4) as threads:
        tapes = list(threads.map(load, range(4)))

    assert 1 == len(read)
    assert all(tape is tapes[0] for tape in tapes)


def test_folder_reads_again_what_has_changed_and_writes_whole_files(tmp_path, monkeypatch):
    folder = Folder(tmp_path)
    data = render_tape(TAPE.head, TAPE.played)
    folder.save("one", data)
    assert folder.load("one") is folder.load("one")
    folder.save("one", HEAD + TARGET)
    assert 2 == folder.load("one").last
    (tmp_path / "two.jsonl").write_bytes(HEAD + b"oops")
    with pytest.raises(UpstreamError, match=r"cassette 'two.jsonl': line 2: "):
        folder.load("two")
    (tmp_path / "three.jsonl").mkdir()
    for name in ("none", "three"):
        assert not folder.has(name)
        with pytest.raises(RequestError) as caught:
            folder.load(name)
        assert "model_not_found" == caught.value.code
        assert str(tmp_path) not in caught.value.message
    (tmp_path / ".hidden.jsonl").write_bytes(data)
    os.mkfifo(tmp_path / "pipe.jsonl")
    assert {"u"} == folder.upstreams()
    (tmp_path / "pipe.jsonl").unlink()
    assert ["one", "three", "two"] == folder.names()
    monkeypatch.setattr("app.cassettes.folder.MAX_BYTES", 100)
    folder.save("large", data)
    with pytest.raises(UpstreamError, match="larger than 100 bytes"):
        folder.load("large")
    monkeypatch.setattr("app.cassettes.folder.MAX_FILES", 5)
    with pytest.raises(FolderFull):
        folder.save("full", data)
    assert not list(tmp_path.glob("*.tmp"))


KILLED = """
import os, signal, sys
from pathlib import Path
from app.cassettes.folder import Folder
Path.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
Folder(Path(sys.argv[1])).save("one", b"written, and not in its place")
"""


def left_by_a_kill(folder: Path) -> Path:
    before = {*folder.iterdir()}
    command = (sys.executable, "-c", KILLED, str(folder))
    ended = subprocess.run(command, cwd=Path(__file__).parents[2], check=False, timeout=60)
    assert -signal.SIGKILL == ended.returncode
    (left,) = {*folder.iterdir()} - before
    return left


def test_what_a_killed_writer_has_left_is_removed_and_what_is_being_written_is_not(tmp_path):
    left, being_written = (left_by_a_kill(tmp_path) for _ in range(2))
    others = [tmp_path / name for name in (".mine.tmp", ".cassette-notes.tmp", "one.tmp")]
    for file in others:
        file.write_bytes(b"no writer of cassettes made this")
    for file in (left, *others):
        os.utime(file, (0, 0))
    stays = {being_written, *others}

    def open_for(mode: str) -> None:
        found = {"SESERAGI_CASSETTES": str(tmp_path), "SESERAGI_RECORD_CASSETTES": mode}
        open_cassettes(load_settings(found))

    for reader in ("off", "replay"):
        open_for(reader)
        assert {left, *stays} == {*tmp_path.iterdir()}
    open_for("new")
    assert stays == {*tmp_path.iterdir()}

    os.utime(left_by_a_kill(tmp_path), (0, 0))
    Folder(tmp_path).save("two", HEAD + TARGET)
    assert {*stays, tmp_path / "two.jsonl"} == {*tmp_path.iterdir()}
