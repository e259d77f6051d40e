"""Directory of cassettes: lookup by name, cached reads, atomic writes."""

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
from .cassette import MAX_BYTES, Cassette, CassetteError, parse_tape, upstream_of
from .options import NAME

SUFFIX: Final = ".jsonl"
MAX_LISTED: Final = 1000
"""The maximum number of cassettes in the list of models."""
MAX_FILES: Final = 10_000
"""The maximum number of files with which another is recorded."""
MAX_TARGET: Final = 65_536
"""Bytes of the line with the target."""
MAX_CACHED_BYTES: Final = 64 * 2**20
"""The limit of the cache, by the size of the files."""
LONGEST_WRITE_S: Final = 600
"""Older unfinished files are left over from a crash: 16 MiB take milliseconds."""

# Names of cassettes do not begin with a dot, so leftovers of a crash are none.
_UNFINISHED: Final = re.compile(r"\.cassette-[0-9a-f]{16}\.tmp")


class FolderFull(Exception):
    """The directory has too many files."""


class _Stamp(NamedTuple):
    """Identifies a version of a file."""

    changed_ns: int
    size: int
    number: int


def _stamp(file: Path) -> _Stamp:
    found = file.stat()
    if not S_ISREG(found.st_mode):
        raise FileNotFoundError
    return _Stamp(found.st_mtime_ns, found.st_size, found.st_ino)


class Folder:
    """The files of one directory. Its methods block and are thread-safe."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._cache: OrderedDict[str, tuple[_Stamp, Cassette]] = OrderedDict()
        self._lock = Lock()
        self._reading = Lock()
        """Held while a file is read, so that concurrent callers read it once."""

    def names(self) -> list[str]:
        """Return the sorted names of cassettes, at most `MAX_LISTED`."""
        try:
            found = [path.name.removesuffix(SUFFIX) for path in self._path.glob(f"*{SUFFIX}")]
        except OSError:
            return []
        return list(islice(filter(NAME.fullmatch, sorted(found)), MAX_LISTED))

    def upstreams(self) -> set[str]:
        """Return the upstreams of all recordings; ignore broken files."""
        found = set()
        with contextlib.suppress(OSError):
            for file in islice(self._path.glob(f"*{SUFFIX}"), MAX_FILES):
                if not NAME.fullmatch(file.name.removesuffix(SUFFIX)):
                    continue
                with contextlib.suppress(OSError):
                    _stamp(file)  # not for a pipe
                    with file.open("rb") as opened:
                        opened.readline(MAX_BYTES)
                        found.add(upstream_of(opened.readline(MAX_TARGET)))
        return found - {""}

    def has(self, name: str) -> bool:
        """Return whether a cassette exists."""
        return self._file(name).is_file()

    def load(self, name: str) -> Cassette:
        """Return a cassette, from the cache if its file is unchanged.

        Raises:
            RequestError: `model_not_found`, it does not exist.
            UpstreamError: `upstream_invalid_response`, it is broken; with the file and the
                line.
            ServiceError: `internal`, it is unreadable.
        """
        file = self._file(name)
        try:
            stamp = _stamp(file)
            if (cached := self._find_cached(name, stamp)) is not None:
                return cached
            with self._reading:
                stamp = _stamp(file)
                if (cached := self._find_cached(name, stamp)) is not None:
                    return cached
                if stamp.size > MAX_BYTES:
                    raise _broken(file, f"it is larger than {MAX_BYTES} bytes")
                with file.open("rb") as opened:
                    data = opened.read(MAX_BYTES)
                tape = parse_tape(data)
                self._store(name, stamp, tape)
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
        except CassetteError as error:
            raise _broken(file, str(error)) from None

    def _find_cached(self, name: str, stamp: _Stamp) -> Cassette | None:
        """Return a cached cassette, if its file is unchanged."""
        with self._lock:
            cached = self._cache.get(name)
            if cached is None or cached[0] != stamp:
                return None
            self._cache.move_to_end(name)
            return cached[1]

    def _store(self, name: str, stamp: _Stamp, tape: Cassette) -> None:
        with self._lock:
            self._cache[name] = stamp, tape
            self._cache.move_to_end(name)
            while sum(cached.size for cached, _ in self._cache.values()) > MAX_CACHED_BYTES:
                self._cache.popitem(last=False)

    def save(self, name: str, data: bytes) -> None:
        """Write a cassette atomically: concurrent readers see the complete new or old one.

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
        """Remove leftovers of killed writers; return the number of files.

        Raises:
            OSError: the directory is unreadable.
        """
        files = islice(self._path.iterdir(), MAX_FILES)
        return sum(not (_UNFINISHED.fullmatch(file.name) and _removed(file)) for file in files)

    def _file(self, name: str) -> Path:
        if not NAME.fullmatch(name):  # a caller's error: `parse_playback` rejects clients' names
            raise ValueError(f"{name[:100]!r} is no name of a cassette")
        return self._path / f"{name}{SUFFIX}"


def _removed(file: Path) -> bool:
    """Remove a file that cannot still be written; return whether it is gone."""
    try:
        if time.time() - _stamp(file).changed_ns / 1e9 < LONGEST_WRITE_S:
            return False
        file.unlink()
    except OSError:
        return False
    return True


def _broken(file: Path, reason: str) -> UpstreamError:
    return UpstreamError("upstream_invalid_response", f"cassette {file.name!r}: {reason}")
