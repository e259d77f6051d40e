"""The `seseragi` command as a process: start, bad starts, stop."""

import asyncio
import contextlib
import fcntl
import http.client
import io
import json
import os
import pty
import re
import resource
import signal
import socket
import subprocess
import sys
import termios
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO
from unittest.mock import patch

import pytest

from app.__main__ import INTERRUPTED, main
from app.identity.keys import digest
from app.testing.upstream import (
    DONE,
    FINISH,
    USAGE,
    Call,
    Step,
    Until,
    head,
    send,
    start_upstream,
    text,
)
from tests.waiting import wait_until

ROOT = Path(__file__).parent.parent.parent
COMMAND = [sys.executable, "-m", "app"]


def environment(**variables: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    return {**kept, "PYTHONPATH": str(ROOT), **variables}


def run_here(*arguments: str, cwd: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run the command in this process, which has imported all of it; it must not come to serve.

    To start a process takes most of a second, and what ends at once needs none of its own.
    """
    out, err, status = io.StringIO(), io.StringIO(), 0
    with (
        contextlib.chdir(cwd),
        patch.dict(os.environ, environment(**variables), clear=True),
        patch("app.commands.serve.serve", side_effect=AssertionError("it is about to serve")),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main([*arguments])
        except SystemExit as ended:
            status = int(ended.code or 0)
    return subprocess.CompletedProcess(arguments, status, out.getvalue(), err.getvalue())


@contextmanager
def started(
    *arguments: str,
    cwd: Path,
    variables: Mapping[str, str],
    command: Sequence[str] = tuple(COMMAND),
    prepare: Callable[[], None] | None = None,
) -> Iterator["subprocess.Popen[str]"]:
    """The command as a process with logs in JSON, which calls `prepare` before it begins."""
    with subprocess.Popen(
        [*command, "--port", "0", *arguments],
        cwd=cwd,
        env=environment(SESERAGI_LOG_FORMAT="json", **variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=prepare,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def running(
    *arguments: str, cwd: Path, command: Sequence[str] = tuple(COMMAND), **variables: str
) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """A running relay, with the address it says it listens on."""
    with started(*arguments, cwd=cwd, variables=variables, command=command) as process:
        assert process.stderr is not None
        lines = map(json.loads, process.stderr)
        yield process, next(line["url"] for line in lines if line["event"] == "listening")


def run(
    *command: str, cwd: Path, stdout: int | IO[bytes] = subprocess.PIPE
) -> "subprocess.CompletedProcess[str]":
    """Run a process to its end."""
    return subprocess.run(
        [sys.executable, *command],
        cwd=cwd,
        env=environment(),
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=50,
    )


def read_terminal(folder: Path, **variables: str) -> str:
    """What a relay writes to a terminal from its start to its end."""
    terminal, other = os.openpty()
    environ = environment(**variables)
    with subprocess.Popen(
        [*COMMAND, "--port", "0"], cwd=folder, env=environ, stdout=other, stderr=other
    ) as process:
        os.close(other)
        told = b""
        while b"/admin" not in told:
            told += os.read(terminal, 4096)
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(OSError):  # EIO: the other end is closed
            while more := os.read(terminal, 4096):
                told += more
    os.close(terminal)
    return told.decode().replace("\r\n", "\n")


def until_draining(process: subprocess.Popen[str]) -> None:
    """Wait until a relay says that it was told to stop: of two signals at once it sees one."""
    assert process.stderr is not None
    for line in process.stderr:
        if json.loads(line)["event"] == "draining":
            return


def ask(url: str, body: bytes) -> http.client.HTTPResponse:
    """POST a chat request; the answer is read as it comes."""
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(f"{url}/v1/chat", data=body, headers=headers)
    reply: http.client.HTTPResponse = urllib.request.urlopen(request)
    return reply


@pytest.mark.parametrize("paid", [False, True])
def test_start_on_a_terminal_says_in_a_few_lines_what_a_person_needs(tmp_path, paid):
    more = {"OPENAI_API_KEY": "sk-0123456789"} if paid else {}
    told, draining = read_terminal(tmp_path, **more).rsplit("\n\n", 1)
    rows = dict(re.findall(r"^ {4}(\w+) +(.+)$", told, re.MULTILINE))
    place, _, key = rows["Admin"].partition("/admin#key=")

    assert f"{place}/" + (f"#key={key}" if paid else "") == rows["Chat"]
    assert ("demo, openai; default: openai/" if paid else "demo; default: demo") in rows["Models"]
    assert ("'openai' may cost money" if paid else "everybody on this machine") in rows["Access"]
    assert "OPENAI_API_KEY=... seseragi" in told
    assert paid == ("seseragi key new NAME" in told)
    assert 12 >= len(told.splitlines())
    assert "listening" not in told
    assert "draining" in draining
    assert "sk-0123456789" not in told


def test_log_on_a_terminal_that_is_to_be_json_is_json(tmp_path):
    for paid in ({}, {"OPENAI_API_KEY": "sk-0123456789"}):
        told = read_terminal(tmp_path, SESERAGI_LOG_FORMAT="json", **paid)
        lines = [json.loads(line) for line in told.splitlines()]

        assert ["listening", "key for this run", "draining"] == [line["event"] for line in lines]
        assert lines[1].get("why") == ("'openai' may cost money" if paid else None)


HELLO = b'{"model":"demo-long","messages":[{"role":"user","content":"hi"}]}'
STOPS = [pytest.param(signal.SIGTERM, marks=pytest.mark.proving), signal.SIGINT]


@pytest.mark.parametrize("sent", STOPS)
def test_starts_serves_and_stops_cleanly(tmp_path, sent):
    with running(cwd=tmp_path) as (process, url):
        with urllib.request.urlopen(f"{url}/healthz") as reply:
            assert {"status": "ok"} == json.load(reply)
        with urllib.request.urlopen(url) as reply:
            assert b"<html" in reply.read()
        process.send_signal(sent)
        out, err = process.communicate(timeout=60)

        assert 0 == process.returncode
        assert "" == out
        assert "Traceback" not in err


WHILE_IT_IMPORTS = """
import runpy, signal, sys

class CtrlC:
    def find_spec(self, name, *_):
        if name == "app.relay":
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, CtrlC())
runpy.run_module("app", run_name="__main__")
"""
WHILE_IT_OPENS = """
import asyncio, signal
from app import __main__
from app.generation.hub import Hub

async def open_hub(_):
    signal.raise_signal(signal.SIGINT)
    await asyncio.sleep(60)

Hub.open = open_hub
__main__.main(["--port", "0"])
"""


@pytest.mark.parametrize(
    ("code", "status"), [(WHILE_IT_IMPORTS, -signal.SIGINT), (WHILE_IT_OPENS, INTERRUPTED)]
)
def test_ctrl_c_before_it_serves_ends_it_without_a_traceback(code, status, tmp_path):
    done = run("-c", code, cwd=tmp_path)

    assert (status, "", "") == (done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("arguments", [(), ("check",), ("key", "list"), ("prices",)])
def test_ctrl_c_ends_every_command_without_a_traceback(arguments, tmp_path):
    with (
        patch("app.commands.check.command.load_settings", side_effect=KeyboardInterrupt),
        patch("app.commands.prices.load_settings", side_effect=KeyboardInterrupt),
        patch("app.commands.keys.load_identity", side_effect=KeyboardInterrupt),
        # Last: the commands import it as they are imported.
        patch("app.settings.load.load_settings", side_effect=KeyboardInterrupt),
    ):
        done = run_here(*arguments, cwd=tmp_path)

    assert (INTERRUPTED, "", "") == (done.returncode, done.stdout, done.stderr)


@pytest.mark.proving
@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_stop_ends_open_streams_honestly(tmp_path, sent):
    with running(cwd=tmp_path, SESERAGI_DRAIN_S="0.5") as (process, url):
        with ask(url, HELLO) as reply:
            first = reply.read(2000)
            process.send_signal(sent)
            body = first + reply.read()
        _, err = process.communicate(timeout=60)

        lines = [line for line in body.split(b"\n") if line.startswith(b"data: ")]
        last = json.loads(lines[-1].removeprefix(b"data: "))
        assert ("stream.end", "interrupted") == (last["type"], last["status"])
        assert "producer_lost" == last["error"]["code"]
        assert 0 == process.returncode
        assert "Traceback" not in err
        assert "without completing" not in err


@pytest.mark.proving
def test_draining_lets_streams_end(tmp_path):
    with running(cwd=tmp_path, SESERAGI_DRAIN_S="30") as (process, url):
        with ask(url, b'{"max_tokens":30,"messages":[{"role":"user","content":"hi"}]}') as reply:
            first = reply.read(300)
            process.send_signal(signal.SIGTERM)
            body = first + reply.read()
        process.communicate(timeout=60)

        assert b'"status":"completed"' in body
        assert 0 == process.returncode


@pytest.mark.proving
def test_readers_come_back_to_a_relay_that_drains_alone(tmp_path):
    with start_upstream() as upstream:
        over, loops = Until(), []

        def choose(_: Call) -> list[Step]:
            loops.append(asyncio.get_running_loop())
            return [head(), send(text("hi")), over, send(FINISH + DONE)]

        upstream.choose = choose
        paid = {"OPENAI_API_KEY": "sk-test", "OPENAI_BASE_URL": upstream.base_url}
        paid["SESERAGI_AUTH"] = "none"
        with running(cwd=tmp_path, SESERAGI_DRAIN_S="60", **paid) as (process, url):
            with ask(
                url, b'{"model":"openai/m","messages":[{"role":"user","content":"hi"}]}'
            ) as reply:
                stream = reply.headers["stream-id"]
                process.send_signal(signal.SIGTERM)
                wait_until(lambda: draining(url))
                with urllib.request.urlopen(f"{url}/v1/streams/{stream}/events") as again:
                    loops[0].call_soon_threadsafe(over.told.set)
                    assert b'"status":"completed"' in again.read()
            process.communicate(timeout=60)


def draining(url: str) -> bool:
    try:
        urllib.request.urlopen(f"{url}/readyz").close()
    except urllib.error.HTTPError as refused:
        with refused:
            return json.load(refused) == {"status": "draining"}
    return False


@pytest.mark.parametrize(
    "arguments", [(), pytest.param(("--workers", "2", "--log", "sqlite:///log.db"))]
)
def test_operator_port_stays_until_what_a_drain_ended_has_been_scraped(tmp_path, arguments):
    variables = {"SESERAGI_OPERATOR_PORT": "0", "SESERAGI_DRAIN_S": "0.2"}
    with started(*arguments, cwd=tmp_path, variables=variables) as process:
        assert process.stderr is not None
        lines = map(json.loads, process.stderr)
        said = next(line for line in lines if line["event"] == "listening")
        operator = said["operator_url"]
        ended = (
            'seseragi_streams_ended_total{code="producer_lost",ended_by="shutdown",'
            'route="demo",status="interrupted"} '
        )

        def scrape() -> str:
            with urllib.request.urlopen(f"{operator}/metrics") as reply:
                text: str = reply.read().decode()
            return text

        assert f"{ended}0.0" in scrape()
        with ask(said["url"], HELLO) as reply:
            first = reply.read(1000)
            process.send_signal(signal.SIGTERM)
            assert b'"status":"interrupted"' in first + reply.read()
        began = time.monotonic()
        last = ""
        while process.poll() is None:
            with contextlib.suppress(OSError):  # refused, or reset, by the one that exits
                last = scrape()
        process.communicate(timeout=60)

        assert f"{ended}1.0" in last
        assert 0 == process.returncode
        assert time.monotonic() - began < 10  # not the 20 s of last_scrape_s


def test_operator_port_has_the_operators_paths_alone(tmp_path):
    with started(cwd=tmp_path, variables={"SESERAGI_OPERATOR_PORT": "0"}) as process:
        assert process.stderr is not None
        lines = map(json.loads, process.stderr)
        url = next(line for line in lines if line["event"] == "listening")["operator_url"]

        answers, headers = {}, {}
        for path in ("/metrics", "/healthz", "/readyz", "/admin", "/static/admin.js", "/",
                     "/v1/models", "/v1/chat", "/v1/streams/st_none/events"):  # fmt: skip
            try:
                with urllib.request.urlopen(f"{url}{path}") as reply:
                    answers[path] = reply.read().decode()
            except urllib.error.HTTPError as refused:
                with refused:
                    answers[path] = f"{refused.code} {refused.read().decode()}"
                    headers[path] = refused.headers
    elsewhere = {path for path, answer in answers.items() if "not on the operator's port" in answer}
    assert {"/", "/v1/models", "/v1/chat"} == elsewhere
    assert {*elsewhere, "/v1/streams/st_none/events"} == {
        path for path, answer in answers.items() if answer.startswith("404 ")
    }
    for path in elsewhere:
        assert "nosniff" == headers[path]["x-content-type-options"]
        assert headers[path]["x-request-id"].startswith("req_")


@pytest.mark.proving
def test_second_signal_hastens(tmp_path):
    with running(cwd=tmp_path, SESERAGI_DRAIN_S="60") as (process, url):
        with ask(url, HELLO) as reply:
            reply.read(1000)
            process.send_signal(signal.SIGTERM)
            until_draining(process)
            assert process.poll() is None
            process.send_signal(signal.SIGTERM)
            body = reply.read()
        process.communicate(timeout=60)

        assert b'"status":"interrupted"' in body
        assert 0 == process.returncode


def start_with_files(folder: Path, soft: int, hard: int, **variables: str):
    """Start a relay that may open so many files; give the limits it has then, and its first line."""
    limit = partial(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
    with started(cwd=folder, variables=variables, prepare=limit) as process:
        assert process.stderr is not None
        line = json.loads(process.stderr.readline())
        return resource.prlimit(process.pid, resource.RLIMIT_NOFILE), line


@pytest.mark.proving
def test_as_many_files_may_be_open_as_the_system_lets(tmp_path):
    limits, line = start_with_files(tmp_path, 100, 1000, SESERAGI_MAX_STREAMS="450")

    assert (1000, 1000) == limits
    assert "listening" == line["event"]


@pytest.mark.proving
def test_too_few_files_for_all_streams_are_told_at_the_start(tmp_path):
    _, line = start_with_files(tmp_path, 100, 1000)

    assert ("warning", 1000, 4100) == (line["level"], line["allowed"], line["needed"])
    assert "max_streams" in line["event"]


LIMITED = "[limits.user]\nusd_per_day = 1\n[tenant.shop]\nstreams = 9\n[tenant.shpo]\nstreams = 9\n"
KEY = '[[key]]\nname = "backend"\ntenant = "shop"\nsha256 = "{}"\n'


@pytest.mark.proving
@pytest.mark.parametrize(
    ("more", "tables"),
    [
        ("", ["[limits.user]", "[tenant.shop]", "[tenant.shpo]"]),
        (KEY.format("0" * 64), ["[tenant.shpo]"]),
    ],
)
def test_limits_that_hold_for_nobody_are_told_at_the_start(tmp_path, more, tables):
    config = tmp_path / "seseragi.toml"
    config.write_text(LIMITED + more)
    _, line = start_with_files(tmp_path, 9999, 9999, SESERAGI_CONFIG=str(config))

    assert ("warning", tables) == (line["level"], line["tables"])
    assert "have no effect" in line["event"]


@pytest.mark.proving
def test_contradictions_are_told_at_the_start(tmp_path):
    _, line = start_with_files(tmp_path, 9999, 9999, SESERAGI_TOTAL_TIMEOUT_S="9")

    assert ("warning", "settings contradict each other") == (line["level"], line["event"])
    assert line["why"].startswith("total_timeout_s: 9 s is below first_event_timeout_s (300 s)")


def test_version_and_help():
    version = run_here("--version", cwd=ROOT)
    shown = run_here("--help", cwd=ROOT)

    assert (0, "seseragi ") == (version.returncode, version.stdout[:9])
    assert 0 == shown.returncode
    for option in ("--host", "--port", "--config", "--version"):
        assert option in shown.stdout


BAD_STARTS = [
    ("unknown option", ["--prot", "1"], {}, "--prot"),
    ("port as text", ["--port", "web"], {}, "--port: 'web' cannot be used"),
    ("port too high", ["--port", "70000"], {}, "--port"),
    ("missing file", ["--config", "no.toml"], {}, "no.toml: file not found"),
    ("a folder as file", ["--config", "."], {}, "cannot be read"),
    ("bad variable", [], {"SESERAGI_STATUS_WAIT_S": "soon"}, "SESERAGI_STATUS_WAIT_S"),
    ("host of nobody", ["--host", "no.such.host.invalid"], {}, "'no.such.host.invalid'"),
    ("host that is no name", ["--host", "a..b"], {}, "'a..b'"),
    ("host of another machine", ["--host", "192.0.2.1"], {}, "192.0.2.1"),
    ("unknown default model", [], {"SESERAGI_DEFAULT_MODEL": "nope"}, "unknown model 'nope'"),
]


@pytest.mark.parametrize(("arguments", "variables", "told"), [row[1:] for row in BAD_STARTS], ids=[row[0] for row in BAD_STARTS])  # fmt: skip
def test_bad_start_says_why_in_one_line(arguments, variables, told, tmp_path):
    done = run_here(*arguments, cwd=tmp_path, **variables)

    assert 2 == done.returncode
    assert "" == done.stdout
    assert 1 == len(done.stderr.splitlines()), done.stderr
    assert done.stderr.startswith("seseragi: ")
    assert told in done.stderr


def test_taken_port_is_named(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run("-m", "app", "--port", str(port), cwd=tmp_path)

    assert (2, "") == (done.returncode, done.stdout)
    assert 1 == len(done.stderr.splitlines())
    assert f"port {port}" in done.stderr
    assert "--port" in done.stderr


def test_key_that_cannot_be_shown_is_told_of(tmp_path):
    with open("/dev/full", "wb") as full:
        done = run("-m", "app", "key", "new", "app", cwd=tmp_path, stdout=full)

    assert 2 == done.returncode
    assert "could not be printed: no space left on device; revoke 'app'" in done.stderr
    assert "Traceback" not in done.stderr


GRACE_S = 60
PATIENT = [
    *(sys.executable, "-c"),
    f"from app import __main__\nfrom app.server import server\nserver.GRACE_S = {GRACE_S}\n__main__.main()",
]
"""The command, with what it leaves to connections at its end so long that it cannot be missed."""


@pytest.mark.proving
def test_stop_does_not_wait_for_idle_connections(tmp_path):
    with running(cwd=tmp_path, command=PATIENT) as (process, url):
        client = http.client.HTTPConnection(url.removeprefix("http://"))
        client.request("GET", "/healthz")
        client.getresponse().read()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=GRACE_S / 2)

        assert 0 == process.returncode
        client.close()


@pytest.mark.proving
def test_stop_does_not_wait_for_half_a_request(tmp_path):
    with running(cwd=tmp_path) as (process, url):
        port = int(url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(
                b"POST /v1/chat HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
                b"content-length: 100\r\n\r\n{"
            )
            # It is read before what is asked after it.
            urllib.request.urlopen(f"{url}/healthz").close()
            process.send_signal(signal.SIGTERM)
            answer = b""
            while data := client.recv(65536):
                answer += data
        _, err = process.communicate(timeout=60)

    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b'"code":"overloaded"' in answer
    assert 0 == process.returncode
    assert "Traceback" not in err
    assert '"level": "error"' not in err


PRICED = """
passthrough = false
drain_s = {drain_s}

[[route]]
name = "{route}"
targets = ["openai/m"]

[[price]]
target = "openai/m"
input = {price}
output = {price}

[[key]]
name = "{key}"
sha256 = "{sha256}"
roles = ["admin"]
"""


@pytest.mark.parametrize(
    "arguments", [(), pytest.param(("--workers", "2", "--log", "sqlite:///log.db"))]
)
def test_sighup_reloads_routes_prices_and_keys_and_what_runs_goes_on(tmp_path, arguments):
    config = tmp_path / "seseragi.toml"

    def write(route: str, *, key: str, price: int, drain_s: int = 60) -> None:
        text = PRICED.format(
            route=route, key=key, sha256=digest(f"ssk_{key}"), price=price, drain_s=drain_s
        )
        config.write_text(text)

    def ask_for(model: str, key: str) -> http.client.HTTPResponse:
        body = {"model": model, "messages": [{"role": "user", "content": "hi"}]}
        request = urllib.request.Request(
            f"{url}/v1/chat",
            data=json.dumps(body).encode(),
            headers={"authorization": f"Bearer ssk_{key}", "content-type": "application/json"},
        )
        reply: http.client.HTTPResponse = urllib.request.urlopen(request)
        return reply

    def status_of(model: str, key: str) -> int:
        try:
            with ask_for(model, key) as reply:
                return 200 if b'"status":"completed"' in reply.read() else 0
        except urllib.error.HTTPError as refused:
            refused.close()
            return refused.code

    write("fast", key="one", price=1)
    with start_upstream() as upstream:
        over, loops = Until(), []
        answer: list[Step] = [head(), send(text("hi")), send(FINISH + USAGE + DONE)]

        def choose(_: Call) -> list[Step]:
            loops.append(asyncio.get_running_loop())
            return [head(), over, *answer[1:]] if len(loops) == 1 else answer

        upstream.choose = choose
        paid = {"OPENAI_API_KEY": "sk-test", "OPENAI_BASE_URL": upstream.base_url}
        with started(*arguments, cwd=tmp_path, variables=paid) as process:
            assert process.stderr is not None
            lines = map(json.loads, process.stderr)

            def said(event: str) -> dict:
                return next(line for line in lines if line["event"].startswith(event))

            url = said("listening")["url"]
            with ask_for("fast", "one") as before:
                config.write_text("drain_s = 'soon'")
                process.send_signal(signal.SIGHUP)
                assert "drain_s" in said("settings are not reloaded")["why"]
                assert 404 == status_of("other", "one")
                write("other", key="two", price=3, drain_s=30)
                process.send_signal(signal.SIGHUP)
                assert ["drain_s"] == said("settings are reloaded")["settings"]
                wait_until(lambda: {200} == {status_of("other", "two") for _ in range(4)})
                assert (404, 401) == (status_of("fast", "two"), status_of("other", "one"))
                with ask_for("other", "two") as after:
                    assert b'"cost":"0.000015"' in after.read()
                loops[0].call_soon_threadsafe(over.told.set)
                assert b'"cost":"0.000005"' in before.read()
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)
            assert 0 == process.returncode


def test_the_end_of_its_terminal_stops_it(tmp_path):
    ours, theirs = pty.openpty()

    def take_terminal() -> None:
        os.setsid()
        fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)

    with started(cwd=tmp_path, variables={}, prepare=take_terminal) as process:
        assert process.stderr is not None
        next(line for line in process.stderr if "listening" in line)
        os.close(theirs)
        os.close(ours)
        process.communicate(timeout=60)
        assert 0 == process.returncode
