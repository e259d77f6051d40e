"""The folder of cassettes: found by name, read when they have changed, written whole or not."""

import contextlib
import re
import secrets
import time
from collections import OrderedDict
from itertools import islice
from pathlib import Path
from stat import S_ISREG
from threading import Lock
from typing import Final, NamedTuple

from ..errors import RequestError, ServiceError, UpstreamError
from .playback import NAME
from .tape import MAX_BYTES, Tape, TapeError, parse_tape, upstream_of

SUFFIX: Final = ".jsonl"
MAX_LISTED: Final = 1000
"""How many cassettes the list of models names."""
MAX_FILES: Final = 10_000
"""How many files a folder may have for another to be recorded."""
MAX_TARGET: Final = 65_536
"""Bytes of the line that says who answered."""
MAX_KEPT_BYTES: Final = 64 * 2**20
"""How much of what was read is remembered, by the size of the files."""
LONGEST_WRITE_S: Final = 600
"""An unfinished file that is older was left by a crash: 16 MiB take milliseconds."""

# No cassette begins with a dot: what was left by a crash is none.
_UNFINISHED: Final = re.compile(r"\.cassette-[0-9a-f]{16}\.tmp")


class FolderFull(Exception):
    """There are too many files for another one."""


class _Stamp(NamedTuple):
    """By what it is known that a file has changed."""

    changed_ns: int
    size: int
    number: int


def _stamp(file: Path) -> _Stamp:
    found = file.stat()
    if not S_ISREG(found.st_mode):
        raise FileNotFoundError
    return _Stamp(found.st_mtime_ns, found.st_size, found.st_ino)


class Folder:
    """The files of one directory. Its methods block, and may be called in any thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept: OrderedDict[str, tuple[_Stamp, Tape]] = OrderedDict()
        self._lock = Lock()
        self._reading = Lock()
        """Held while a file is read: what many ask for at once is read once."""

    def names(self) -> list[str]:
        """Return the cassettes there are, in their order; the first `MAX_LISTED`."""
        try:
            found = [path.name.removesuffix(SUFFIX) for path in self._path.glob(f"*{SUFFIX}")]
        except OSError:
            return []
        return list(islice(filter(NAME.fullmatch, sorted(found)), MAX_LISTED))

    def upstreams(self) -> set[str]:
        """Return the names of the upstreams that gave the answers; of broken files none."""
        found = set()
        with contextlib.suppress(OSError):
            for file in islice(self._path.glob(f"*{SUFFIX}"), MAX_FILES):
                if not NAME.fullmatch(file.name.removesuffix(SUFFIX)):
                    continue
                with contextlib.suppress(OSError):
                    _stamp(file)  # which a pipe has none of
                    with file.open("rb") as opened:
                        opened.readline(MAX_BYTES)
                        found.add(upstream_of(opened.readline(MAX_TARGET)))
        return found - {""}

    def has(self, name: str) -> bool:
        """Return whether there is a cassette of a name."""
        return self._file(name).is_file()

    def load(self, name: str) -> Tape:
        """Read a cassette, unless it is as it was when it was read before.

        Raises:
            RequestError: `model_not_found`, there is none.
            UpstreamError: `upstream_invalid_response`, it is broken; with the file and the line.
            ServiceError: `internal`, it cannot be read.
        """
        file = self._file(name)
        try:
            stamp = _stamp(file)
            if (kept := self._kept_as(name, stamp)) is not None:
                return kept
            with self._reading:
                stamp = _stamp(file)
                if (kept := self._kept_as(name, stamp)) is not None:
                    return kept
                if stamp.size > MAX_BYTES:
                    raise _broken(file, f"it is larger than {MAX_BYTES} bytes")
                with file.open("rb") as opened:
                    data = opened.read(MAX_BYTES)
                tape = parse_tape(data)
                self._keep(name, stamp, tape)
                return tape
        except FileNotFoundError:
            raise RequestError(
                "model_not_found",
                f"unknown model 'cassette/{name}': there is no file {file.name!r} in the folder of "
                "cassettes; GET /v1/models lists those there are",
            ) from None
        except OSError as error:
            raise ServiceError(
                "internal", f"cassette {file.name!r} cannot be read: {error.strerror}"
            ) from None
        except TapeError as error:
            raise _broken(file, str(error)) from None

    def _kept_as(self, name: str, stamp: _Stamp) -> Tape | None:
        """Return a cassette that was read when its file was as it is now."""
        with self._lock:
            kept = self._kept.get(name)
            if kept is None or kept[0] != stamp:
                return None
            self._kept.move_to_end(name)
            return kept[1]

    def _keep(self, name: str, stamp: _Stamp, tape: Tape) -> None:
        with self._lock:
            self._kept[name] = stamp, tape
            self._kept.move_to_end(name)
            while sum(kept.size for kept, _ in self._kept.values()) > MAX_KEPT_BYTES:
                self._kept.popitem(last=False)

    def save(self, name: str, data: bytes) -> None:
        """Write a cassette, so that whoever reads it meanwhile finds all of it or the one before.

        Raises:
            OSError: it cannot be written.
            FolderFull: there are `MAX_FILES`.
        """
        if self.clean() >= MAX_FILES:
            raise FolderFull(f"the folder of cassettes has {MAX_FILES} files")
        written = self._path / f".cassette-{secrets.token_hex(8)}.tmp"
        try:
            with written.open("xb") as opened:
                opened.write(data)
            written.replace(self._file(name))
        finally:
            written.unlink(missing_ok=True)

    def clean(self) -> int:
        """Remove what writers that were killed have left; return how many files there are.

        Raises:
            OSError: the folder cannot be read.
        """
        files = islice(self._path.iterdir(), MAX_FILES)
        return sum(not (_UNFINISHED.fullmatch(file.name) and _removed(file)) for file in files)

    def _file(self, name: str) -> Path:
        if not NAME.fullmatch(name):  # whoever made it up; `parse_playback` refuses clients
            raise ValueError(f"{name[:100]!r} is no name of a cassette")
        return self._path / f"{name}{SUFFIX}"


def _removed(file: Path) -> bool:
    """Remove a file that nobody can still be writing; return whether it is gone."""
    try:
        if time.time() - _stamp(file).changed_ns / 1e9 < LONGEST_WRITE_S:
            return False
        file.unlink()
    except OSError:
        return False
    return True


def _broken(file: Path, reason: str) -> UpstreamError:
    return UpstreamError("upstream_invalid_response", f"cassette {file.name!r}: {reason}")
