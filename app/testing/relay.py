"""A relay for tests: the command on a free port, a scripted provider, a folder of cassettes."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from itertools import takewhile
from pathlib import Path
from typing import Final, Literal

from ..dialects.upstream_formats import USUAL
from .upstream import Upstream, answer, start_upstream

STOP_S: Final = 5.0
"""The time for the command to exit; then it is killed."""

LINES: Final = 1000
"""The number of stored log lines."""

REPORTED_LINES: Final = 50
REPORTED_CALLS: Final = 20
REPORTED_BYTES: Final = 500
"""Limits of the report of a failed test: log lines, calls, and bytes of each body."""

LATE_S: Final = 0.5
"""How long a report waits for the relay's last log lines, which follow the end of an answer."""

Record = Literal["off", "new", "replay"]

PACKAGE: Final = __name__.partition(".")[0]


class Relay:
    """A running relay, which serves all client formats at `url`.

    `upstream` answers the model `scripted/NAME`, of any name: with two pieces, until a test sets
    another script.
    """

    def __init__(self, url: str, *, upstream: Upstream, cassettes: Path, log: deque[str]) -> None:
        self.url = url
        self.api_url = f"{url}/v1"
        """The base URL for SDKs."""
        self.upstream = upstream
        self.cassettes = cassettes
        """The folder; its `NAME.jsonl` is the model `cassette/NAME`."""
        self._log = log
        self._latest = ""
        """The last line at the last `reset`."""

    @property
    def log(self) -> list[str]:
        """Return the last lines of the relay's log, JSON each."""
        return list(self._log)

    def reset(self) -> None:
        """Reset the provider's script, and clear its calls."""
        self.upstream.reset(*answer("Hello", "!"))
        self._latest = self._log[-1] if self._log else ""

    def report(self) -> list[tuple[str, str]]:
        """Return the calls and log lines since the last `reset`, with titles.

        The pytest plugin adds it to the report of a test that failed.
        """
        calls = [
            f"{call.method} {call.path} {call.body[:REPORTED_BYTES].decode(errors='replace')}"
            for call in self.upstream.calls[-REPORTED_CALLS:]
        ]
        time.sleep(LATE_S)
        lines = list(takewhile(lambda line: line is not self._latest, reversed(self.log)))
        return [
            ("what the scripted provider was sent", "\n".join(calls) or "nothing"),
            ("log of the relay", "\n".join(lines[REPORTED_LINES - 1 :: -1])),
        ]


@contextlib.contextmanager
def start_relay(
    *,
    cassettes: Path | None = None,
    record: Record = "off",
    settings: Mapping[str, object] | None = None,
    dialect: str = USUAL,
    providers: bool = False,
    timeout_s: float = 60,
) -> Iterator[Relay]:
    """Run a relay in its own process until the end of the `with`.

    Its providers are the demo, the cassettes and the scripted one, which speaks `dialect`.
    `providers` adds those whose keys are in the environment: their calls cost money. `settings`
    are the relay's, by name; `record` is `record_cassettes`. Without a folder of `cassettes` it
    has an empty temporary one.

    Raises:
        RuntimeError: it does not start within `timeout_s`; the text has its last log lines.
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
        chosen = {"default_model": "demo", "drain_s": 0, "record_cassettes": record}
        chosen |= {**(settings or {}), "cassettes": folder, "log_format": "json"}
        environ = _environ(chosen, providers=providers)
        log: deque[str] = deque(maxlen=LINES)
        url = stack.enter_context(_run(own, config, environ, log, timeout_s=timeout_s))
        relay = Relay(url, upstream=upstream, cassettes=folder, log=log)
        relay.reset()
        yield relay


def _environ(settings: Mapping[str, object], *, providers: bool) -> dict[str, str]:
    """Return the command's environment, without other settings of the relay or provider keys."""
    left_out = set() if providers else _variables()
    environ = {
        name: value
        for name, value in os.environ.items()
        if name not in left_out and not name.startswith("SESERAGI_")
    }
    for name in ("NO_PROXY", "no_proxy"):
        environ[name] = ",".join(filter(None, (environ.get(name), "127.0.0.1", "localhost")))
    root = str(Path(__file__).parents[2])  # of the package, installed or not
    environ["PYTHONPATH"] = os.pathsep.join(filter(None, (root, environ.get("PYTHONPATH"))))
    if not {"auth", "keys_file"} & settings.keys():  # tests have no key to send
        settings = {**settings, "auth": "none"}
    return environ | {f"SESERAGI_{name.upper()}": _text(value) for name, value in settings.items()}


def _text(value: object) -> str:
    """Format a setting as the value of its environment variable."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _variables() -> set[str]:
    """Return the environment variables that would add a provider."""
    from ..upstreams.presets import PLACES, PRESETS

    found = {name for names in PLACES.values() for name in names}
    for preset in PRESETS.values():
        found |= {*preset.key_env, preset.base_url_env or ""}
    return found


@contextlib.contextmanager
def _run(
    own: Path, config: Path, environ: dict[str, str], log: deque[str], *, timeout_s: float
) -> Iterator[str]:
    command = [sys.executable, "-m", PACKAGE, "--port", "0", "--config", str(config)]
    # Its stdin closes when this process ends, even if killed, and then the command ends too.
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
                log.append(line.rstrip("\n"))
                if not urls and (url := _url_of(line)):
                    urls.append(url)
                    listening.set()
        listening.set()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        in_time = listening.wait(timeout_s)
        if not urls:
            why = "has exited" if in_time else f"does not listen after {timeout_s:g} s"
            raise RuntimeError("\n".join([f"the relay {why}:", *list(log)[-20:]]))
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
    """Return the URL of the log line `listening`; "" for any other line."""
    try:
        fields = json.loads(line)
    except ValueError:
        return ""
    if not isinstance(fields, dict) or fields.get("event") != "listening":
        return ""
    return str(fields["url"])
