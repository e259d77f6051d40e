"""Blocks of guides for a shell, and settings that they show: each is run as it stands."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import certifi
import pytest

from app.settings import load_settings
from tests.ports import free_port
from tests.test_docs import block

ROOT = Path(__file__).parent.parent
Shell = Callable[[str], str]


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """Run a block in an empty folder, with the command on the path and a port of its own."""
    programs, port = tmp_path / "bin", free_port()
    programs.mkdir()
    for name, words in (("seseragi", f"exec {sys.executable} -m app"), ("pip", "exit 0 #")):
        (programs / name).write_text(f'#!/bin/sh\n{words} "$@"\n')
        (programs / name).chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    environ = {**kept, "PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}

    def run(code: str) -> str:
        # What it starts in the background ends with it.
        ended = f"trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT\n{code}"
        code = ended.replace("localhost:8000", f"127.0.0.1:{port}")
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", code],
            cwd=tmp_path,
            env={**environ, "SESERAGI_PORT": str(port)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
        )
        assert 0 == done.returncode, done.stdout
        return done.stdout

    return run


@pytest.mark.proving  # it starts a relay and waits for its rows
def test_records_are_reported_as_their_guide_says(shell):
    assert shutil.which("curl")
    out = shell(block("records", "docs/records.md"))

    assert re.search(r"^total +1 +0 ", out, re.MULTILINE), out


QUESTIONS = (ROOT / "docs/questions.md").read_text(encoding="utf-8")
KINDS = dict(re.findall(r"<!-- run: (\w+) -->\n```(\w+)", QUESTIONS))
SAYS = {
    "why": "The answer is complete.",
    "ready": "200 OK",
    "rotate": "my-app",
    "certificate": "demo/demo",
    "corporate": "demo/demo",
    "upgrade": "ready",
    "test": '"code":"upstream_truncated"',
    "resume": ".4\n",
    "tabs": "\n",
    "stop": '"cancelled"',
    "photo": '"completed"',
}
"""What the output of a block has."""


def test_page_of_questions_is_short_and_each_has_a_block():
    assert len(QUESTIONS.split()) <= 900
    assert 20 == QUESTIONS.count("\n## ") == QUESTIONS.count("<!-- run: ")
    assert {"sh", "toml"} == set(KINDS.values())
    assert set(SAYS) == {name for name, kind in KINDS.items() if kind == "sh"}


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind == "toml"])
def test_settings_of_an_answer_are_read(tmp_path, name):
    file = tmp_path / "seseragi.toml"
    file.write_text(block(name, "docs/questions.md"))
    (tmp_path / "keys.json").write_text('{"signing_key": "", "keys": []}')

    environ = {"OPENAI_API_KEY": "k", "OTHER_API_KEY": "k"}
    assert load_settings(environ, config=file)


@pytest.mark.proving  # each starts a relay
@pytest.mark.parametrize("name", SAYS)
def test_commands_of_an_answer_run(shell, tmp_path, name):
    shutil.copy(certifi.where(), tmp_path / "company-ca.pem")
    begin = (
        "seseragi 2>relay.log &\ncurl -so/dev/null --retry 9 --retry-connrefused localhost:8000\n"
    )
    out = shell(begin + block(name, "docs/questions.md"))

    assert SAYS[name] in out
    if name == "tabs":
        first, second = out.split()
        assert first == second != "0"


ERRORS = "docs/streaming-errors.md"
SHOWN = {
    "json": r"SyntaxError: Unexpected token '?d'?[ ,].*JSON",
    "chunks": r"wrong: [1-9]\d* chunks with �\nwrong: SyntaxError: .*\nright: [ぁ-ん]{3}[^�]+$",
    "eventsource": r'"status":405.*\n(st_\S+)\n(?!\1)(st_\S+)\n(?!\1|\2)(st_\S+)\n\3$',
    "once": r"^( +\d+ [\d:]{8}\n){3,6}( +\d+ [\d:]{8}\n?){1,2}$",
}
"""What the demonstration of each error prints."""


def test_page_of_errors_is_short_and_the_same_in_both_languages():
    texts = [(ROOT / f"docs/streaming-errors{end}").read_text("utf-8") for end in (".md", ".ja.md")]
    blocks, headings, links = (
        [re.findall(pattern, text) for text in texts]
        for pattern in (r"(?s)<!-- run: .*?```\w+\n.*?```", r"(?m)^#+ ", r"\]\((?!stream)([^)]+)\)")
    )
    assert len(texts[0].split()) <= 900
    assert list(SHOWN) == [re.split(r"[: ]+", one)[2] for one in blocks[0]]
    for one in (blocks, headings, links):
        assert one[0] == one[1]


@pytest.mark.proving  # each starts a relay
@pytest.mark.parametrize("name", SHOWN)
def test_error_is_shown_as_its_page_says(shell, name):
    assert shutil.which("curl")
    assert shutil.which("node")
    begin = (
        "seseragi 2>relay.log &\ncurl -so/dev/null --retry 9 --retry-connrefused localhost:8000\n"
    )
    assert re.search(SHOWN[name], shell(begin + block(name, ERRORS)).strip("\n"))


@pytest.mark.proving  # it starts a relay
def test_first_call_with_the_key_of_the_run(shell):
    """That of the README, beside an upstream that costs money: the call asks a demo model."""
    code = block("keyed").replace(
        "ssk_...  # as printed", "$(grep -om1 'ssk_[[:alnum:]_-]*' relay.log | head -1)"
    )
    code = code.replace('{"messages"', '{"model":"demo","messages"')
    begin = "OPENAI_API_KEY=sk-none seseragi 2>relay.log &\n"
    wait = "curl -so/dev/null --retry 9 --retry-connrefused localhost:8000\n"
    plain = block("curl").replace("curl", "curl -so/dev/null -w '%{http_code}\n'")

    out = shell(begin + wait + plain + code)

    assert out.startswith("401\n")
    assert '"status":"completed"' in out
