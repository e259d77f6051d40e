"""Builds the load generator (`load.c`) at first use and runs it.

What it prints becomes a `Result`. Times are milliseconds, `us_per_token` is microseconds of
the relay's CPU. A token that is missing, repeated or out of place is in `errors`.
"""

import hashlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import msgspec

SOURCE = Path(__file__).with_name("load.c")
BUILT = Path(__file__).with_name(".build")


KEY = "sk-bench"
"""What the clients show a relay that knows no keys, and it a provider."""


class Unavailable(Exception):
    """Something that the benchmark needs is not there; the message says what to do."""


class Times(msgspec.Struct, frozen=True):
    n: int = 0
    p50: float = 0.0
    p90: float = 0.0
    p99: float = 0.0
    p999: float = 0.0
    max: float = 0.0


class Result(msgspec.Struct, frozen=True):
    streams: int
    tokens: int
    written: int
    requests: int
    seconds: float
    generator_busy: float
    errors: dict[str, int]
    first_error: str = ""
    cpu_s: float = 0.0
    each_cpu_s: tuple[float, ...] = ()
    """Of the target's process, then of the others that were to be counted."""
    busy: float = 0.0
    us_per_token: float = 0.0
    us_per_request: float = 0.0
    kib_per_stream: float = 0.0
    cut: int = 0
    told: int = 0
    added_ms: Times = Times()
    first_ms: Times = Times()
    whole_ms: Times = Times()
    noticed_ms: Times = Times()
    late_ms: Times = Times()

    @property
    def complaint(self) -> str:
        """What went wrong, in words; empty if nothing did."""
        found = ", ".join(f"{count} {name}" for name, count in self.errors.items() if count)
        return f"{found} ({self.first_error})" if found and self.first_error else found


@dataclass(frozen=True)
class Target:
    """What the clients speak to, and whose CPU and memory are counted."""

    port: int
    pid: int | None
    path: str = "/v1/chat/completions"
    model: str = "bench"
    headers: tuple[str, ...] = ()
    key: str = KEY
    others: tuple[int, ...] = ()
    """Further processes to count."""


@dataclass(frozen=True)
class Load:
    """The load generator, on a core of its own; its upstream listens on `upstream_port`."""

    program: Path
    core: int
    upstream_port: int

    def __call__(self, mode: str, target: Target, **options: float | str) -> Result:
        """Run a mode; `max_streams=5` is `--max-streams 5`."""
        done = subprocess.run(
            [*self._command(mode, target), *_words(options)],
            stdout=subprocess.PIPE,
            preexec_fn=lambda: os.sched_setaffinity(0, {self.core}),
            check=False,
        )
        if done.returncode not in (0, 1):
            raise Unavailable(f"the load generator ended with {done.returncode}")
        return msgspec.json.decode(done.stdout, type=Result)

    def _command(self, mode: str, target: Target) -> list[str]:
        words = [str(self.program), mode, "--listen", str(self.upstream_port)]
        words += ["--relay", str(target.port), "--path", target.path, "--model", target.model]
        words += ["--key", target.key]
        for header in target.headers:
            words += ["--header", header]
        pids = target.others if target.pid is None else (target.pid, *target.others)
        return words + [word for pid in pids for word in ("--pid", f"{pid}")]


def _words(options: dict[str, float | str]) -> list[str]:
    return [
        word
        for name, value in options.items()
        for word in (f"--{name.replace('_', '-')}", f"{value}")
    ]


def build() -> Path:
    """Compile the load generator if its source is newer than what there is."""
    name = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]
    program = BUILT / f"load-{name}"
    if program.exists():
        return program
    compiler = shutil.which(os.environ.get("CC") or "cc")
    if compiler is None:
        raise Unavailable(
            "no C compiler to build the load generator; apt-get install gcc libc6-dev"
        )
    BUILT.mkdir(exist_ok=True)
    fresh = BUILT / f"{name}.{os.getpid()}"
    done = subprocess.run(
        [compiler, "-O2", "-o", fresh, SOURCE], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Unavailable(f"{compiler} cannot build the load generator: {done.stderr.strip()}")
    fresh.rename(program)
    return program
