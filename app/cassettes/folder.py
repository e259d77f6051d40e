"""Directory of cassettes: lookup by name, atomic writes."""

import contextlib
import secrets
from itertools import islice
from pathlib import Path
from stat import S_ISREG
from typing import BinaryIO, Final

from ..errors import RequestError, ServiceError, UpstreamError
from .cassette import MAX_BYTES, Cassette, CassetteError, parse_cassette, upstream_of
from .replay_options import NAME

SUFFIX: Final = ".jsonl"
MAX_LISTED: Final = 1000
"""The maximum number of cassettes in the list of models."""
MAX_FILES: Final = 10_000
"""The maximum number of files with which another is recorded."""
MAX_TARGET: Final = 65_536
"""Bytes of the line with the target."""


class FolderFull(Exception):
    """The directory has too many files."""


class Folder:
    """The files of one directory. Its methods block and are thread-safe."""

    def __init__(self, path: Path) -> None:
        self._path = path

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
                with contextlib.suppress(OSError), self._open(file) as opened:
                    opened.readline(MAX_BYTES)
                    found.add(upstream_of(opened.readline(MAX_TARGET)))
        return found - {""}

    def has(self, name: str) -> bool:
        """Return whether a cassette exists."""
        return self._file(name).is_file()

    def load(self, name: str) -> Cassette:
        """Return a cassette.

        Raises:
            RequestError: `model_not_found`, it does not exist.
            UpstreamError: `upstream_invalid_response`, it is broken; with the file and the
                line.
            ServiceError: `internal`, it is unreadable.
        """
        file = self._file(name)
        try:
            with self._open(file) as opened:
                data = opened.read(MAX_BYTES + 1)
            if len(data) > MAX_BYTES:
                raise _broken(file, f"it is larger than {MAX_BYTES} bytes")
            return parse_cassette(data)
        except FileNotFoundError:
            raise RequestError(
                "model_not_found",
                f"unknown model 'cassette/{name}': no file {file.name!r} in the folder of "
                "cassettes; GET /v1/models lists them",
            ) from None
        except OSError as error:
            raise ServiceError(
                "internal", f"cassette {file.name!r} cannot be read: {error.strerror}"
            ) from None
        except CassetteError as error:
            raise _broken(file, str(error)) from None

    def save(self, name: str, data: bytes) -> None:
        """Write a cassette atomically: concurrent readers see the complete new or old one.

        Raises:
            OSError: it cannot be written.
            FolderFull: there are `MAX_FILES`.
        """
        if len([*islice(self._path.iterdir(), MAX_FILES)]) == MAX_FILES:
            raise FolderFull(f"the folder of cassettes has {MAX_FILES} files")
        written = self._path / f".cassette-{secrets.token_hex(8)}.tmp"
        try:
            with written.open("xb") as opened:
                opened.write(data)
            written.replace(self._file(name))
        finally:
            written.unlink(missing_ok=True)

    def _open(self, file: Path) -> BinaryIO:
        if not S_ISREG(file.stat().st_mode):  # a pipe would block
            raise FileNotFoundError
        return file.open("rb")

    def _file(self, name: str) -> Path:
        if not NAME.fullmatch(name):  # a bug: `parse_options` has checked clients' names
            raise ValueError(f"{name[:100]!r} is not a name of a cassette")
        return self._path / f"{name}{SUFFIX}"


def _broken(file: Path, reason: str) -> UpstreamError:
    return UpstreamError("upstream_invalid_response", f"cassette {file.name!r}: {reason}")
