"""Imports point one way; the pure layers do no I/O."""

import ast
import importlib
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest

pytestmark = pytest.mark.pure

APP = Path(__file__).parent.parent / "app"

# Top first, and in a row from left to right: a module imports from what follows its own package.
# A module named beside its package has a place of its own. ARCHITECTURE.md gives the reasons.
ROWS = {
    "entry points": (
        "app.__main__",
        "app.testing",
        "app.commands",
        "app.server",
        "app.reload",
        "app.main",
        "app.relay",
        "app.api.application",
        "app.composition",
    ),
    "HTTP": ("app.api", "app.settings"),
    "process": ("app.admin", "app.generation"),
    "resources": (
        "app.records",
        "app.webhooks",
        "app.telemetry",
        "app.demo",
        "app.hooks",
        "app.upstreams",
        "app.eventlog",
        "app.identity",
    ),
    "pure": (
        "app.cassettes",
        "app.dialects",
        "app.ledger",
        "app.policies",
        "app.framing",
        "app.plugins",
        "app.requests",
        "app.bounds",
        "app.errors",
        "app.events",
        "app.addresses",
        "app.clock",
    ),
}
ORDER = [name for row in ROWS.values() for name in row]

PURE = (
    "addresses.py",
    "bounds.py",
    "dialects",
    "errors.py",
    "events.py",
    "framing",
    "generation/lifecycle.py",
    "identity/principal.py",
    "ledger",
    "policies",
    "requests.py",
    "server/connection_limits.py",
    "upstreams/redaction.py",
)
IMPURE = {"asyncio", "httpx2", "starlette", "socket", "time", "uvicorn", "random", "os"}


@cache
def modules() -> tuple[tuple[str, Path], ...]:
    return tuple(
        (".".join(("app", *path.relative_to(APP).with_suffix("").parts)), path)
        for path in sorted(APP.rglob("*.py"))
    )


STATEMENTS = ("body", "orelse", "finalbody", "handlers", "cases")


@cache
def statements(path: Path) -> tuple[ast.Import | ast.ImportFrom | ast.ExceptHandler, ...]:
    """The imports and exception handlers of a module; no expression has one."""
    nodes: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    for node in nodes:  # which grows
        for name in STATEMENTS:
            nodes += getattr(node, name, ())
    kinds = (ast.Import, ast.ImportFrom, ast.ExceptHandler)
    return tuple(node for node in nodes if isinstance(node, kinds))


@cache
def imports(path: Path) -> set[str]:
    found = set()
    for node in statements(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level:  # the package has another name once it is installed
                package = ("app", *path.relative_to(APP).parent.parts)
                above = package[: len(package) - node.level + 1]
                module = ".".join((*above, *([module] if module else [])))
            else:
                assert module.partition(".")[0] != "app", f"{path}: absolute import of {module}"
            found.add(module)
            found |= {f"{module}.{alias.name}" for alias in node.names}
    return found


def roots(path: Path) -> set[str]:
    """The packages that a module imports from."""
    return {name.partition(".")[0] for name in imports(path)}


@cache
def package(module: str) -> str | None:
    """The name in `ROWS` that a module belongs to: the longest one."""
    parts = module.split(".")
    above = (".".join(parts[:end]) for end in range(len(parts), 0, -1))
    return next((name for name in above if name in ORDER), None)


def test_every_module_has_a_row():
    assert [] == [name for name, _ in modules() if name != "app.__init__" and not package(name)]


def test_imports_point_down():
    wrong = []
    for name, path in modules():
        source = package(name)
        for target in {package(imported) for imported in imports(path)} - {None, source}:
            if source is not None and ORDER.index(str(target)) < ORDER.index(source):
                wrong.append(f"{name} imports {target}")

    assert [] == wrong


def test_a_package_has_one_place():
    """Except the module that puts the protocols together to one app."""
    assert ["app.api.application"] == [name for name in ORDER if name.count(".") > 1]


def test_no_modules_import_each_other():
    files = {name.removesuffix(".__init__"): path for name, path in modules()}
    within = {name: (imports(path) & files.keys()) - {name, "app"} for name, path in files.items()}

    TopologicalSorter(within).prepare()


@pytest.mark.parametrize("part", PURE)
def test_pure_layers_do_no_io(part):
    path = APP / part
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    assert files
    for file in files:
        assert set() == roots(file) & IMPURE, file


def test_only_who_works_within_anothers_call_catches_everything():
    """A relay, what pushes to it, a request, a reader, an observer, another package's part: none
    takes others down."""
    broad = [
        name
        for name, path in modules()
        for node in statements(path)
        if isinstance(node, ast.ExceptHandler)
        and (
            node.type is None
            or "Exception" in {getattr(one, "id", "") for one in ast.walk(node.type)}
        )
    ]

    expected = [
        "api.event_stream",
        "api.middleware",
        "api.responses_socket",
        "generation.run",
        "hooks.contract",
        "identity.hook",
        "plugins",
        "records.content_hook",
        "telemetry.observer",
        "upstreams.connection",
        "upstreams.routes",
    ]
    assert [f"app.{name}" for name in expected] == sorted(broad)


def test_only_what_starts_processes_imports_os():
    readers = [name for name, path in modules() if "os" in roots(path)]

    # The command, what an ASGI server starts, what replaces a file, what starts the command for
    # tests, and the parent of workers.
    expected = [
        "__main__",
        "composition",
        "identity.keys_file",
        "main",
        "server.serving",
        "server.workers",
        "testing.relay",
    ]
    assert [f"app.{name}" for name in expected] == readers


OLDER_FORM = ("openai_completions", "openai_chat")
"""The older Completions are Chat Completions with less in them."""


def test_no_dialect_knows_another_nor_a_client_format_an_upstream_one():
    wrong = []
    for name, path in modules():
        _, *parts = name.split(".")
        if parts[0] != "dialects" or len(parts) < 4:
            continue
        dialect, side = parts[1], parts[2]
        for imported in imports(path):
            _, *target = imported.split(".")
            if target[:1] != ["dialects"] or len(target) < 3:
                continue
            if target[2] not in ("client", "upstream"):
                continue
            same = target[1] == dialect or (dialect, target[1]) == OLDER_FORM
            if not same or target[2] != side:
                wrong.append(f"{name} imports {imported}")

    assert [] == wrong


def test_no_union_has_a_pattern_beside_a_list_or_a_table():
    """msgspec 0.22 frees what it does not own of such a type: the process may crash at its end."""
    importlib.import_module("app.main")
    wrong = [
        f"{struct.__module__}.{struct.__name__}.{name}"
        for struct in structs(msgspec.Struct)
        if struct.__module__.startswith("app.")
        for name, hint in get_type_hints(struct, include_extras=True).items()
        for union in unions(hint)
        if any(has_pattern(one) for one in union)
        and any(get_origin(plain(one)) in (tuple, list, dict) for one in union)
    ]

    assert [] == wrong


def structs(above: Any) -> Iterator[Any]:
    for one in above.__subclasses__():
        yield one
        yield from structs(one)


def unions(hint: Any) -> Iterator[tuple[Any, ...]]:
    """Return what stands in each union that a type has within."""
    if get_origin(hint) in (Union, UnionType):
        yield get_args(hint)
    for one in get_args(hint):
        yield from unions(one)


def plain(hint: Any) -> Any:
    return hint.__origin__ if get_origin(hint) is Annotated else hint


def has_pattern(hint: Any) -> bool:
    return any(getattr(one, "pattern", None) for one in getattr(hint, "__metadata__", ()))
