"""What the log shows of what others say, as a process writes it."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from app.telemetry.logs import MAX_EXCEPTION
from app.testing.upstream import DONE, FINISH, head, send, serve_upstream, text
from tests.serving import HELLO
from tests.test_command import COMMAND, environment, running

ROOT = Path(__file__).parents[2]
ODD = "m\x1b[31m\x07\x9b2J\u202egpj\n2026 [info] forged\x7f"

RICH = {
    "__init__.py": "",
    "console.py": "class Console:\n    def __init__(self, file, **_): self._file = file\n"
    "    def print(self, what): self._file.write(what)\n",
    "traceback.py": "class Traceback:\n    @staticmethod\n"
    "    def from_exception(kind, value, trace, **_):\n"
    "        while trace.tb_next: trace = trace.tb_next\n"
    "        return repr(trace.tb_frame.f_locals)\n",
}
"""What structlog uses of `rich`, which shows the values of variables."""

FAILING = """
import logging, sys, structlog
from app.telemetry.logs import configure_logs

configure_logs(format=sys.argv[1])

def fail(prompt, depth):
    if depth:
        return fail(prompt, depth - 1) + 1
    key = "".join(["sk-", "secret"])
    raise ValueError(sys.argv[2] * 10_000 if len(sys.argv[2]) == 1 else sys.argv[2])

for log in (structlog.get_logger("ours").exception, logging.getLogger("theirs").exception):
    try:
        fail("".join(["conver", "sation"]), 3)
    except ValueError:
        log("it failed")
structlog.get_logger("ours").info(sys.argv[2], value=sys.argv[2], values=[sys.argv[2]], half="\\ud800")
"""


def run(tmp_path: Path, kind: str, message: str) -> str:
    folder = tmp_path / "rich"
    folder.mkdir()
    for name, content in RICH.items():
        (folder / name).write_text(content)
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", FAILING, kind, message],
        env={**environment(), "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        check=True,
        encoding="utf-8",
    )
    return done.stderr


@pytest.mark.parametrize("kind", ["console", "json"])
def test_traceback_has_no_values_of_variables(kind, tmp_path):
    shown = run(tmp_path, kind, "wrong")

    assert 2 == shown.count("ValueError: wrong")
    assert "sk-secret" not in shown
    assert "conversation" not in shown


@pytest.mark.parametrize("kind", ["console", "json"])
def test_long_traceback_is_cut_in_its_middle(kind, tmp_path):
    shown = run(tmp_path, kind, "x" * 50_000)

    assert 2 == shown.count("Traceback (most recent call last)")
    assert len(shown) < 2 * MAX_EXCEPTION + 3 * 50_000 + 5_000


def test_terminal_is_shown_nothing_that_it_obeys(tmp_path):
    shown = run(tmp_path, "console", ODD)

    assert all(one.isprintable() or one == "\n" for one in shown)
    assert not [line for line in shown.splitlines() if line.startswith("2026 [info] forged")]
    assert "\\x1b[31m" in shown
    assert "\\u202e" in shown


def test_json_is_one_line_an_event_whatever_is_said(tmp_path):
    lines = [json.loads(line) for line in run(tmp_path, "json", ODD).splitlines()]

    assert ["it failed", "it failed", ODD] == [line["event"] for line in lines]


async def test_model_of_a_client_writes_no_escapes_on_the_console(tmp_path):
    async with serve_upstream() as upstream:
        upstream.script = [head(), send(text("fine") + FINISH + DONE)]
        model = ODD.partition("\n")[0]  # with a blank in it, a value is quoted anyhow
        body = json.dumps({**HELLO, "model": f"openai/{model}"})
        code = (
            "import re, subprocess, sys, urllib.request as r\n"
            f"p = subprocess.Popen([*{COMMAND!r}, '--port', '0'], stderr=subprocess.PIPE)\n"
            "while b'listening' not in (line := p.stderr.readline()): assert line\n"
            "url = re.search(rb'http://[0-9.:]+', line)[0].decode()\n"
            "q = r.Request(f'{url}/v1/chat', data=sys.argv[1].encode(),"
            " headers={'content-type': 'application/json'})\n"
            "r.urlopen(q).read()\n"
            "p.terminate(); sys.stdout.buffer.write(p.stderr.read()); p.wait()\n"
        )
        variables = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": upstream.base_url}
        env = environment(SESERAGI_LOG_FORMAT="console", **variables)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", code, body, cwd=tmp_path, env=env, stdout=subprocess.PIPE
        )
        out, _ = await asyncio.wait_for(process.communicate(), 30)

    shown = out.decode()
    assert "stream ended" in shown
    assert all(one.isprintable() or one == "\n" for one in shown)


async def test_lines_have_the_id_of_their_request_and_say_what_the_operator_has_to_mend(tmp_path):
    async with serve_upstream() as upstream:
        upstream.script = [send(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n")]
        lines = await asyncio.to_thread(_refused_key, tmp_path, upstream.base_url)
    ended = next(line for line in lines if line["event"] == "stream ended")

    assert ("req-7", "warning") == (ended["request_id"], ended["level"])
    assert ended["stream"].startswith("st_")
    assert "refused the relay's key; check its key on the server" in ended["error"]
    assert "sk-wrong" not in json.dumps(lines)
    draining = next(line for line in lines if line["event"] == "draining")
    assert (0, 5.0) == (draining["streams"], draining["drain_s"])
    assert "request_id" not in draining


def _refused_key(folder: Path, base_url: str) -> list[dict]:
    """Return the log of a relay whose provider refuses its key."""
    variables = {"OPENAI_API_KEY": "sk-wrong-0123456789", "OPENAI_BASE_URL": base_url}
    with running(cwd=folder, **variables) as (process, url):
        headers = {"content-type": "application/json", "x-request-id": "req-7"}
        body = json.dumps(HELLO).encode()
        request = urllib.request.Request(f"{url}/v1/chat", data=body, headers=headers)
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(request)
        process.send_signal(signal.SIGTERM)
        return [json.loads(line) for line in process.communicate(timeout=60)[1].splitlines()]
