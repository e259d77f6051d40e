"""How the relay proves to an upstream who it is. Nothing here is shown to anyone."""

import base64
import html
import json
import re
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Literal, Protocol
from urllib.parse import quote

import msgspec
import structlog

PIECE = 8
"""Less of a key than that gives nothing away, and may stand in a text by chance."""

MAX_KEY = 65_536

Auth = Literal["bearer", "api-key", "x-api-key", "x-goog-api-key", "aws", "google", "none"]
"""Where a key travels: in Authorization, or in a header of that name; or what there is
instead of a key: Amazon's signature, Google's tokens, nothing."""

log = structlog.get_logger("seseragi.credentials")


class KeyUnusable(Exception):
    """A text that is no key; the reason does not quote it."""


def check_key(text: str) -> str:
    """Give the key that stands in a text."""
    key = text.strip()
    if not key:
        raise KeyUnusable("it is empty")
    if not re.fullmatch(r"[!-~]+", key):
        raise KeyUnusable("a key has visible ASCII characters only")
    return key


class Secret:
    """A key: nothing but `reveal` shows it."""

    __slots__ = ("_pieces", "_size", "_value")

    def __init__(self, value: str) -> None:
        self._value = value
        self._size = min(PIECE, len(value))
        self._pieces: frozenset[str] | None = None

    def reveal(self) -> str:
        return self._value

    def redact(self, text: str) -> str:
        """Take the key, and every piece of it of `PIECE` characters and more, out of a text.

        It is found as it is, and as URLs, HTML, JSON and base64 write it.
        """
        size = self._size
        if self._pieces is None:
            self._pieces = frozenset(
                form[at : at + size]
                for form in _forms(self._value)
                for at in range(len(form) - size + 1)
            )
        hidden = [False] * len(text)
        for at in range(len(text) - size + 1):
            if text[at : at + size] in self._pieces:
                hidden[at : at + size] = [True] * size
        runs = groupby(zip(hidden, text, strict=True), key=lambda pair: pair[0])
        return "".join("[key]" if hide else "".join(c for _, c in run) for hide, run in runs)

    def __repr__(self) -> str:
        return "Secret('...')"


def _forms(value: str) -> Iterator[str]:
    """Write a key in every way in which an error may quote it."""
    yield value
    yield quote(value, safe="")
    yield quote(value, safe="").lower()
    yield html.escape(value)
    yield json.dumps(value)[1:-1]
    yield value.replace("/", "\\/")
    if len(value) < PIECE:
        return  # its pieces in base64 would be any text
    for lead in range(3):  # where it begins within three bytes
        raw = base64.b64encode(bytes(lead) + value.encode()).decode()
        # The first and the last characters depend on what stands beside the key.
        inner = raw[(0, 2, 3)[lead] :].rstrip("=")[:-1]
        yield inner
        yield inner.translate(str.maketrans("+/", "-_"))


class KeyFile:
    """A key in a file that may be replaced, as Kubernetes and Docker do with secrets.

    A file that cannot be read any more, or holds no key, leaves the last key in use.

    Raises:
        KeyUnusable: there is no key in it at the start.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._stamp: tuple[int, int, int] | None = None
        self._secret = self._read()
        self._before: Secret | None = None

    def reveal(self) -> str:
        """Give the key of now; reads the file only if it changed."""
        self._refresh()
        return self._secret.reveal()

    def redact(self, text: str) -> str:
        """Take this key and the one before out of a text: an answer may quote the older."""
        for secret in filter(None, (self._secret, self._before)):
            text = secret.redact(text)
        return text

    def _refresh(self) -> None:
        try:
            if self._look() == self._stamp:
                return
            secret = self._read()
        except (OSError, KeyUnusable) as error:
            reason = str(error) if isinstance(error, KeyUnusable) else "it cannot be read"
            log.warning("key file unusable, keeping the last key", file=self._path.name, why=reason)
            return
        if secret.reveal() != self._secret.reveal():
            self._secret, self._before = secret, self._secret

    def _read(self) -> Secret:
        try:
            stamp = self._look()  # before: what changes meanwhile is read again
            with self._path.open("rb") as file:
                raw = file.read(MAX_KEY)
        except OSError:
            raise KeyUnusable("it cannot be read") from None
        self._stamp = stamp
        return Secret(check_key(raw.decode("ascii", "replace")))

    def _look(self) -> tuple[int, int, int]:
        state = self._path.stat()
        return state.st_mtime_ns, state.st_ino, state.st_size

    def __repr__(self) -> str:
        return f"KeyFile({self._path.name!r})"


class Credentials(Protocol):
    """What an upstream has of them."""

    async def headers(self, method: str, url: str, body: bytes) -> Mapping[str, str]:
        """Give the headers that authorise one request.

        Raises:
            UpstreamError: `upstream_auth`, there are none to be had.
        """

    def redact(self, text: str) -> str:
        """Take every secret out of a text."""


class NoCredentials(msgspec.Struct, frozen=True):
    """For upstreams that ask for none."""

    async def headers(self, method: str, url: str, body: bytes) -> Mapping[str, str]:
        return {}

    def redact(self, text: str) -> str:
        return text


class Key(msgspec.Struct, frozen=True):
    """A key that is sent as it is."""

    secret: Secret | KeyFile
    auth: Auth = "bearer"

    async def headers(self, method: str, url: str, body: bytes) -> Mapping[str, str]:
        key = self.secret.reveal()
        return {"authorization": f"Bearer {key}"} if self.auth == "bearer" else {self.auth: key}

    def redact(self, text: str) -> str:
        return self.secret.redact(text)
