"""Each requirement of PROTOCOL.md has a number, and each number a case or a test."""

import ast
import re
import sys
from functools import cache
from pathlib import Path

import pytest

from conformance.cases import load
from conformance.checks import CHECKS
from conformance.server import checks_of
from tests.test_docs import PROTOCOL

pytestmark = pytest.mark.pure

ROOT = Path(__file__).parents[2]
KIT = ROOT / "conformance"
TABLE = (KIT / "REQUIREMENTS.md").read_text(encoding="utf-8")

MARK = re.compile(r"<!--(R\d+)-->")
OBLIGES = re.compile(r"\b(must|never)\b", re.IGNORECASE)
SENTENCE = re.compile(r".+?(?:[.!](?:<!--R\d+-->)*(?=\s|$)|$)")

WHOLE = (
    "### Sending it twice",
    "### Starting without reading",
    "## Frames and ids",
    "### JSON lines",
    "## Resuming",
)
"""Sections of which each line is a requirement, but for examples and heads of tables."""

STANDARDS = {"WHATWG 9.2.6", "RFC 9110"}


def prose(document):
    """The lines of a document that are no example, with the heading of their section."""
    heading, fenced = "", False
    for line in document.splitlines():
        if line.startswith("```"):
            fenced = not fenced
        elif line.startswith("#") and not fenced:
            heading = line
        elif line and not fenced and not line.startswith("    "):
            yield heading, line


def unnumbered(document):
    """What obliges somebody and has no number."""
    found = []
    lines = [*prose(document)]
    for place, (heading, line) in enumerate(lines):
        text = line.strip("|- ")
        is_head = line.startswith("|") and lines[place + 1 : place + 2] == [(heading, "|---|---|")]
        if line.startswith("|---") or is_head or line.startswith("<!-- "):
            continue
        if heading in WHOLE and not MARK.search(line) and not line.startswith("The stream id"):
            found.append(line)
            continue
        found += [
            sentence[0].strip()
            for sentence in SENTENCE.finditer(text)
            if OBLIGES.search(re.sub(r"`[^`]*`|\([^)]*\)", "", sentence[0]))
            and not MARK.search(sentence[0])
        ]
    return found


def numbers():
    return MARK.findall(PROTOCOL)


@cache
def required_by_cases():
    return {
        name for kind in ("client", "server") for case in load(kind) for name in case["requires"]
    }


def named_tests(table):
    """The tests that the tables name for each requirement."""
    rows = re.findall(r"^\| (R\d+) \| (.+) \|$", table, re.MULTILINE)
    return {number: re.findall(r"`([^`]+)`", tests) for number, tests in rows}


def test_each_sentence_that_obliges_has_a_number():
    assert [] == unnumbered(PROTOCOL)


@pytest.mark.parametrize(
    "text",
    [
        "The id must be the last line.",
        "A cut stream never says so. It ends.<!--R1-->",
        "- It begins.<!--R1--> Clients must wait.",
        "| `id` | never run it |",
        "## Resuming\n\n| status | meaning |\n|---|---|\n| 204 | it has ended |",
    ],
)
def test_a_sentence_without_a_number_is_found(text):
    assert 1 == len(unnumbered(text))


def test_a_number_is_that_of_one_sentence():
    assert len(numbers()) == len(set(numbers())) > 70


def test_each_requirement_has_a_case_or_a_test():
    assert [] == [
        one for one in numbers() if one not in required_by_cases() | named_tests(TABLE).keys()
    ]


def test_cases_and_tables_name_requirements_that_are_there():
    assert set() == required_by_cases() - STANDARDS - {*numbers()}
    assert set() == named_tests(TABLE).keys() - {*numbers()}


def test_first_table_has_no_requirement_that_a_case_covers():
    first = TABLE.split("Cases for clients")[0]

    assert set() == named_tests(first).keys() & required_by_cases()


@cache
def functions(path):
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


@pytest.mark.parametrize("test", [one for tests in named_tests(TABLE).values() for one in tests])
def test_tests_of_the_tables_are_there(test):
    path, _, name = test.partition("::")

    assert name in functions(path)


def test_checks_of_cases_are_there():
    used = {
        name
        for case in load("server")
        for step in case["steps"]
        for name, _ in checks_of(step.get("expect", {}))
    }

    assert CHECKS.keys() == used


@pytest.mark.parametrize("module", [*KIT.glob("*.py")], ids=lambda path: path.stem)
def test_the_kit_needs_only_the_standard_library(module):
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
        assert {name.split(".")[0] for name in names} <= sys.stdlib_module_names


def test_the_readme_is_short_and_its_example_too():
    words = (KIT / "README.md").read_text(encoding="utf-8").split()
    example = (KIT / "adapters/example.py").read_text(encoding="utf-8").splitlines()

    assert len(words) <= 500
    assert len([line for line in example if line.strip()]) <= 60
