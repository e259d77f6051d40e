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
from app.testing.upstream import send, serve_upstream
from tests.commands.test_command import environment, running
from tests.serving import HELLO

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

def fail(prompt, depth, message):
    if depth:
        return fail(prompt, depth - 1, message) + 1
    key = "".join(["sk-", "secret"])
    raise ValueError(message)

for message in sys.argv[2:]:
    for log in (structlog.get_logger("ours").exception, logging.getLogger("theirs").exception):
        try:
            fail("".join(["conver", "sation"]), 3, message)
        except ValueError:
            log("it failed")
    structlog.get_logger("ours").info(message, value=message, values=[message], half="\\ud800")
    print("next message", file=sys.stderr)
"""


MESSAGES = {"plain": "wrong", "long": "x" * 50_000, "odd": ODD}


@pytest.fixture(scope="module", params=["console", "json"])
def shown(request: pytest.FixtureRequest, tmp_path_factory) -> dict[str, str]:
    """What a process writes of each message, in a form of the log."""
    folder: Path = tmp_path_factory.mktemp("logs")
    (folder / "rich").mkdir()
    for name, content in RICH.items():
        (folder / "rich" / name).write_text(content)
    done = subprocess.run(
        [sys.executable, "-c", FAILING, request.param, *MESSAGES.values()],
        env={
            **environment(),
            "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)]),
            "PYTHONIOENCODING": "utf-8",
        },
        capture_output=True,
        check=True,
        encoding="utf-8",
    )
    parts = done.stderr.split("next message\n")
    return dict(zip(("form", *MESSAGES), (request.param, *parts), strict=False))


def test_traceback_has_no_values_of_variables(shown):
    assert 2 == shown["plain"].count("ValueError: wrong")
    assert "sk-secret" not in shown["plain"]
    assert "conversation" not in shown["plain"]


def test_long_traceback_is_cut_in_its_middle(shown):
    assert 2 == shown["long"].count("Traceback (most recent call last)")
    assert len(shown["long"]) < 2 * MAX_EXCEPTION + 3 * 50_000 + 5_000


def test_what_is_said_forges_no_line_and_is_nothing_that_a_terminal_obeys(shown):
    lines = shown["odd"].splitlines()
    if shown["form"] == "json":
        assert ["it failed", "it failed", ODD] == [json.loads(line)["event"] for line in lines]
        return
    assert all(one.isprintable() or one == "\n" for one in shown["odd"])
    assert not [line for line in lines if line.startswith("2026 [info] forged")]
    assert "\\x1b[31m" in shown["odd"]
    assert "\\u202e" in shown["odd"]


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
    variables["SESERAGI_AUTH"] = "none"
    with running(cwd=folder, **variables) as (process, url):
        headers = {"content-type": "application/json", "x-request-id": "req-7"}
        body = json.dumps(HELLO).encode()
        request = urllib.request.Request(f"{url}/v1/chat", data=body, headers=headers)
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request)
        refused.value.close()
        process.send_signal(signal.SIGTERM)
        return [json.loads(line) for line in process.communicate(timeout=60)[1].splitlines()]
