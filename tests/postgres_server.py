"""A real PostgreSQL for the tests, on a free port; it can be stopped, killed and started again."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.needs import missing
from tests.ports import free_port


def _binaries() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    on_path = shutil.which("postgres")
    if not found and on_path is None:
        missing("no postgres under /usr/lib/postgresql or on the path")
    return found[-1].parent if found else Path(str(on_path)).parent


class PostgresServer:
    """A PostgreSQL with one database, `test`, whose owner needs no password."""

    def __init__(self) -> None:
        self.port = free_port()
        self.url = f"postgresql://postgres@127.0.0.1:{self.port}/test"
        self._bin = _binaries()
        # Not below pytest's folders, which only their owner may enter.
        self._folder = Path(tempfile.mkdtemp(prefix="seseragi-postgres-"))
        self._data = self._folder / "data"
        self._process: subprocess.Popen[bytes] | None = None
        # It refuses to run as root.
        self._as: Sequence[str] = ()
        if os.geteuid() == 0:
            self._as = ("setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups")
            shutil.chown(self._folder, "postgres", "postgres")

    def make(self) -> None:
        self._run("initdb", "-D", self._data, "-U", "postgres", "-A", "trust", "-N", "-E", "UTF8")
        self.start()
        self._run("createdb", "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "test")

    def _run(self, program: str, *arguments: object) -> None:
        command = [*self._as, str(self._bin / program), *map(str, arguments)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd="/")

    def start(self) -> None:
        deadline = time.monotonic() + 30
        while self._process is None or not self._answers():
            # It gives up while a process of the one before, which was killed, is there yet.
            if self._process is None or self._process.poll() is not None:
                self._process = self._launch()
            assert time.monotonic() < deadline, "PostgreSQL does not come up"
            time.sleep(0.05)

    def _launch(self) -> "subprocess.Popen[bytes]":
        options = [*("-p", str(self.port)), *("-h", "127.0.0.1"), *("-k", "")]
        options += ["-c", "max_connections=60", "-c", "shared_buffers=16MB"]
        return subprocess.Popen(
            [*self._as, str(self._bin / "postgres"), "-D", str(self._data), *options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
        )

    def _answers(self) -> bool:
        command = [str(self._bin / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        return subprocess.run(command, check=False).returncode == 0

    def kill(self) -> None:
        """Kill it as a power cut would: all its processes, without a word."""
        if self._process is None:
            return
        pid = int((self._data / "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for one in (pid, *map(int, children)):
            try:
                os.kill(one, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self._process.wait()
        self._process = None

    def stop(self) -> None:
        """Stop it as an operator would who is in a hurry."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait()
            self._process = None

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self._folder)

    def empty(self) -> None:
        """Remove all tables."""
        self.ask("DROP SCHEMA public CASCADE")
        self.ask("CREATE SCHEMA public")

    def ask(self, sql: str) -> list[list[str]]:
        """Run a statement with psql; return the cells of its rows."""
        done = subprocess.run(
            [self._bin / "psql", "-X", "-A", "-t", "-F", "\t", "-c", sql, self.url],
            check=True,
            capture_output=True,
            text=True,
        )
        return [line.split("\t") for line in done.stdout.splitlines()]


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    server = PostgresServer()
    try:
        server.make()
        yield server
    finally:
        server.remove()
