"""Programs that some tests need: found, or the test is skipped, or in CI failed."""

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest


def program(*names: str, variable: str | None = None) -> str:
    """Return the path of the first program there is."""
    given = os.environ.get(variable) if variable else None
    found = given or next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        missing(f"no {names[0]} on the path")
    return found


def file(path: Path, *, how: str) -> Path:
    """Return a file that an installation step brings."""
    if not path.exists():
        missing(f"no {path.name}; {how}")
    return path


def missing(what: str) -> NoReturn:
    assert os.environ.get("CI") != "true", what
    pytest.skip(what)
