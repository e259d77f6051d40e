"""Scripts of Redis in one Lua of this process: what fakeredis has not is here.

fakeredis compiles a script at each call, and has neither `cmsgpack` nor `struct`.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from fakeredis._helpers import SimpleError, SimpleString
from lupa import lua51

Call = Callable[[list[bytes]], Any]
"""Runs a command within a script, and returns its reply."""


class Lua:
    """Compiled scripts: one for all servers, since they take longer to compile than to run."""

    def __init__(self) -> None:
        lua = self._lua = lua51.LuaRuntime(encoding=None, unpack_returned_tuples=True)
        self._table = lua.table_from
        self._scripts: dict[bytes, Any] = {}
        self._call: Call = lambda _: None
        lua.execute(
            b"redis = {}; cmsgpack = {}; struct = {}\n"
            b"redis.error_reply = function(message) return {err = message} end\n"
            b"redis.status_reply = function(message) return {ok = message} end\n"
        )
        known = lua.globals()
        known[b"redis"][b"call"] = self._run_command
        known[b"cmsgpack"][b"pack"] = lambda value: msgspec.msgpack.encode(_from_lua(value))
        known[b"cmsgpack"][b"unpack"] = lambda data: self._to_lua(msgspec.msgpack.decode(data))
        known[b"struct"][b"pack"] = lambda form, *values: struct.pack(form.decode(), *values)
        known[b"struct"][b"unpack"] = lambda form, data: (
            *struct.unpack(form.decode(), data),
            len(data) + 1,
        )

    def load(self, sha: bytes, text: bytes) -> None:
        """Compile a script, unless it is known."""
        if sha in self._scripts:
            return
        if text.startswith(b"#!"):
            text = b"--" + text
        self._scripts[sha] = self._lua.eval(b"function(KEYS, ARGV)\n" + text + b"\nend")

    def run(self, sha: bytes, keys: Sequence[bytes], values: Sequence[bytes], call: Call) -> Any:
        """Run a script, and return its reply."""
        self._call = call
        try:
            return _to_reply(self._scripts[sha](self._table(keys), self._table(values)))
        except (lua51.LuaError, SimpleError) as error:
            return SimpleError(f"ERR {str(error).splitlines()[0]}")

    def _run_command(self, *words: Any) -> Any:
        reply = self._call([_to_bytes(word) for word in words])
        if isinstance(reply, SimpleError):
            raise reply
        return self._to_lua(reply, ok=True)

    def _to_lua(self, value: Any, *, ok: bool = False) -> Any:
        match value:
            case None:
                return False if ok else None
            case bytes() | bool() | int() | float():
                return value
            case str():
                return value.encode()
            case SimpleString():
                return self._table({b"ok": value.value})
            case dict():
                items = value.items()
                return self._table({self._to_lua(key): self._to_lua(one) for key, one in items})
            case list() | tuple():
                return self._table([self._to_lua(one, ok=ok) for one in value])
        raise TypeError(f"no value of a script: {value!r}")


def _to_bytes(word: Any) -> bytes:
    """Return an argument of a command; numbers as Redis writes those of Lua."""
    if isinstance(word, bytes):
        return word
    return b"%d" % int(word) if float(word).is_integer() else (b"%.17g" % word)


def _from_lua(value: Any) -> Any:
    if lua51.lua_type(value) == "table":
        found = dict(value.items())
        if found.keys() == set(range(1, len(found) + 1)):
            return [_from_lua(found[place]) for place in range(1, len(found) + 1)]
        return {_from_lua(key): _from_lua(one) for key, one in found.items()}
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value.decode() if isinstance(value, bytes) and value.isascii() else value


def _to_reply(value: Any) -> Any:
    """Return the reply for what a script returns: numbers are cut, a list ends at a nil."""
    if lua51.lua_type(value) == "table":
        if value[b"ok"] is not None:
            return SimpleString(value[b"ok"])
        if value[b"err"] is not None:
            return SimpleError(value[b"err"].decode())
        found, place = [], 1
        while (one := value[place]) is not None:
            found.append(_to_reply(one))
            place += 1
        return found
    if isinstance(value, bool):
        return 1 if value else None
    return int(value) if isinstance(value, float) else value
