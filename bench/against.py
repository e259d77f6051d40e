"""This checkout and other commits, or interpreters, as relays to compare.

A commit has a worktree of its own. Settings are renamed from commit to commit, so each commit's
own `bench` names its command.
"""

import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from bench.load import Unavailable
from bench.relays import IMPORT, ROOT, Relay, own

PARTS = ("import", "rest", "idle", "requests", "dense", "flood")
"""What is compared by default; the rest of the table takes minutes."""
ASK = """
import json, platform, sys
import httptools, msgspec, uvloop  # our compiled modules: one without support enables the GIL
from bench.relays import own
build = platform.python_version() + sys.abiflags
if "t" in sys.abiflags and sys._is_gil_enabled():
    build += " with the GIL"
if hasattr(sys, "_jit") and sys._jit.is_enabled():
    build += " JIT"
print(json.dumps({"python": build, **vars(own())}))
"""


@contextlib.contextmanager
def checked_out(
    commits: Sequence[str], pythons: Sequence[str] = (sys.executable,)
) -> Iterator[list[Relay]]:
    """Return the relays of the commits, then that of this checkout, by each interpreter."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name, contextlib.ExitStack() as stack:
        checkouts: list[tuple[Path, str]] = []
        for commit in commits:
            folder = Path(name) / f"{len(checkouts)}"
            _git("worktree", "add", "--detach", str(folder), _hash_of(commit))
            stack.callback(_git, "worktree", "remove", "--force", str(folder))
            checkouts.append((folder, f"seseragi {commit}"))
        checkouts.append((ROOT, "seseragi"))
        several = len(pythons) > 1
        yield [
            relay_in(*checkout, python, versioned=several)
            for python in pythons
            for checkout in checkouts
        ]


def relay_in(folder: Path, name: str, python: str, *, versioned: bool = False) -> Relay:
    """Return the relay of a checkout, as its own `bench.relays.own` starts it.

    A `versioned` name ends with the version and build of the interpreter.
    """
    done = subprocess.run(
        [python, "-c", ASK], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Unavailable(f"{name}: cannot be started: {done.stderr.strip()[-300:]}")
    fields = json.loads(done.stdout)
    return replace(
        own(f"{name}, Python {fields['python']}" if versioned else name),
        command=tuple(fields["command"]),
        path=fields["path"],
        model=fields["model"],
        environ=fields["environ"],
        version=(),
        imported=(python, "-c", IMPORT),
    )


def _hash_of(commit: str) -> str:
    try:
        return _git("rev-parse", "--verify", "--end-of-options", f"{commit}^{{commit}}")
    except Unavailable:
        raise Unavailable(f"no commit {commit!r} in this clone") from None


def _git(*words: str) -> str:
    command = ["git", "-C", str(ROOT), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"git {words[0]}: {done.stderr.strip()}")
    return done.stdout.strip()
