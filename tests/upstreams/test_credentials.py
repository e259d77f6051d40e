"""Keys: how they are sent, how they change, and that nobody ever sees one."""

import os
import time
from pathlib import Path
from unittest.mock import Mock

import pytest
import structlog

from app.settings import SettingsError, load_settings
from app.upstreams.credentials import Key, KeyFile, KeyUnusable, NoCredentials, Secret
from tests.upstreams.test_redaction import KEY, pieces

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    ("auth", "headers"),
    [
        ("bearer", {"authorization": f"Bearer {KEY}"}),
        ("api-key", {"api-key": KEY}),
        ("x-api-key", {"x-api-key": KEY}),
        ("x-goog-api-key", {"x-goog-api-key": KEY}),
    ],
)
async def test_key_is_sent_where_the_provider_wants_it(auth, headers):
    assert headers == await Key(Secret(KEY), auth).headers("POST", "https://a", b"")


async def test_nothing_is_sent_without_credentials():
    assert {} == await NoCredentials().headers("POST", "https://a", b"")


def test_repr_shows_no_key(tmp_path):
    (tmp_path / "key").write_text(KEY)

    assert not pieces(KEY) & pieces(repr([Key(Secret(KEY)), Key(KeyFile(str(tmp_path / "key")))]))


@pytest.fixture
def key_file(tmp_path):
    path = tmp_path / "key"
    path.write_text("first-0123456789\n")
    return path


def replace(path, text: str) -> None:
    """Write a file and give it a time of its own, whatever the clock's grain."""
    path.write_text(text)
    now = time.time_ns() + 10**9
    os.utime(path, ns=(now, now))


def test_key_file_that_changes_is_read_again(key_file):
    key = KeyFile(str(key_file))
    assert "first-0123456789" == key.reveal()

    replace(key_file, "second-0123456789\n")
    assert "second-0123456789" == key.reveal()


def test_key_file_that_stays_is_read_once(key_file, monkeypatch):
    key = KeyFile(str(key_file))
    monkeypatch.setattr(key, "_read", lambda: pytest.fail("was read again"))
    for _ in range(3):
        key.reveal()


def test_key_file_follows_the_links_of_kubernetes(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "key").write_text(f"{name}-0123456789")
    (tmp_path / "..data").symlink_to("one")
    (tmp_path / "key").symlink_to("..data/key")
    key = KeyFile(str(tmp_path / "key"))
    assert "one-0123456789" == key.reveal()

    (tmp_path / "..new").symlink_to("two")
    (tmp_path / "..new").rename(tmp_path / "..data")
    assert "two-0123456789" == key.reveal()


@pytest.mark.parametrize("broken", ["", "two\nlines", "\u3042"])
def test_key_file_that_breaks_leaves_the_last_key(broken, key_file):
    key = KeyFile(str(key_file))
    replace(key_file, broken)
    with structlog.testing.capture_logs() as logs:
        assert "first-0123456789" == key.reveal()
        assert "first-0123456789" == key.reveal()

    assert ["key file unusable, keeping the last key"] == [entry["event"] for entry in logs]

    replace(key_file, "second-0123456789")
    assert "second-0123456789" == key.reveal()


def test_key_file_that_goes_leaves_the_last_key(key_file):
    key = KeyFile(str(key_file))
    key_file.unlink()

    assert "first-0123456789" == key.reveal()


def test_key_file_is_read_as_soon_as_it_may_be(key_file, monkeypatch):
    key = KeyFile(str(key_file))
    replace(key_file, "second-0123456789")
    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", Mock(side_effect=PermissionError))
        assert "first-0123456789" == key.reveal()

    assert "second-0123456789" == key.reveal()


def test_key_before_is_taken_out_too(key_file):
    key = KeyFile(str(key_file))
    replace(key_file, "second-abcdefghij")
    key.reveal()

    assert "[key] and [key]" == key.redact("first-0123456789 and second-abcdefghij")


@pytest.mark.parametrize("text", ["", " \n", "two\nlines", "ke\u00e9y"])
def test_file_without_a_key_is_refused(text, key_file):
    key_file.write_text(text)
    with pytest.raises(KeyUnusable) as caught:
        KeyFile(str(key_file))

    assert "lines" not in str(caught.value)


@pytest.mark.parametrize(
    "table",
    [
        f"headers = {{ authorization = 'Bearer {KEY}' }}",
        f"headers = {{ X-Api-Key = '{KEY}' }}",
        f"query = {{ key = '{KEY}' }}",
        f"query = {{ api_key = '{KEY}' }}",
        f"base_url = 'https://me:{KEY}@llm.example/v1'",
        f"base_url = 'https://llm.example/v1?key={KEY}'",
        f"base_url = 'https://[{KEY}]/v1'",
        f"key = '{KEY}'",
        f"auth = '{KEY}'",
        f"key_env = '{KEY}'",
        f"key_file = '{KEY}'",
    ],
)
def test_key_at_a_wrong_place_is_refused_without_it(table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rest = "" if "base_url" in table else "base_url = 'https://llm.example/v1'\n"
    (tmp_path / "seseragi.toml").write_text(f"[upstream.x]\n{rest}{table}\n")
    with pytest.raises(SettingsError) as caught:
        load_settings({})

    assert not pieces(KEY) & pieces(str(caught.value))
