"""Credentials of upstreams."""

import importlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Literal, Protocol

import msgspec
import structlog

from ..errors import UpstreamError
from .redaction import Redactor

MAX_KEY = 65_536

Auth = Literal["bearer", "api-key", "x-api-key", "x-goog-api-key", "aws", "google", "none"]
"""The header of a key: Authorization, or one with that name; or its replacement: Amazon's
signature, Google's tokens, nothing.
"""

log = structlog.get_logger("seseragi.credentials")


class KeyUnusable(Exception):
    """A text is not a valid key; the message does not quote it."""


def check_key(text: str) -> str:
    """Return the key in a text, without surrounding white space."""
    key = text.strip()
    if not key:
        raise KeyUnusable("the key is empty")
    if not re.fullmatch(r"[!-~]+", key):
        raise KeyUnusable("a key may only contain visible ASCII characters")
    return key


class Secret:
    """A key that only `reveal` shows."""

    __slots__ = ("_value", "redact")

    def __init__(self, value: str) -> None:
        self._value = value
        self.redact = Redactor(value).redact

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return "Secret('...')"


class KeyFile:
    """A key in a file that may be replaced, as Kubernetes and Docker do with secrets.

    If the file becomes unreadable or has no key, the last key remains in use.

    Raises:
        KeyUnusable: the file has no valid key at the start.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._stamp: tuple[int, int, int] | None = None
        self._key = self._read()
        self._redactor = Redactor(self._key, max_secrets=2)

    def reveal(self) -> str:
        """Return the current key; the file is read only if it changed."""
        self._refresh()
        return self._key

    def redact(self, text: str) -> str:
        """Replace this key and the previous one in a text, since an answer may quote either."""
        return self._redactor.redact(text)

    def _refresh(self) -> None:
        try:
            if self._file_stamp() == self._stamp:
                return
            self._key = self._read()
        except (OSError, KeyUnusable) as error:
            reason = str(error) if isinstance(error, KeyUnusable) else "cannot be read"
            log.warning("key file unusable, keeping the last key", file=self._path.name, why=reason)
            return
        self._redactor.add(self._key)

    def _read(self) -> str:
        try:
            stamp = self._file_stamp()  # before reading: a later change is read again
            with self._path.open("rb") as file:
                raw = file.read(MAX_KEY)
        except OSError:
            raise KeyUnusable("cannot be read") from None
        self._stamp = stamp
        return check_key(raw.decode("ascii", "replace"))

    def _file_stamp(self) -> tuple[int, int, int]:
        state = self._path.stat()
        return state.st_mtime_ns, state.st_ino, state.st_size

    def __repr__(self) -> str:
        return f"KeyFile({self._path.name!r})"


class CredentialsSource(msgspec.Struct, frozen=True):
    """The location of an upstream's credentials for the operator, without their values."""

    kind: Literal["environment", "file", "aws", "google", "none"] = "none"
    name: str | None = None
    """The variable, the file or Amazon's profile."""
    setting: str | None = None
    """The setting that names it; None for the provider's default."""

    def __str__(self) -> str:
        """Return a description."""
        named = f" ({self.setting})" if self.setting else ""
        match self.kind:
            case "environment":
                return f"the environment variable {self.name}{named}"
            case "file":
                return f"the file {self.name!r}{named}"
            case "aws":
                source = f" by {self.name}" if self.name else ""
                return f"Amazon's default chain: environment, shared files, role{source}"
            case "google":
                return "Google's Application Default UpstreamCredentials"
            case "none":
                return "nowhere: no key is sent"


def load_modules(package: str, names: Sequence[str], *, needs: str) -> dict[str, ModuleType]:
    """Import modules of an optional package, by the last part of their names.

    `needs` is the message of the error: who needs it, and how to install it.

    Raises:
        UpstreamError: `upstream_auth`, it is not installed.
    """
    try:
        return {n.rpartition(".")[2]: importlib.import_module(f"{package}.{n}") for n in names}
    except ImportError:
        raise UpstreamError("upstream_auth", needs) from None


class UpstreamCredentials(Protocol):
    """The credentials of an upstream."""

    async def headers(self, method: str, url: str, body: bytes) -> Mapping[str, str]:
        """Return the headers that authorize one request.

        Raises:
            UpstreamError: `upstream_auth`, there are no credentials.
        """

    def redact(self, text: str) -> str:
        """Return the text with every secret replaced."""


class NoCredentials(msgspec.Struct, frozen=True):
    """For upstreams without authentication."""

    async def headers(self, method: str, url: str, body: bytes) -> Mapping[str, str]:
        return {}

    def redact(self, text: str) -> str:
        return text


class Key(msgspec.Struct, frozen=True):
    """A key that is sent unchanged."""

    secret: Secret | KeyFile
    auth: Auth = "bearer"

    async def headers(self, method: str, url: str, body: bytes) -> Mapping[str, str]:
        key = self.secret.reveal()
        return {"authorization": f"Bearer {key}"} if self.auth == "bearer" else {self.auth: key}

    def redact(self, text: str) -> str:
        return self.secret.redact(text)
