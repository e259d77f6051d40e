"""Keys: how they are sent, how they change, and that nobody ever sees one."""

import base64
import html
import json
import logging
import os
import time
from pathlib import Path
from unittest.mock import Mock
from urllib.parse import quote

import pytest
import structlog

from app.settings import SettingsError, load_settings
from app.testing.upstream import head, reply, send, serve_upstream
from app.upstreams.credentials import Key, KeyFile, KeyUnusable, NoCredentials, Secret
from tests.serving import HELLO, serve_relay

KEY = 'sk-Ab/9+cd==&<x>"7\\Zq-0123456789'
"""With everything that some form writes otherwise."""

FORMS = {
    "as it is": lambda key: key,
    "in a URL": lambda key: quote(key, safe=""),
    "in a URL, small hexadecimals": lambda key: quote(key, safe="").replace("%2B", "%2b").lower(),
    "in HTML": html.escape,
    "in JSON": lambda key: json.dumps(key)[1:-1],
    "in JSON with escaped slashes": lambda key: key.replace("/", "\\/"),
    "in base64": lambda key: base64.b64encode(key.encode()).decode(),
    "after a name in base64": lambda key: base64.b64encode(b"me:" + key.encode()).decode(),
    "after two letters in base64": lambda key: base64.b64encode(b"xy" + key.encode()).decode(),
    "before more in base64": lambda key: base64.b64encode(key.encode() + b"@host").decode(),
    "after a letter in base64 of URLs": lambda key: base64.urlsafe_b64encode(b"x" + key.encode()).decode(),
    "in numeric entities": lambda key: "".join(f"&#{ord(c)};" for c in key),
    "in hexadecimal entities": lambda key: "".join(f"&#x{ord(c):04X};" for c in key),
    "in entities of entities": lambda key: "".join(f"&amp;#{ord(c)};" for c in key),
    "in a URL, all of it": lambda key: "".join(f"%{ord(c):02x}" for c in key),
    "twice in a URL": lambda key: "".join(f"%25{ord(c):02X}" for c in key),
    "in a URL, in either case": lambda key: quote(key, safe="").replace("F", "f", 1),
    "in JSON, all of it": lambda key: "".join(f"\\u{ord(c):04X}" for c in key),
    "in JSON in JSON": lambda key: "".join(f"\\\\u{ord(c):04x}" for c in key),
    "in bytes": lambda key: "".join(f"\\x{ord(c):02x}" for c in key),
    "backwards": lambda key: key[::-1],
    "in spaced letters": " ".join,
    "over lines": lambda key: key[:9] + "\r\n  " + key[9:],
    "with what nobody sees": "\u200b".join,
}  # fmt: skip


def pieces(text: str) -> set[str]:
    return {text[at : at + 8] for at in range(len(text) - 7)}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_every_form_of_a_key_is_taken_out(form):
    said = form(KEY)
    shown = Secret(KEY).redact(f"bad key {said}, sorry")

    assert shown.startswith("bad key ")
    assert shown.endswith(", sorry")
    assert "[key]" in shown
    assert not pieces(said[4:-4]) & pieces(shown)


@pytest.mark.parametrize("at", range(0, len(KEY) - 8, 3))
def test_part_of_a_key_is_taken_out(at):
    assert "it began [key]." == Secret(KEY).redact(f"it began {KEY[at : at + 8]}.")


@pytest.mark.parametrize("text", ["x", "\\", "&#x0", "%25", " ", KEY, f"{KEY[:8]} ", "&amp;"])
def test_the_time_to_redact_grows_with_the_text(text):
    secret = Secret(KEY * 20)
    secret.redact("")

    def cost(size: int) -> float:
        told = text * (size // len(text))
        times = []
        for _ in range(3):
            started = time.process_time()
            secret.redact(told)
            times.append(time.process_time() - started)
        return min(times)

    assert cost(2**17) < 24 * cost(2**14) + 0.01  # 8 times as long


def test_short_key_is_taken_out_whole():
    assert "no [key] here" == Secret("abc").redact("no abc here")


@pytest.mark.parametrize("told", ["", "Incorrect API key provided", "sk-...6789", "x" * 5000])
def test_other_text_is_left(told):
    assert told == Secret(KEY).redact(told)


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


async def test_running_relay_takes_up_a_new_key(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "key"
    path.write_text("first-0123456789")
    async with serve_upstream() as upstream:
        (tmp_path / "seseragi.toml").write_text(
            f'[upstream.x]\nbase_url = "{upstream.base_url}"\nkey_file = "key"\n'
        )
        upstream.script = reply("401 Unauthorized", "{}")
        async with serve_relay() as relay:
            for key in ("first-0123456789", "second-0123456789"):
                replace(path, key)
                await relay.client.post("/v1/chat", json={**HELLO, "model": "x/m"})
                assert f"Bearer {key}" == upstream.calls[-1].headers["authorization"]


SAYINGS = {
    "JSON": lambda said: json.dumps({"error": {"message": f"Incorrect API key provided: {said}"}}),
    "text": lambda said: f"wrong key {said}",
    "HTML": lambda said: f"<html><body><h1>401</h1> key {said}</body></html>",
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("saying", SAYINGS.values(), ids=SAYINGS)
async def test_what_an_upstream_quotes_reaches_nobody(saying, form, caplog):
    """Neither the client nor a log, at its most talkative."""
    caplog.set_level(logging.DEBUG)
    said = form(KEY)
    quoted = f"data: {json.dumps({'error': {'message': saying(said)}})}\n\n"
    scripts = {
        status: reply(status, saying(said))
        for status in ("400 Bad Request", "401 Unauthorized", "500 Oops")
    }
    scripts["200 OK"] = [head(), send(quoted)]
    shown = {}
    with structlog.testing.capture_logs() as logs:
        async with serve_upstream() as upstream, serve_relay(upstream, key=KEY) as relay:
            for status, script in scripts.items():
                upstream.script = script
                body = {**HELLO, "model": "openai/m"}
                shown[status] = await relay.client.post("/v1/chat", json=body)
                assert f"Bearer {KEY}" == upstream.calls[-1].headers["authorization"]
    assert len(scripts) == len(upstream.calls)

    for status, answer in shown.items():
        assert answer.status_code >= 400, status
        everything = f"{answer.text} {answer.headers}"
        assert not pieces(said[4:-4]) & pieces(everything), status
        assert not pieces(json.dumps(said[4:-4])[1:-1]) & pieces(everything), status
    assert not pieces(said[4:-4]) & pieces(f"{logs} {caplog.text}")
    assert not pieces(json.dumps(said[4:-4])[1:-1]) & pieces(f"{logs} {caplog.text}")


GATEWAY = """
[upstream.x]
base_url = "{url}"
headers = {{ cf-aig-authorization = "Bearer gateway-0123456789", x-title = "A long title" }}
query = {{ code = "function-0123456789", api-version = "2026-01-01" }}
"""

BROKEN = {
    "refusal": reply("400 No", "gateway-0123456789, function-0123456789, A long title, 2026-01-01"),
    "no HTTP": [send("HTTP/1.1 what?\r\n\r\n")],
}


@pytest.mark.parametrize("script", BROKEN.values(), ids=BROKEN)
async def test_what_headers_and_queries_hold_is_secret_by_its_name(script, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with structlog.testing.capture_logs() as logs:
        async with serve_upstream() as upstream:
            (tmp_path / "seseragi.toml").write_text(GATEWAY.format(url=upstream.base_url))
            upstream.script = script
            async with serve_relay() as relay:
                shown = await relay.client.post("/v1/chat", json={**HELLO, "model": "x/m"})
            assert "code=function-0123456789" in upstream.calls[0].path

    everything = f"{shown.text} {logs}"
    assert "gateway-" not in everything
    assert "function-" not in everything
    if script is BROKEN["refusal"]:
        assert "A long title, 2026-01-01" in shown.text


async def test_what_an_upstream_says_besides_its_answer_is_redacted():
    finish = {"finishReason": "SAFETY", "finishMessage": f"blocked for {KEY}"}
    said = [{"content": {"parts": [{"text": "a"}]}}, finish]
    async with serve_upstream() as upstream:
        events = "".join(f"data: {json.dumps({'candidates': [one]})}\n\n" for one in said)
        upstream.script = [head(), send(events)]
        async with serve_relay(upstream, key=KEY, dialect="gemini") as relay:
            shown = await relay.client.post("/v1/chat", json={**HELLO, "model": "openai/m"})

    assert "blocked for [key]" in shown.text
    assert not pieces(json.dumps(KEY)[1:-1]) & pieces(shown.text)


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
