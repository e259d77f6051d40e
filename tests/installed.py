"""A package that is installed for a test, with entry points."""

import importlib
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from app.commands.plugins import REGISTRIES


def install(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    code: str,
    groups: Mapping[str, Mapping[str, str]],
) -> None:
    """Install a module `extension` with this code for one test.

    Its objects by name, by group, are plugged in.
    """
    (folder / "extension.py").write_text(code, encoding="utf-8")
    info = folder / "extension-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: extension\nVersion: 1.0\n")
    lines = []
    for group, parts in groups.items():
        lines.append(f"[{group}]")
        lines += [f"{name} = extension{part and f':{part}'}" for name, part in parts.items()]
    (info / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "extension", raising=False)
    importlib.invalidate_caches()
    for registry in REGISTRIES:
        for name in groups.get(registry.group, {}).keys() - {*registry.built_in}:
            # Removed at the end of the test.
            monkeypatch.setitem(registry, name, None)
            del registry[name]
