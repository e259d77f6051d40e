"""Put faults into the code, and look whether seeds find them.

python -m tests.simulation.mutate [--minutes M] [--seed N] [NUMBER ...]

Each `[[mutation]]` of `mutations.toml` is made in a copy of the tree, where seeds run until one
breaks a law, at most for so long. The exit code is 1 if one is not found.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

from tests.mutations.__main__ import ROOT, Mutation, copy_tree

TABLE = Path(__file__).with_name("mutations.toml")


def read() -> list[Mutation]:
    """Return the mutations, named by what they break."""
    rows = tomllib.loads(TABLE.read_text(encoding="utf-8"))["mutation"]
    return [Mutation(row["name"], row["path"], row["before"], row["after"], ()) for row in rows]


def run(mutation: Mutation, *, seed: int, minutes: float) -> str:
    """Return the seed that finds a mutation, with its first sentence; "" for none."""
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        tree = Path(folder, "tree")
        copy_tree(ROOT, tree)
        mutation.apply(tree)
        command = [sys.executable, "-m", "tests.simulation", "--seed", str(seed), "--count", "0"]
        done = subprocess.run(
            [*command, "--minutes", str(minutes)],
            cwd=tree,
            capture_output=True,
            text=True,
            timeout=600 * minutes + 120,  # the machine may do other work
            check=False,
        )
    found = re.search(r"seed (\d+) breaks a law:\n *(.*)", done.stdout)
    if found is None and not re.search(r"\d+ seeds, 0 broken", done.stdout):
        return f"does not run: {done.stderr.strip().splitlines()[-1:]}"
    return "" if found is None else f"seed {found[1]}: {found[2]}"


def main() -> int:
    """Run the mutations, and print which seed finds which."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("numbers", nargs="*", type=int, help="of rows; without them all")
    options = parser.parse_args()
    missed = 0
    for number, mutation in enumerate(read(), 1):
        if options.numbers and number not in options.numbers:
            continue
        began = time.monotonic()
        found = run(mutation, seed=options.seed, minutes=options.minutes)
        missed += not found
        took_s = time.monotonic() - began
        print(
            f"{number:3} {mutation.name} ({took_s:.0f} s)\n    {found or 'NOT FOUND'}", flush=True
        )
    print(f"{missed} not found")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
