"""What concerns one format is a member of it: nobody else knows a format by its name."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.dialects.client_formats import CLIENT_FORMATS
from app.dialects.upstream_formats import UPSTREAM_FORMATS

pytestmark = pytest.mark.pure

APP = Path(__file__).parent.parent.parent / "app"
NAMES = {*CLIENT_FORMATS, *UPSTREAM_FORMATS}
FAMILIES = {name.partition("_")[0] for name in NAMES} | {f"{n.partition('_')[0]}_" for n in NAMES}
"""Beginnings of names, which `startswith` and `in` look for."""

EXCEPTIONS = {
    "dialects/upstream_formats.py": "a registry",
    "dialects/reasoning_signatures.py": "names of signatures, which clients send back",
    "upstreams/presets.py": "rows of data: providers, and the formats that they speak",
}


def literals(path: Path) -> Iterator[str]:
    """Yield the names of formats in a module, and what begins like them in comparisons."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Constant(value=str(text)) if text in NAMES:
                yield text
            case ast.Compare(left=ast.Constant(value=str(text))) if text in FAMILIES:
                yield text
            case ast.Call(func=ast.Attribute(attr="startswith"), args=[ast.Constant(value=text)]):
                if text in FAMILIES:
                    yield text


def test_no_module_knows_a_format_by_name() -> None:
    folders = {
        path.name for path in (APP / "dialects").iterdir() if (path / "__init__.py").exists()
    }
    folders -= {"answering", "reading", "writing"}
    found = {}
    for path in sorted(APP.rglob("*.py")):
        place = path.relative_to(APP)
        if place.parts[0] == "dialects" and place.parts[1] in folders:
            continue
        if names := sorted({*literals(path)}):
            found[place.as_posix()] = names

    wrong = {place: names for place, names in found.items() if place not in EXCEPTIONS}
    assert {} == wrong, "a member of the format, in its folder, says it instead"
    assert EXCEPTIONS.keys() == found.keys()
