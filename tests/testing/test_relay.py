"""The test kit: a relay in a process of its own, and the scripted provider that it asks."""

import json
import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import deque
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import app.testing
from app.testing import (
    Hold,
    Reset,
    answer,
    chunk,
    chunked_head,
    reply,
    send,
    start_relay,
    start_upstream,
    text,
)
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]


def post(url: str, body: dict[str, Any]) -> tuple[int, str]:
    request = urllib.request.Request(
        url, json.dumps(body).encode(), {"content-type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=20) as opened:
            return opened.status, opened.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def said(model: str) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": "hi"}]}


def test_relay_answers_from_its_script_its_cassettes_and_no_provider(monkeypatch, tmp_path):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-that-costs-money")
    monkeypatch.setenv("SESERAGI_DEFAULT_MODEL", "somebody-elses")
    folder = tmp_path / "cassettes"
    with start_relay(cassettes=folder, settings={"attempts": 1, "cors_origins": ["*"]}) as relay:
        url = f"{relay.url}/v1/chat"
        status, whole = post(url, said("scripted/any"))
        assert (200, True) == (status, '"text":"Hello"' in whole)
        assert "any" == relay.upstream.calls[0].json["model"]
        with urllib.request.urlopen(f"{relay.url}/v1/models", timeout=20) as opened:
            assert "demo" == json.load(opened)["data"][0]["id"]
        assert 404 == post(url, said("cassette/none"))[0]

        relay.upstream.script = reply("429 Too Many Requests", "{}", retry_after="60")
        assert 429 == post(url, said("scripted/any"))[0]
        relay.upstream.script = [chunked_head(), chunk(text("One")), Reset()]
        assert '"code":"upstream_truncated"' in post(url, said("scripted/any"))[1]
        relay.upstream.script = [send(b"\x15\x03 garbage\r\n\r\n")]
        assert 502 == post(url, said("scripted/any"))[0]
        relay.upstream.choose = lambda call: answer(call.json["messages"][0]["content"])
        status, whole = post(url, said("scripted/any"))
        assert '"text":"hi"' in whole
        stream = re.findall(r"^id: (\S+)\.\d+$", whole, re.MULTILINE)[0]
        path = f"{relay.url}/v1/streams/{stream}/cassette"
        (folder / "one.jsonl").write_text(post(path, {})[1])
        assert '"text":"hi"' in post(url, said("cassette/one?speed=0"))[1]

        relay.reset()
        assert [] == relay.upstream.calls
        assert '"text":"Hello"' in post(url, said("scripted/any"))[1]
        told = json.loads(next(line for line in relay.log if '"listening"' in line))
        assert ["demo", "scripted"] == told["upstreams"]


@pytest.mark.proving
def test_relay_that_cannot_start_says_why():
    with (
        pytest.raises(
            RuntimeError, match=r"the relay has exited:\n.*SESERAGI_STATUS_WAIT_S: 'soon'"
        ),
        start_relay(settings={"status_wait_s": "soon"}),
    ):
        pass


FAILS = """
import urllib.request


def test_fails(seseragi_relay):
    body = b'{"model": "scripted/any", "messages": [{"role": "user", "content": "ask this"}]}'
    headers = {"content-type": "application/json"}
    asked = urllib.request.Request(f"{seseragi_relay.api_url}/chat", body, headers)
    with urllib.request.urlopen(asked, timeout=20) as reply:
        assert reply.read() == b"something else"
"""


@pytest.mark.proving
def test_failed_test_shows_what_was_asked_and_logged_and_a_bad_setting_no_traceback(tmp_path):
    (tmp_path / "test_page.py").write_text(FAILS)
    plugins = ("-p", "app.testing.pytest_plugin", "-p", "no:cacheprovider")

    def run(*arguments: str) -> str:
        done = subprocess.run(
            (sys.executable, "-m", "pytest", "-q", *plugins, *arguments, "test_page.py"),
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert 1 == done.returncode, done.stdout + done.stderr
        return done.stdout

    whole = run()
    assert "what the scripted provider was sent" in whole
    assert 'POST /v1/chat/completions {"messages":[{"role":"user","content":"ask this"}]' in whole
    assert '"status":"completed"' in whole.partition("log of the relay")[2]
    (tmp_path / "conftest.py").write_text(
        "import pytest\n\n\n@pytest.fixture(scope='session')\ndef seseragi_settings():\n"
        "    return {'status_wait_s': 'soon'}\n"
    )
    refused = run()
    assert "SESERAGI_STATUS_WAIT_S: 'soon' cannot be used" in refused
    assert "Popen" not in refused
    assert len(refused.splitlines()) < 30  # a traceback is 80
    assert "use one of off, new, replay, not 'x'" in run("-o", "seseragi_record=x")


@pytest.mark.proving
def test_report_waits_for_what_is_logged_after_an_answer(monkeypatch):
    class Late(deque[str]):
        def append(self, line: str) -> None:
            time.sleep(0.3 if "stream ended" in line else 0)
            super().append(line)

    monkeypatch.setattr("app.testing.relay.deque", Late)
    with start_relay() as relay:
        assert 200 == post(f"{relay.url}/v1/chat", said("scripted/any"))[0]
        told = dict(relay.report())

    assert '"status":"completed"' in told["log of the relay"]


STARTED = """
import time
from app.testing import start_relay

two = {"workers": 2, "log": "sqlite:///streams.db"}
with start_relay() as one, start_relay(settings=two) as other:
    print(one.url, other.url, flush=True)
    time.sleep(600)
"""


@pytest.mark.proving
def test_relay_ends_with_the_process_of_the_tests_however_that_ends(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", STARTED],
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    with process.stdout:
        urls = process.stdout.readline().split()
    assert 2 == len(urls)
    for url in urls:
        urllib.request.urlopen(f"{url}/healthz", timeout=20).close()
    process.kill()
    process.wait()

    def is_away(url: str) -> bool:
        try:
            urllib.request.urlopen(f"{url}/healthz", timeout=20).close()
        except OSError:
            return True
        return False

    for url in urls:
        wait_until(partial(is_away, url), limit_s=30)


def test_scripted_provider_in_a_thread_ends_with_its_test():
    with start_upstream() as upstream:
        upstream.script = [Hold()]
        port = upstream.port
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5)


def test_what_is_public_is_documented():
    document = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
    for name in app.testing.__all__:
        assert f"`{name}" in document, name
