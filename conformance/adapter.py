"""A client under test: a process that takes and answers JSON lines."""

import contextlib
import json
import os
import queue
import shlex
import subprocess
import threading
from typing import Any

STOP_S = 5.0


class AdapterError(Exception):
    """The adapter gave no usable answer; the text says what it did."""


class Adapter:
    """The process of a command. It is started when needed, and again after a fault."""

    def __init__(self, command: str, *, timeout_s: float) -> None:
        self._command = shlex.split(command)
        self._timeout_s = timeout_s
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def __enter__(self) -> "Adapter":
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send a case and return the report.

        Raises:
            AdapterError: no report came in time, or it is none.
        """
        try:
            return self._ask(request)
        except AdapterError:
            self._stop()
            raise

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        process = self._process or self._start()
        assert process.stdin is not None  # noqa: S101  (for mypy: it is a pipe)
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            line = self._lines.get(timeout=self._timeout_s)
        except queue.Empty:
            raise AdapterError(f"the client did not report within {self._timeout_s:g} s") from None
        except OSError:
            line = None
        if line is None:
            raise AdapterError("the adapter ended without a report; its stderr may say why")
        try:
            report = json.loads(line)
        except ValueError:
            raise AdapterError(f"the adapter printed no JSON: {line[:200]!r}") from None
        if not isinstance(report, dict):
            raise AdapterError(f"the adapter printed no JSON object: {line[:200]!r}")
        return report

    def _start(self) -> subprocess.Popen[str]:
        try:
            process = subprocess.Popen(  # noqa: S603  (the command is what the user tests)
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                encoding="utf-8",
                errors="replace",
                env={**os.environ, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"},
            )
        except OSError as error:
            raise AdapterError(f"{self._command[0]}: cannot be started: {error.strerror}") from None
        lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()

        def read() -> None:
            assert process.stdout is not None  # noqa: S101  (for mypy: it is a pipe)
            with process.stdout as output:
                for line in output:
                    lines.put(line)
            lines.put(None)

        threading.Thread(target=read, daemon=True).start()
        self._process, self._lines = process, lines
        return process

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            with contextlib.suppress(OSError):  # it has ended
                process.stdin.close()
        try:
            process.wait(0.2)
        except subprocess.TimeoutExpired:
            process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
