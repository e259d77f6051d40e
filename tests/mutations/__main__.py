"""Break the code on purpose, and check that the tests notice.

python -m tests.mutations [--tree DIR] [FILE or FILE:NUMBER ...]

Each `[[mutation]]` of the TOML files beside this one replaces `before` by `after` in `path` and
names the `tests` that have to fail. A mutation is made in a copy of the tree; `--tree` takes
another checkout than this one, such as an older commit. The exit code is 1 if one survives.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
TIMEOUT_S = 300


class Mutation(NamedTuple):
    """One change of the code."""

    name: str
    path: str
    before: str
    after: str
    tests: Sequence[str]

    def apply(self, tree: Path) -> None:
        """Make the change in a tree.

        Raises:
            ValueError: the text to be replaced is not there, or more than once.
        """
        file = tree / self.path
        text = file.read_text(encoding="utf-8")
        if (found := text.count(self.before)) != 1:
            raise ValueError(f"{self.name}: {self.before!r} is {found} times in {self.path}")
        file.write_text(text.replace(self.before, self.after), encoding="utf-8")


def read(names: Sequence[str] = ()) -> Iterator[Mutation]:
    """Yield the mutations of the files, or those that are named."""
    for file in sorted(HERE.glob("*.toml")):
        rows = tomllib.loads(file.read_text(encoding="utf-8"))["mutation"]
        for number, row in enumerate(rows, 1):
            name = f"{file.stem}:{number}"
            if not names or file.stem in names or name in names:
                yield Mutation(name, row["path"], row["before"], row["after"], row["tests"])


def run(mutation: Mutation, source: Path) -> str:
    """Return what the tests made of a mutation: "caught", "SURVIVED", or why they did not run."""
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        tree = Path(folder, "tree")
        copy_tree(source, tree)
        if (shared := source.parent / "shared").exists():
            Path(folder, "shared").symlink_to(shared)
        try:
            mutation.apply(tree)
        except (ValueError, OSError) as error:
            return f"NOT MADE: {error}"
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "", "-p", "no:cacheprovider"]
        try:
            done = subprocess.run(
                [*command, *mutation.tests],
                cwd=tree,
                capture_output=True,
                text=True,
                timeout=TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return "caught"  # it hangs, which nobody would miss
    if done.returncode in (0, 1):
        return "caught" if done.returncode else "SURVIVED"
    return f"NOT RUN: {(done.stdout + done.stderr)[-500:]}"


def copy_tree(source: Path, tree: Path) -> None:
    """Copy what git knows or would add; link what npm has installed."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=source, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        if (source / name).is_file() and not (source / name).is_symlink():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / name, tree / name)
    for modules in (source / "node_modules", *source.glob("tests/**/node_modules")):
        link = tree / modules.relative_to(source)
        if link.parent.is_dir() and not link.exists():
            link.symlink_to(modules)


def main() -> None:
    """Run the mutations, and say of each whether the tests caught it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tree", type=Path, default=ROOT, help="a checkout to mutate")
    parser.add_argument("names", nargs="*", help="FILE or FILE:NUMBER; without them all")
    options = parser.parse_args()
    mutations = list(read(options.names))
    if not mutations:
        parser.error(f"no mutation is called {', '.join(options.names)}")
    survived = 0
    for mutation in mutations:
        started = time.monotonic()
        result = run(mutation, options.tree.resolve())
        survived += result != "caught"
        seconds = time.monotonic() - started
        print(f"{mutation.name:20} {seconds:5.1f} s  {mutation.path}: {result}", flush=True)
    print(f"{len(mutations) - survived} caught, {survived} not")
    raise SystemExit(bool(survived))


if __name__ == "__main__":
    main()
