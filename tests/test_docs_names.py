"""What the documents name is there: paths of this repository, commands, modules, variables."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.settings.identity import CLIENT_KEY, CONFIG, IDENTITY, PREFIX
from app.settings.values import SCALARS

pytestmark = pytest.mark.pure

ROOT = Path(__file__).parent.parent
TOP = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "PROTOCOL.md", "SECURITY.md")

FENCED = re.compile(r"^( *)```(\w*)\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
PATH = re.compile(r"/?((?:app|bench|deploy|docs|static|tests|\.ci)/[^\s:#]*)")
BARE = re.compile(r"[\w-]+\.(?:py|lock|sh)")
MODULE = re.compile(r"(?<![\w./-])(?:app|bench|seseragi|tests)(?:\.[a-z_]\w*)+(?::\w+)?(?![\w/(-])")
IMPORT = re.compile(r"^\s*from ((?:app|seseragi|tests)(?:\.\w+)*) import ([\w, ]+)", re.MULTILINE)
COMMANDS = ("app/__main__.py", "app/commands/**/*.py")
SOURCES = {"seseragi": COMMANDS, "app": COMMANDS, "bench": ("bench/*.py",)}
"""Where the options of a command are: its `__main__`, and the modules of `app/commands`."""


def documents(root: Path) -> list[Path]:
    """The documents that say how it is now, and not how it was."""
    below = [path for path in root.glob("docs/**/*.md") if "decisions" not in path.parts]
    return [*(root / name for name in TOP), *sorted(below), *sorted(root.glob("app/*/README.md"))]


def spans(text: str) -> tuple[list[str], list[str]]:
    """What stands in backquotes, and the lines of blocks for a shell."""
    blocks = [block for _, kind, block in FENCED.findall(text) if kind in ("sh", "bash", "ini")]
    inline = re.findall(r"`([^`\n]+)`", FENCED.sub("", text))
    return inline, [line for block in blocks for line in block.splitlines()]


def names(root: Path, module: str) -> set[str] | None:
    """What a module has at its top; None if there is no such module, "*" if it may have all."""
    path = root.joinpath(*re.sub(r"^seseragi\b", "app", module).split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    if not file.is_file():
        return None
    found: set[str] = {one.stem for one in file.parent.iterdir()} if path.is_dir() else set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                found.add(node.name)
            case ast.Import() | ast.ImportFrom():
                found |= {alias.asname or alias.name for alias in node.names}
            case ast.Assign(targets=[ast.Name(id="__all__")], value=value):
                found |= set(ast.literal_eval(value))
            case ast.Assign():
                found |= {name.id for name in node.targets if isinstance(name, ast.Name)}
            case ast.AnnAssign(target=ast.Name(id=name)):
                found.add(name)
    return {"*"} if "__getattr__" in found and path.name != "app" else found


def has(root: Path, module: str, name: str) -> bool:
    there = names(root, module)
    return there is not None and bool({name, "*"} & there)


def missing_paths(root: Path, inline: list[str], lines: list[str]) -> Iterator[str]:
    for word in (word for text in [*inline, *lines] for word in text.split()):
        word = word.strip("\"'(),;")
        if match := PATH.fullmatch(word):
            pattern = re.sub(r"<\w+>", "*", match[1]).rstrip("/")
            if "..." not in pattern and not any(root.glob(pattern)):
                yield word
        elif BARE.fullmatch(word):
            places = [word, *(f"{top}/**/{word}" for top in ("app", "tests", "deploy", "bench"))]
            if not any(any(root.glob(place)) for place in places):
                yield word


def missing_modules(root: Path, text: str, inline: list[str], lines: list[str]) -> Iterator[str]:
    for module, imported in IMPORT.findall(text):
        for name in imported.split(","):
            if not has(root, module, name.strip()):
                yield f"from {module} import {name.strip()}"
    for line in [*inline, *lines]:
        for match in MODULE.finditer(line):
            module, _, name = match[0].partition(":")
            if re.search(r"-m $", line[: match.start()]) or name:
                if names(root, module) is None or (name and not has(root, module, name)):
                    yield match[0]
            elif not module.startswith(("seseragi.", "app.mount")):
                outer, _, last = module.rpartition(".")
                if names(root, module) is None and not has(root, outer, last):
                    yield module
    for name, path in re.findall(r"`(\w+)` (?:in|of) `((?:app|tests)/[\w/]+)\.py`", text):
        if not has(root, path.replace("/", "."), name):
            yield f"{name} in {path}.py"


def missing_commands(root: Path, inline: list[str], lines: list[str]) -> Iterator[str]:
    targets = re.findall(r"^(\w+):", (root / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    known = (CONFIG, CLIENT_KEY, *IDENTITY.values())
    extras = (root / "pyproject.toml").read_text(encoding="utf-8").split("optional-dependencies")[1]
    for line in [*inline, *lines]:
        for target in re.findall(r"^make (\w+)", line):
            if target not in targets:
                yield f"make {target}"
        for extra in re.findall(r"\w+", " ".join(re.findall(r"\"\.\[([\w,]+)\]\"", line))):
            if not re.search(rf"^{extra} = \[", extras, re.MULTILINE):
                yield f".[{extra}]"
        for variable in re.findall(rf"\b{PREFIX}[A-Z_]+[A-Z]", line):
            if variable not in known and variable.removeprefix(PREFIX).lower() not in SCALARS:
                yield variable
        command = re.sub(r"\s#.*|^\w+: ", "", line)
        for part in re.split(r"&&|\||;", command):
            match = re.search(r"(?:^|=|/|\s|-m )(seseragi|app|bench)(?= |$)(.*)", part)
            if match is None or not re.search(r"^\s*(\S*seseragi\b|.*-m |Exec|docker run)", part):
                continue
            code = "".join(
                file.read_text(encoding="utf-8")
                for pattern in SOURCES[match[1]]
                for file in root.glob(pattern)
            )
            for word in re.findall(r"(?<=\s)(?:--[a-z-]+|[a-z]+)(?=[\s=]|$)", match[2]):
                if not word.startswith("--") and re.search(rf"--[\w-]+ {word}\b", match[2]):
                    continue  # the value of an option
                if f'"{word}"' not in code:
                    yield f"{match[1]} {word}"


def missing(root: Path) -> list[str]:
    """What the documents name that is not there, each with its document."""
    found = []
    for path in documents(root):
        text = path.read_text(encoding="utf-8")
        inline, lines = spans(text)
        for name in (
            *missing_paths(root, inline, lines),
            *missing_modules(root, text, inline, lines),
            *missing_commands(root, inline, lines),
        ):
            found.append(f"{path.relative_to(root)}: {name}")
    return found


def test_documents_name_what_is_there():
    assert [] == missing(ROOT)


def test_names_of_what_is_not_there_are_found(tmp_path):
    """Each kind of name once, and wrong."""
    wrong = """
`app/nowhere.py`, `tests/<name>/nothing/`, `nowhere.py`, `app.main:nothing`, `app.nowhere`,
`build_nothing` in `app/main.py`, `make nothing`, `pip install ".[nothing]"`, `SESERAGI_NOTHING`

```sh
python -m tests.nowhere && seseragi --nothing 1 && .venv/bin/python -m app nothing
python -m bench nothing
```

```python
from app.main import nothing
```
"""
    for name in TOP:
        (tmp_path / name).write_text("")
    (tmp_path / TOP[0]).write_text(wrong)
    for name in ("app", "bench", "Makefile", "pyproject.toml"):
        (tmp_path / name).symlink_to(ROOT / name)

    assert [
        *("app/nowhere.py", "tests/<name>/nothing/", "nowhere.py", "from app.main import nothing"),
        *("app.main:nothing", "app.nowhere", "tests.nowhere", "build_nothing in app/main.py"),
        *("make nothing", ".[nothing]", "SESERAGI_NOTHING"),
        *("seseragi --nothing", "app nothing", "bench nothing"),
    ] == [
        line.removeprefix("README.md: ")
        for line in missing(tmp_path)
        if line.startswith("README.md: ")
    ]
