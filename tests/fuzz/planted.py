"""Faults put into modules that are loaded: functions run other code, until they are mended."""

import contextlib
import inspect
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType


@contextlib.contextmanager
def plant(module: ModuleType, before: str, after: str) -> Iterator[None]:
    """Replace one piece of a module's source, in the functions that have it."""
    source = inspect.getsource(module)
    assert source.count(before) == 1, f"{before!r} is {source.count(before)} times in it"
    changed = compile(source.replace(before, after), str(module.__file__), "exec")
    # The lines of what follows may have moved: only what differs otherwise is replaced.
    known, other = _by_name(compile(source, str(module.__file__), "exec")), _by_name(changed)
    replaced: list[tuple[FunctionType, CodeType]] = []
    for name, function in _functions(module):
        if name in other and _essence(known[name]) != _essence(other[name]):
            replaced.append((function, function.__code__))
            function.__code__ = other[name]
    assert replaced, "no function has it"
    try:
        yield
    finally:
        for function, code in replaced:
            function.__code__ = code


def _by_name(code: CodeType) -> dict[str, CodeType]:
    found: dict[str, CodeType] = {}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found[constant.co_qualname] = constant
            found |= _by_name(constant)
    return found


def _essence(code: CodeType) -> tuple[object, ...]:
    inner = [_essence(one) if isinstance(one, CodeType) else repr(one) for one in code.co_consts]
    return code.co_code, code.co_names, code.co_varnames, inner


def _functions(module: ModuleType) -> Iterator[tuple[str, FunctionType]]:
    for value in vars(module).values():
        members = vars(value).values() if inspect.isclass(value) else [value]
        for member in members:
            function = member.fget if isinstance(member, property) else member
            function = getattr(function, "__func__", function)
            if isinstance(function, FunctionType) and function.__module__ == module.__name__:
                yield function.__qualname__, function
