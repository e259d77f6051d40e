"""Fuzzing: `python -m tests.fuzz TARGET`, for ever, or for `--seconds`.

Without a target, all of them share the seconds. A finding is written to `tests/fuzz/found/TARGET`,
where `tests/fuzz/test_targets.py` tests it from then on. Repeat one:

    python -m tests.fuzz TARGET tests/fuzz/found/TARGET/crash-...
"""

import argparse
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.fuzz.targets import NAMES, load

FOUND = Path(__file__).parent / "found"
SECONDS = 60
"""For all targets, where nothing else is given."""

LEAST_S = 2


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("target", nargs="?", choices=NAMES, help="all if left out")
    parser.add_argument("inputs", nargs="*", type=Path, help="files to check once")
    parser.add_argument("--seconds", type=int, default=0, help="for ever if left out")
    parser.add_argument("--seed", type=int, default=0, help="of the inputs; by chance if left out")
    parser.add_argument("--corpus", type=Path, help="a folder that keeps what reaches new code")
    chosen = parser.parse_args(arguments)
    for path in chosen.inputs:
        load(chosen.target).check(path.read_bytes())
        print(f"{path}: all laws hold")
    if chosen.inputs:
        return 0
    if importlib.util.find_spec("atheris") is None:
        if os.environ.get("CI") == "true":
            print("atheris is missing: pip install -r requirements-dev.lock", file=sys.stderr)
            return 1
        print("skipped: fuzzing needs atheris, which is not installed")
        return 0
    if chosen.target is not None:
        return fuzz(
            chosen.target,
            seconds=chosen.seconds,
            seed=chosen.seed,
            corpus=chosen.corpus,
            shown=True,
        )
    return fuzz_all(chosen.seconds or SECONDS, seed=chosen.seed)


def fuzz_all(seconds: int, *, seed: int = 0) -> int:
    """Fuzz each target; return how many have failed."""
    ends, failed = time.monotonic() + seconds, 0
    for number, name in enumerate(NAMES):
        left = (ends - time.monotonic()) / (len(NAMES) - number)
        failed += bool(fuzz(name, seconds=max(LEAST_S, round(left)), seed=seed))
    return failed


def fuzz(
    name: str, *, seconds: int, seed: int = 0, corpus: Path | None = None, shown: bool = False
) -> int:
    """Fuzz a target in a process of its own, which the fuzzer ends; return its status."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        command = [sys.executable, "-m", "tests.fuzz.process", name, str(seconds), str(seed)]
        done = subprocess.run(
            [*command, folder, *([str(corpus)] if corpus else [])],
            stdout=None if shown else subprocess.PIPE,
            stderr=None if shown else subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
        found = [
            path for kind in ("crash", "timeout", "oom") for path in Path(folder).glob(f"{kind}-*")
        ]
        for path in found:
            (FOUND / name).mkdir(parents=True, exist_ok=True)
            kept = FOUND / name / path.name
            kept.write_bytes(path.read_bytes())
            print(f"{name}: a finding: {kept}")
    if shown:
        return done.returncode
    runs = re.search(r"Done (\d+) runs", done.stdout)
    if done.returncode or not runs:
        print(done.stdout[-6000:])
        print(f"{name}: FAILED")
        return done.returncode or 1
    print(f"{name}: {runs[1]} inputs", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
