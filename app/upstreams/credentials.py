"""Authentication with upstreams, and redaction of its secrets."""

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, groupby
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

import msgspec
import structlog

PIECE = 8
"""The shortest redacted piece of a key; shorter ones reveal little and may occur by chance."""

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

    __slots__ = ("_pieces", "_size", "_value")

    def __init__(self, value: str) -> None:
        self._value = value
        self._size = min(PIECE, len(value))
        self._pieces: frozenset[str] | None = None

    def reveal(self) -> str:
        return self._value

    def redact(self, text: str) -> str:
        """Replace the key, and every piece of it of at least `PIECE` characters, in a text.

        It is found verbatim, reversed, in base64, with spaces between letters, and escaped as
        in URLs, HTML and JSON, also nested. The time is linear in the length of the text.
        """
        size = self._size
        if self._pieces is None:
            self._pieces = frozenset(
                layer.text[at : at + size]
                for form in _forms(self._value)
                for layer in _layers(form)
                for at in range(len(layer.text) - size + 1)
            )
        # Nearly every id and name: 2 us instead of 10.
        if not _ESCAPE.search(text) and self._pieces.isdisjoint(
            [text[at : at + size] for at in range(len(text))]
        ):
            return text
        changes = [0] * (len(text) + 1)
        for layer in _layers(text):
            plain, pieces = layer.text, self._pieces
            for at in range(len(plain) - size + 1):
                if plain[at : at + size] in pieces:
                    changes[layer.starts[at]] += 1
                    changes[layer.ends[at + size - 1]] -= 1
        if not any(changes):
            return text
        runs = groupby(zip(accumulate(changes), text, strict=False), key=lambda pair: pair[0] > 0)
        return "".join("[key]" if hide else "".join(c for _, c in run) for hide, run in runs)

    def __repr__(self) -> str:
        return "Secret('...')"


def _forms(value: str) -> Iterator[str]:
    """Yield the forms of a key that unescaping does not undo."""
    yield value
    yield value[::-1]
    if len(value) < PIECE:
        return  # base64 pieces would match any text
    for lead in range(3):  # the key's offset within three bytes
        raw = base64.b64encode(bytes(lead) + value.encode()).decode()
        # The first and last characters depend on the bytes around the key.
        inner = raw[(0, 2, 3)[lead] :].rstrip("=")[:-1]
        yield inner
        yield inner.translate(str.maketrans("+/", "-_"))


LAYERS = 4
"""The maximum depth of nested escapes."""

_ESCAPE = re.compile(
    r"&#[xX]0*([0-9a-fA-F]{1,6});?|&#0*([0-9]{1,7});?|&(amp|lt|gt|quot|apos|sol);?"
    r"|%([0-9a-fA-F]{2})|\\u([0-9a-fA-F]{4})|\\x([0-9a-fA-F]{2})"
    r"|[\\\s\u00ad\u200b-\u200f\u2060\ufeff]"
)
"""A character escaped as in URLs, HTML and JSON, or an invisible one, which no key contains."""

_NAMED = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'", "sol": "/"}


class _Layer(NamedTuple):
    """An unescaped text, with the position of each character in the original."""

    text: str
    starts: Sequence[int]
    ends: Sequence[int]


def _layers(text: str) -> Iterator[_Layer]:
    """Yield a text, then repeatedly unescaped while that changes it."""
    layer = _Layer(text, range(len(text)), range(1, len(text) + 1))
    yield layer
    for _ in range(LAYERS):
        without = _unescape(layer)
        if len(without.text) == len(layer.text):
            return
        layer = without
        yield layer


def _unescape(layer: _Layer) -> _Layer:
    pieces: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    done = 0
    for match in _ESCAPE.finditer(layer.text):
        at, end = match.span()
        pieces.append(layer.text[done:at])
        starts += layer.starts[done:at]
        ends += layer.ends[done:at]
        done = end
        if character := _character(match):
            pieces.append(character)
            starts.append(layer.starts[at])
            ends.append(layer.ends[end - 1])
    pieces.append(layer.text[done:])
    starts += layer.starts[done:]
    ends += layer.ends[done:]
    return _Layer("".join(pieces), starts, ends)


def _character(match: re.Match[str]) -> str:
    by_hex = match[1] or match[4] or match[5] or match[6]
    if by_hex or match[2]:
        number = int(by_hex, 16) if by_hex else int(match[2])
        return chr(number) if 0x20 < number < 0x7F else ""  # no key contains others
    return _NAMED[match[3]] if match[3] else ""


class KeyFile:
    """A key in a file that may be replaced, as Kubernetes and Docker do with secrets.

    If the file becomes unreadable or has no key, the last key remains in use.

    Raises:
        KeyUnusable: the file has no valid key at the start.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._stamp: tuple[int, int, int] | None = None
        self._secret = self._read()
        self._previous: Secret | None = None

    def reveal(self) -> str:
        """Return the current key; the file is read only if it changed."""
        self._refresh()
        return self._secret.reveal()

    def redact(self, text: str) -> str:
        """Replace this key and the previous one in a text, since an answer may quote either."""
        for secret in filter(None, (self._secret, self._previous)):
            text = secret.redact(text)
        return text

    def _refresh(self) -> None:
        try:
            if self._file_stamp() == self._stamp:
                return
            secret = self._read()
        except (OSError, KeyUnusable) as error:
            reason = str(error) if isinstance(error, KeyUnusable) else "cannot be read"
            log.warning("key file unusable, keeping the last key", file=self._path.name, why=reason)
            return
        if secret.reveal() != self._secret.reveal():
            self._secret, self._previous = secret, self._secret

    def _read(self) -> Secret:
        try:
            stamp = self._file_stamp()  # before reading: a later change is read again
            with self._path.open("rb") as file:
                raw = file.read(MAX_KEY)
        except OSError:
            raise KeyUnusable("cannot be read") from None
        self._stamp = stamp
        return Secret(check_key(raw.decode("ascii", "replace")))

    def _file_stamp(self) -> tuple[int, int, int]:
        state = self._path.stat()
        return state.st_mtime_ns, state.st_ino, state.st_size

    def __repr__(self) -> str:
        return f"KeyFile({self._path.name!r})"


class CredentialsSource(msgspec.Struct, frozen=True):
    """The location of an upstream's credentials for the operator, without their values."""

    kind: Literal["environment", "file", "aws", "google", "none"] = "none"
    name: str | None = None
    """The variable or the file."""
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
                return f"Amazon's default chain: environment, shared files, role{source}{named}"
            case "google":
                source = f", by {self.name}" if self.name else ""
                return f"Google's Application Default Credentials{source}"
            case "none":
                return "nowhere: no key is sent"


class Credentials(Protocol):
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
