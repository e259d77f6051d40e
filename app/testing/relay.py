"""A relay for tests: the command on a free port, a scripted provider, a folder of cassettes."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import deque
from collections.abc import Iterator, Mapping
from http.client import HTTPException
from itertools import takewhile
from pathlib import Path
from typing import Final, Literal

from .upstream import Upstream, answer, start_upstream

STOP_S: Final = 5.0
"""How long the command may take to end; then it is killed."""

LINES: Final = 1000
"""How many of the last lines of its log are kept."""

LINES_TOLD: Final = 50
CALLS_TOLD: Final = 20
MOST_TOLD: Final = 500
"""Of the log, of calls, and bytes of the body of one: what is shown of a test that failed."""

LATE_S: Final = 5.0
"""How long a report waits for what the relay has yet to log."""

Record = Literal["off", "new", "replay"]

PACKAGE: Final = __name__.partition(".")[0]


class Log:
    """What a relay has logged."""

    def __init__(self) -> None:
        self.lines: deque[str] = deque(maxlen=LINES)
        self.ends = 0
        """How many streams it has told the end of."""

    def add(self, line: str) -> None:
        """Keep a line."""
        self.lines.append(line)
        self.ends += '"event":"stream ended"' in line


class Relay:
    """A relay that runs; ask it at `url`, in any dialect.

    The model `scripted/NAME`, of any name, is answered by `upstream`: a whole answer of two
    pieces, until a test writes another script.
    """

    def __init__(self, url: str, *, upstream: Upstream, cassettes: Path, log: Log) -> None:
        self.url = url
        self.api_url = f"{url}/v1"
        """What an SDK takes as its base URL."""
        self.upstream = upstream
        self.cassettes = cassettes
        """The folder: `NAME.jsonl` in it is the model `cassette/NAME`."""
        self._log = log
        self._latest = ""
        """The last line at the last `reset`."""

    @property
    def log(self) -> list[str]:
        """Return the last lines of the relay's log, JSON each."""
        return list(self._log.lines)

    def reset(self) -> None:
        """Have the provider answer as at the start, and forget what it was sent."""
        self.upstream.reset(*answer("Hello", "!"))
        self._latest = self._log.lines[-1] if self._log.lines else ""

    def report(self) -> list[tuple[str, str]]:
        """Return what has been asked and logged since the last `reset`, by titles.

        The pytest plugin adds it to the report of a test that failed.
        """
        calls = [
            f"{call.method} {call.path} {call.body[:MOST_TOLD].decode(errors='replace')}"
            for call in self.upstream.calls[-CALLS_TOLD:]
        ]
        self._catch_up()
        lines = list(takewhile(lambda line: line is not self._latest, reversed(self.log)))
        return [
            ("what the scripted provider was sent", "\n".join(calls) or "nothing"),
            ("log of the relay", "\n".join(lines[LINES_TOLD - 1 :: -1])),
        ]

    def _catch_up(self) -> None:
        """Wait for the line of each stream that has ended, which comes after its last event."""
        until = time.monotonic() + LATE_S
        while self._log.ends < self._ended() and time.monotonic() < until:
            time.sleep(0.01)

    def _ended(self) -> float:
        """Ask how many streams have ended; 0 of a relay that does not tell."""
        ask = urllib.request.build_opener(urllib.request.ProxyHandler({})).open
        try:
            with ask(f"{self.url}/metrics", timeout=LATE_S) as reply:
                lines = reply.read().decode().splitlines()
        except (OSError, HTTPException):
            return 0
        counts = (line for line in lines if line.startswith("seseragi_streams_ended_total"))
        return sum(float(count.rpartition(" ")[2]) for count in counts)


@contextlib.contextmanager
def start_relay(
    *,
    cassettes: Path | None = None,
    record: Record = "off",
    settings: Mapping[str, object] | None = None,
    dialect: str = "openai_chat",
    providers: bool = False,
    timeout_s: float = 60,
) -> Iterator[Relay]:
    """Run a relay in a process of its own, until the end of the `with`.

    Its providers are the demo, the cassettes and the scripted one, which speaks `dialect`. With
    `providers` those are added whose keys are in the environment: their calls cost money.
    `settings` are the relay's, by their names; `record` is `record_cassettes`. Without a folder
    of `cassettes` there is an empty one, which is removed.

    Raises:
        RuntimeError: it does not start, within `timeout_s`; with what it says of that.
    """
    with contextlib.ExitStack() as stack:
        own = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="seseragi-")))
        folder = own / "cassettes" if cassettes is None else cassettes.absolute()
        folder.mkdir(parents=True, exist_ok=True)
        upstream = stack.enter_context(start_upstream())
        config = own / "seseragi.toml"
        config.write_text(
            f"[upstream.scripted]\nbase_url = {json.dumps(upstream.base_url)}\n"
            f"dialect = {json.dumps(dialect)}\n"
        )
        said = {"default_model": "demo", "drain_s": 0, "record_cassettes": record}
        said |= {**(settings or {}), "cassettes": folder, "log_format": "json"}
        environ = _environ(said, providers=providers)
        log = Log()
        url = stack.enter_context(_run(own, config, environ, log, timeout_s=timeout_s))
        relay = Relay(url, upstream=upstream, cassettes=folder, log=log)
        relay.reset()
        yield relay


def _environ(settings: Mapping[str, object], *, providers: bool) -> dict[str, str]:
    """Return the environment of the command: nobody's settings, and no key that costs money."""
    left_out = set() if providers else _variables()
    environ = {
        name: value
        for name, value in os.environ.items()
        if name not in left_out and not name.startswith("SESERAGI_")
    }
    for name in ("NO_PROXY", "no_proxy"):
        environ[name] = ",".join(filter(None, (environ.get(name), "127.0.0.1", "localhost")))
    place = str(Path(__file__).parents[2])  # where the package is, installed or not
    environ["PYTHONPATH"] = os.pathsep.join(filter(None, (place, environ.get("PYTHONPATH"))))
    if not {"auth", "keys_file"} & settings.keys():  # tests have no key to send
        settings = {**settings, "auth": "none"}
    return environ | {f"SESERAGI_{name.upper()}": _text(said) for name, said in settings.items()}


def _text(value: object) -> str:
    """Write a setting as its variable has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _variables() -> set[str]:
    """Return the variables that would add a provider."""
    from ..upstreams.presets import PLACES, PRESETS

    found = {name for names in PLACES.values() for name in names}
    for preset in PRESETS.values():
        found |= {*preset.key_env, preset.base_url_env or ""}
    return found


@contextlib.contextmanager
def _run(
    own: Path, config: Path, environ: dict[str, str], log: Log, *, timeout_s: float
) -> Iterator[str]:
    command = [sys.executable, "-m", PACKAGE, "--port", "0", "--config", str(config)]
    # Its input ends with this process, and it with its input, also where this one is killed.
    process = subprocess.Popen(  # noqa: S603  (this interpreter, this package)
        [*command, "--stop-with-stdin"],
        cwd=own,
        env=environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    )
    listening = threading.Event()
    urls: list[str] = []

    def read() -> None:
        assert process.stdout is not None  # noqa: S101  (for mypy: it is a pipe)
        with process.stdout as lines:
            for line in lines:
                log.add(line.rstrip("\n"))
                if not urls and (url := _url_of(line)):
                    urls.append(url)
                    listening.set()
        listening.set()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        in_time = listening.wait(timeout_s)
        if not urls:
            why = "has ended" if in_time else f"does not listen after {timeout_s:g} s"
            raise RuntimeError("\n".join([f"the relay {why}:", *list(log.lines)[-20:]]))
        yield urls[0]
    finally:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdin is not None:
            process.stdin.close()
        reader.join(STOP_S)


def _url_of(line: str) -> str:
    """Return the URL of the line that says where the relay listens; "" for any other."""
    try:
        said = json.loads(line)
    except ValueError:
        return ""
    if not isinstance(said, dict) or said.get("event") != "listening":
        return ""
    return str(said["url"])
