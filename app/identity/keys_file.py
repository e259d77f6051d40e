"""The file with the digests of keys: reading and atomic replacement.

The file is never modified in place, and replaced by one process at a time. It contains
digests, their principals, and the signing key: so only its owner should have access.
"""

import os
import shlex
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from .config import Ending, KeyConfig

MAX_FILE = 4 * 2**20
"""Bytes; a key takes some 250."""

LOCK_S = 10.0
"""Timeout for another `seseragi key`, which takes milliseconds."""

Stamp = tuple[int, ...] | None
"""Changes whenever the file does; None if there is no file."""


class KeysUnusable(Exception):
    """Keys cannot be used; the message is one line with the reason and the remedy."""


class PreviousSigningKey(Ending, frozen=True):
    """A signing key that was rotated: its tokens are valid for a while."""

    key: Annotated[str, Meta(min_length=32, max_length=1024)]


class KeysFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The content of the file."""

    signing_key: Annotated[str, Meta(min_length=32, max_length=1024)] | None = None
    keys: tuple[KeyConfig, ...] = ()
    signs_from: Annotated[datetime, Meta(tz=True)] | None = None
    """When every relay knows the signing key; until then the one before it signs."""
    previous_signing_keys: tuple[PreviousSigningKey, ...] = ()
    """The newest first."""

    def __repr__(self) -> str:
        """Return a description without the signing keys."""
        return f"KeysFile({len(self.keys)} keys)"

    def signing_keys(self, now: float) -> tuple[str, ...]:
        """Return the keys of valid tokens, first the one that signs."""
        valid = [one.key for one in self.previous_signing_keys if one.ends_at > now]
        if self.signing_key is None:
            return ()
        if valid and self.signs_from is not None and self.signs_from.timestamp() > now:
            return (valid[0], self.signing_key, *valid[1:])
        return (self.signing_key, *valid)


class _Rows(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of the file before its keys are decoded."""

    signing_key: msgspec.Raw = msgspec.Raw(b"null")
    keys: tuple[msgspec.Raw, ...] = ()
    signs_from: msgspec.Raw = msgspec.Raw(b"null")
    previous_signing_keys: msgspec.Raw = msgspec.Raw(b"[]")


class Reading(NamedTuple):
    """The content of the file, and a warning."""

    file: KeysFile
    caution: str | None


def stamp_of(path: Path) -> Stamp:
    """Return the stamp of the file."""
    try:
        state = path.stat()
    except (OSError, ValueError):
        return None
    return (
        state.st_dev,
        state.st_ino,
        state.st_size,
        state.st_mtime_ns,
        state.st_ctime_ns,
        state.st_mode,
    )


def read_keys_file(path: Path) -> Reading:
    """Read the file.

    Raises:
        KeysUnusable: it is missing, unreadable or invalid, or others could have written it.
    """
    try:
        state = path.stat()
        if not stat.S_ISREG(state.st_mode):  # a pipe would block
            raise KeysUnusable(f"{path}: not a regular file")
        caution = _check_mode(path, state)
        if state.st_nlink == 0:  # a container mounts the file instead of its directory
            caution = "the keys file was replaced where this process cannot see: mount its folder"
        with path.open("rb") as file:
            raw = file.read(MAX_FILE + 1)
    except FileNotFoundError:
        raise KeysUnusable(f"{path}: file not found; create it with seseragi key new") from None
    except OSError as error:
        raise KeysUnusable(f"{path}: cannot be read: {_reason(error)}") from None
    except ValueError:  # a name with a null byte
        raise KeysUnusable(f"{str(path)!r}: invalid file name") from None
    if len(raw) > MAX_FILE:
        raise KeysUnusable(f"{path}: larger than {MAX_FILE} bytes")
    try:
        return Reading(_decode(raw), caution)
    except msgspec.ValidationError as error:
        newer = "; a newer version may have written it" if "unknown" in str(error) else ""
        raise KeysUnusable(f"{path}: not a keys file: {str(error)[:200]!r}{newer}") from None
    except (msgspec.DecodeError, ValueError, RecursionError):
        raise KeysUnusable(f"{path}: invalid JSON") from None


def _decode(raw: bytes) -> KeysFile:
    """Decode key by key: 20,000 at once would hold the GIL for 70 ms."""
    rows = msgspec.json.decode(raw, type=_Rows)
    try:
        keys = tuple(msgspec.json.decode(row, type=KeyConfig) for row in rows.keys)
    except msgspec.ValidationError:
        return msgspec.json.decode(raw, type=KeysFile)  # its error names the row
    head = msgspec.json.encode({**msgspec.structs.asdict(rows), "keys": ()})
    return msgspec.structs.replace(msgspec.json.decode(head, type=KeysFile), keys=keys)


def change_keys_file(path: Path, edit: Callable[[KeysFile | None], KeysFile]) -> str | None:
    """Replace the file by the result of `edit`, which receives its content, or None.

    Returns a warning, if any. Concurrent calls wait for each other.

    Raises:
        KeysUnusable: it is inaccessible, or accessible to others.
    """
    try:
        path = Path(os.path.realpath(path))  # keep symbolic links
    except ValueError:  # a null byte
        raise KeysUnusable(f"{str(path)!r}: invalid file name") from None
    try:
        with _locked(path.parent):
            state = path.stat() if path.exists() else None
            reading = read_keys_file(path) if state is not None else None
            changed = edit(reading and reading.file)
            raw = _encode(changed)
            if len(raw) > MAX_FILE:
                raise KeysUnusable(
                    f"{path}: would be larger than {MAX_FILE} bytes; revoke unused keys"
                )
            _replace(path, raw, like=state)
            return reading and reading.caution
    except OSError as error:
        raise KeysUnusable(f"{path}: cannot be written: {_reason(error)}") from None


def _check_mode(path: Path, state: os.stat_result) -> str | None:
    """Refuse a file that others could have changed, or can read unnecessarily.

    Secrets mounted by Kubernetes and Docker belong to root, or are read-only, and are readable
    by a group, or by all: these cause a warning only.
    """
    if os.name == "nt":  # which has no such modes
        return None
    mode = stat.S_IMODE(state.st_mode)
    fixed = os.statvfs(path).f_flag & os.ST_RDONLY
    remedy = f"run: chmod 600 {shlex.quote(str(path))}"
    if mode & (stat.S_IWGRP | stat.S_IWOTH) and not fixed:
        raise KeysUnusable(
            f"{path}: writable by others, who could add keys (mode {mode:o}); {remedy}"
        )
    if not fixed:
        _check_folders(path)
    if not mode & (stat.S_IRGRP | stat.S_IROTH):
        return None
    if state.st_uid == os.geteuid() and not fixed:
        raise KeysUnusable(f"{path}: readable by others (mode {mode:o}); {remedy}")
    if not mode & stat.S_IROTH:  # the group is how the file is shared with this process
        return None
    return f"every user can read the keys file (mode {mode:o})"


def _check_folders(path: Path) -> None:
    """Refuse a file, or the target of a link, in a world-writable directory."""
    for folder in {path.parent, Path(os.path.realpath(path)).parent}:
        mode = stat.S_IMODE(folder.stat().st_mode)
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            raise KeysUnusable(
                f"{path}: in a world-writable directory; run: chmod o-w {shlex.quote(str(folder))}"
            )


def _encode(file: KeysFile) -> bytes:
    keys = [row_of(key) for key in file.keys]
    content = {"signing_key": None, **row_of(file), "keys": keys}
    raw = msgspec.json.encode(content)
    indented = msgspec.json.format(raw, indent=2) + b"\n"
    # Without indentation if too large, so that a full file still allows revocation.
    return indented if len(indented) <= MAX_FILE else raw


def row_of(key: KeyConfig | KeysFile) -> dict[str, Any]:
    """Return the fields of a key, or of the file, that differ from their defaults."""
    defaults = {field.name: field.default for field in msgspec.structs.fields(key)}
    fields = msgspec.structs.asdict(key)
    return {name: value for name, value in fields.items() if value != defaults[name]}


def _replace(path: Path, raw: bytes, *, like: os.stat_result | None) -> None:
    """Replace a file atomically, also across a power failure.

    Owner and mode are preserved: the relay may run as another user than the editor of its keys.
    """
    new = path.with_name(f".{path.name}.new")
    with suppress(FileNotFoundError):
        new.unlink()  # of a killed process
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    with os.fdopen(os.open(new, flags, 0o600), "wb") as file:
        try:
            if like is not None and os.name != "nt":
                if (like.st_uid, like.st_gid) != (os.geteuid(), os.getegid()):
                    os.fchown(file.fileno(), like.st_uid, like.st_gid)
                os.fchmod(file.fileno(), stat.S_IMODE(like.st_mode))
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            new.unlink()
            raise
    new.replace(path)
    if os.name != "nt":
        with _folder(path.parent) as folder:
            os.fsync(folder)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock the keys in a directory against other processes; the lock ends with this one."""
    try:
        import fcntl
    except ImportError:  # on Windows: a concurrent call fails, since `.new` exists
        yield
        return
    with _folder(folder) as handle:
        give_up_at = time.monotonic() + LOCK_S
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > give_up_at:
                    raise KeysUnusable(
                        f"{folder}: another seseragi key has changed keys there for {LOCK_S:g} s; "
                        "try again"
                    ) from None
                time.sleep(0.02)
        yield


@contextmanager
def _folder(folder: Path) -> Iterator[int]:
    handle = os.open(folder, os.O_RDONLY)
    try:
        yield handle
    finally:
        os.close(handle)


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
