"""Where the suites and data of others are; nothing of them is part of the repository."""

from pathlib import Path

from tests.needs import file

ROOT = Path(__file__).parents[2]
JUDGES = ROOT.parent / "shared" / "judges"
MODULES = ROOT / "node_modules"


def judge(path: str) -> Path:
    """Return a file of the folder of judges, or skip the test, or in CI fail it."""
    return file(JUDGES / path, how=f"the folder of judges is {JUDGES}")


def package(name: str) -> Path:
    """Return the folder of an npm package, or skip the test, or in CI fail it."""
    return file(MODULES / name / "package.json", how="run npm ci").parent
