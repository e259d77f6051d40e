"""The code of `app/` fits the budget of each folder in `weight.toml`."""

import tokenize
import tomllib
from functools import cache
from itertools import chain
from pathlib import Path

import pytest

pytestmark = pytest.mark.pure

ROOT = Path(__file__).parent.parent
APP = ROOT / "app"
BUDGETS = tomllib.loads(Path(__file__).with_name("weight.toml").read_text(encoding="utf-8"))
FOLDERS: dict[str, int] = BUDGETS["folders"]

REMEDY = "remove code, or raise the number in tests/weight.toml in the same commit and say why"
LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


@cache
def lines_of_code(path: Path) -> int:
    """The lines of a module without blank ones, comments and docstrings."""
    lines: set[int] = set()
    statement: list[tokenize.TokenInfo] = []
    with path.open(encoding="utf-8") as file:
        for token in tokenize.generate_tokens(file.readline):
            if token.type == tokenize.NEWLINE:
                if [tokenize.STRING] != [part.type for part in statement]:  # a docstring
                    lines.update(*(range(part.start[0], part.end[0] + 1) for part in statement))
                statement = []
            elif token.type not in LAYOUT:
                statement.append(token)
    return len(lines)


def modules(folder: str) -> list[Path]:
    """The modules of a folder of `app/`; of "app" itself, those beside the folders."""
    return [*(APP.glob("*.py") if folder == "app" else (APP / folder).rglob("*.py"))]


def over_budget(name: str, found: int, budget: int) -> str | None:
    if found <= budget:
        return None
    return f"{name}: {found}, {found - budget} more than the budget of {budget}; {REMEDY}"


def test_every_folder_has_a_budget():
    folders = {path.parent.name for path in APP.glob("*/__init__.py")}

    assert {"app", *folders} == FOLDERS.keys()


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_fits_its_budget(folder):
    found = sum(map(lines_of_code, modules(folder)))

    assert None is over_budget(f"lines of code in {folder}", found, FOLDERS[folder])


def test_all_folders_fit_the_budget_of_all():
    paths = [*chain.from_iterable(map(modules, FOLDERS))]

    assert None is over_budget("lines of code", sum(map(lines_of_code, paths)), BUDGETS["lines"])
    assert None is over_budget("files", len(paths), BUDGETS["files"])


def test_only_lines_of_code_count(tmp_path):
    module = tmp_path / "module.py"
    module.write_text(
        '"""A docstring\n\nof three lines."""\n'
        "# a comment\n"
        "SCRIPT = '''\n"  # counts
        "\n"  # counts, as part of a value
        "'''  # and a comment\n"  # counts
        "\n"
        "def double(\n"  # counts
        "    # a comment\n"
        "    number,\n"  # counts
        "):\n"  # counts
        "    '''A docstring.'''\n"
        "    return 2 * number\n",  # counts
        encoding="utf-8",
    )

    assert 7 == lines_of_code(module)


def test_the_message_says_by_how_much():
    expected = f"lines of code in api: 105, 5 more than the budget of 100; {REMEDY}"

    assert expected == over_budget("lines of code in api", 105, 100)
    assert None is over_budget("lines of code in api", 100, 100)
