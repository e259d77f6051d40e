"""The folder of cassettes: reads, and atomic writes."""

import os

import pytest

from app.cassettes.cassette import render_cassette
from app.cassettes.folder import Folder, FolderFull
from app.errors import RequestError, UpstreamError
from tests.cassettes.test_cassette import CASSETTE, HEAD, TARGET


def test_folder_reads_again_what_has_changed_and_writes_whole_files(tmp_path, monkeypatch):
    folder = Folder(tmp_path)
    data = render_cassette(CASSETTE.head, CASSETTE.events)
    folder.save("one", data)
    assert folder.load("one").last == CASSETTE.last
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
