"""Check that a version stands everywhere: `python -m tests.versions 0.2.0`."""

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def versions() -> dict[str, str]:
    """Return the version of each file that has one."""
    init = (ROOT / "app/__init__.py").read_text()
    changelog = (ROOT / "CHANGELOG.md").read_text()
    return {
        "app/__init__.py": re.findall(r'^__version__ = "(.+)"$', init, re.MULTILINE)[0],
        "static/package.json": json.loads((ROOT / "static/package.json").read_text())["version"],
        "CHANGELOG.md": (re.findall(r"^## \[?(\d[^\] ]*)", changelog, re.MULTILINE) or [""])[0],
    }


if __name__ == "__main__":
    wanted = sys.argv[1]
    wrong = {file: found for file, found in versions().items() if found != wanted}
    for file, found in wrong.items():
        print(f"{file}: the version is {found or 'missing'}; set {wanted}", file=sys.stderr)
    raise SystemExit(1 if wrong else 0)
