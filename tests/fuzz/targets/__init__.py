"""The fuzzing targets, one module each with its `TARGET`."""

from importlib import import_module
from pathlib import Path

from tests.fuzz.target import Target

NAMES = sorted(path.stem for path in Path(__file__).parent.glob("[a-z]*.py"))


def load(name: str) -> Target:
    """Return a target by the name of its module."""
    target: Target = import_module(f"{__name__}.{name}").TARGET
    return target
