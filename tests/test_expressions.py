"""Every regular expression of the relay takes linear time, whatever it is given."""

import ast
import asyncio
import functools
import importlib
import re
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

import pytest

from app.demo import answers
from app.dialects.reading.refusal_wordings import _ROWS
from app.hooks.contract import Check, Text
from app.hooks.redact import redact
from app.upstreams.redaction import _compile as compile_secrets

pytestmark = [pytest.mark.proving, pytest.mark.alone]

APP = Path(__file__).parent.parent / "app"
SIZE = 16_384
MS_PER_MIB = 500
"""Of one expression; the slowest finds each character, in 310 to 430 on busy cores."""
SHORT_MS = 10
"""Of one whose input is bounded elsewhere."""
HOOK_MS_PER_MIB = 500
"""Of a hook, which uses several."""

METHODS = ("search", "match", "fullmatch", "finditer", "findall", "sub", "split")

GIVEN: dict[str, Callable[[], list[re.Pattern[Any]]]] = {
    "demo/answers.py": lambda: [re.compile(answers._JAPANESE), re.compile(answers._TOKEN)],
    "dialects/reading/provider_errors.py": lambda: [pattern for _, pattern in _errors()._TEXTS],
    "dialects/reading/refusal_wordings.py": lambda: [
        re.compile(text, re.IGNORECASE) for _, text in _ROWS
    ],
    "upstreams/redaction.py": lambda: [compile_secrets(["sk-0123456789+/abcdef", "a.b-c/d+e"])],
}
"""Modules with expressions that they build; those of globs in the settings are the operator's."""
OF_SETTINGS = ("upstreams/options.py", "ledger/prices.py")

SHORT: dict[str, tuple[int, str]] = {
    "dialects/reading/provider_errors.py:_SECRETS": (2000, "4 * MAX_TEXT"),
    **{f"dialects/reading/provider_errors.py:{n}": (8192, "MAX_READ") for n in range(9)},
    **{
        f"dialects/reading/refusal_wordings.py:{n}": (500, "_scrub, which ends at MAX_TEXT")
        for n in range(len(_ROWS))
    },
    "framing/multipart.py:_parameters": (256, "it gets what _disposition has matched"),
    "framing/multipart.py:_disposition": (4096, "MAX_HEAD_BYTES"),
}
"""Expressions for input that is bounded elsewhere: the bound, and where it is."""


class Expression(NamedTuple):
    """An expression and the methods that the module calls."""

    name: str
    pattern: re.Pattern[Any]
    methods: frozenset[str]


def _errors() -> Any:
    return importlib.import_module("app.dialects.reading.provider_errors")


@cache
def method_calls() -> list[tuple[str, str]]:
    """The names whose methods any module calls, each with the method."""
    text = "".join(path.read_text() for path in APP.rglob("*.py"))
    return re.findall(rf"\b(\w+)\.({'|'.join(METHODS)})\(", text)


def used(name: str) -> frozenset[str]:
    """The methods that any module calls of an expression of this name."""
    return frozenset(method for owner, method in method_calls() if owner == name)


def find_expressions() -> Iterator[Expression]:
    for path in sorted(APP.rglob("*.py")):
        place = path.relative_to(APP).as_posix()
        source = path.read_text()
        if "re.compile" not in source and place not in GIVEN:
            continue
        tree = ast.parse(source)
        names: dict[int, str] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                for inner in ast.walk(node.value):
                    names.setdefault(id(inner), getattr(target, "id", getattr(target, "attr", "")))
        module = importlib.import_module(
            "app." + place.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        )
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            if ast.unparse(node.func) != "re.compile":
                continue
            name = names.get(id(node), "")
            try:
                pattern = eval(ast.unparse(node), vars(module))  # noqa: S307  (our own source)
            except NameError:
                assert place in GIVEN or place in OF_SETTINGS, f"{place}:{node.lineno}"
                continue
            methods = (name and used(name)) or frozenset(("fullmatch",))
            yield Expression(f"{place}:{name or node.lineno}", pattern, methods)
        for number, pattern in enumerate(GIVEN[place]() if place in GIVEN else ()):
            yield Expression(f"{place}:{number}", pattern, frozenset(("search", "sub")))


def texts_of(tree: Any, repeats: int) -> list[str]:
    """Return texts that an expression matches, or nearly: each alternative once."""
    found = [""]
    for code, value in tree:
        match str(code):
            case "LITERAL":
                more = [chr(value)]
            case "NOT_LITERAL" | "ANY":
                more = ["x"]
            case "IN":
                more = [_member(value)]
            case "BRANCH":
                more = [one for branch in value[1] for one in texts_of(branch, repeats)]
            case "SUBPATTERN":
                more = texts_of(value[-1], repeats)
            case "ATOMIC_GROUP":
                more = texts_of(value, repeats)
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                least, most, inner = value
                count = max(least, min(int(most), repeats))
                more = [one * count for one in texts_of(inner, repeats)]
            case _:
                more = [""]
        found = [one + other for one in found for other in more][:40]
    return found


def _member(value: Any) -> str:
    for code, item in value:
        match str(code):
            case "LITERAL":
                return chr(item)
            case "RANGE":
                return chr(item[0])
            case "CATEGORY":
                return " " if "SPACE" in str(item) else "0"
    return "x"


def attacks_on(pattern: re.Pattern[Any]) -> list[str]:
    """Return texts of beginnings of what an expression matches, again and again."""
    seeds = {"a", "-", " ", "0", "\\", '"', "."}
    for repeats in (0, 1, 3, 30):
        for whole in texts_of(parser.parse(pattern.pattern, pattern.flags), repeats):
            ends = {len(whole), len(whole) - 1, len(whole) // 2, 1, 2, 3, 4}
            seeds |= {whole[:end] for end in ends if 0 < end <= len(whole)}
            seeds |= {f"-{whole[:end]}" for end in ends if 0 < end <= len(whole)}
    chosen = sorted(seeds, key=len)
    chosen = chosen if len(chosen) <= 60 else [*chosen[:40], *chosen[:: len(chosen) // 20]]
    repeated = [(seed * (SIZE // len(seed) + 1))[:SIZE] for seed in chosen]
    return [*repeated, *(f"{seed}{'a' * SIZE}" for seed in chosen[:20])]


def spend(work: Callable[[], Any]) -> float:
    begun = time.process_time()
    work()
    return (time.process_time() - begun) * 1000


def check_once(check: Check) -> None:
    asyncio.run(redact(check))


def run(pattern: re.Pattern[Any], method: str, text: Any) -> None:
    match method:
        case "sub":
            pattern.sub(text[:0], text)
        case "finditer":
            for _ in pattern.finditer(text):
                pass
        case _:
            getattr(pattern, method)(text)


EXPRESSIONS = {one.name: one for one in find_expressions()}


def test_all_are_found() -> None:
    calls = sum(path.read_text().count("re.compile(") for path in APP.rglob("*.py"))
    assert calls - len(OF_SETTINGS) - len(GIVEN) <= len(EXPRESSIONS)


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_an_expression_takes_linear_time(name: str) -> None:
    one = EXPRESSIONS[name]
    size = SHORT[name][0] if name in SHORT else SIZE
    for attack in attacks_on(one.pattern):
        cut = attack[:size]
        text = cut.encode("latin-1", "replace") if isinstance(one.pattern.pattern, bytes) else cut
        for method in one.methods:
            # First a short one: a long one may take minutes.
            for part in (text[: size // 8], text):
                limit = SHORT_MS if name in SHORT else MS_PER_MIB * max(len(part), 8192) / 2**20
                work = functools.partial(run, one.pattern, method, part)
                took = spend(work)
                if took > limit:
                    took = min(spend(work) for _ in range(5))
                assert took <= limit, (method, text[:60], took)


@pytest.mark.parametrize("name", [name for name in EXPRESSIONS if name.startswith("hooks/")])
def test_a_hook_of_ours_takes_linear_time_and_lets_others_run(name: str) -> None:
    for attack in attacks_on(EXPRESSIONS[name].pattern):
        text = attack * 8
        check = Check("answer", "r", "s", [Text("text", text, final=False)])
        limit = HOOK_MS_PER_MIB * len(text) / 2**20
        work = functools.partial(check_once, check)
        assert min(spend(work), spend(work)) <= limit, text[:60]


async def test_other_tasks_run_while_a_long_text_is_checked() -> None:
    longest = 0.0
    for seed in ("-eyJ", "sk-", "a@b.c ", "\\u0041", "eyJaaaaaaa.", "x"):
        text = seed * (2**22 // len(seed))
        check = asyncio.create_task(redact(Check("request", "r", "s", [Text("user", text)])))
        while not check.done():
            begun = time.process_time()
            await asyncio.sleep(0)
            longest = max(longest, time.process_time() - begun)
    assert longest < 0.25
