"""How the relay authenticates with upstreams. Nothing here is ever shown."""

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, groupby
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

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
    """A text is not a key; the reason does not quote it."""


def check_key(text: str) -> str:
    """Return the key that stands in a text."""
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

        It is found as it is, backwards, in base64, in spaced letters, and as URLs, HTML and
        JSON write it, also one in the other. The time grows with the text and no more.
        """
        size = self._size
        if self._pieces is None:
            self._pieces = frozenset(
                layer.text[at : at + size]
                for form in _forms(self._value)
                for layer in _layers(form)
                for at in range(len(layer.text) - size + 1)
            )
        # As nearly every id and name, which take 2 us instead of 10.
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
    """Return the forms of a key that removing escapes does not reveal."""
    yield value
    yield value[::-1]
    if len(value) < PIECE:
        return  # its pieces in base64 would be any text
    for lead in range(3):  # where it begins within three bytes
        raw = base64.b64encode(bytes(lead) + value.encode()).decode()
        # The first and the last characters depend on what stands beside the key.
        inner = raw[(0, 2, 3)[lead] :].rstrip("=")[:-1]
        yield inner
        yield inner.translate(str.maketrans("+/", "-_"))


LAYERS = 4
"""How often an escape may itself be escaped."""

_ESCAPE = re.compile(
    r"&#[xX]0*([0-9a-fA-F]{1,6});?|&#0*([0-9]{1,7});?|&(amp|lt|gt|quot|apos|sol);?"
    r"|%([0-9a-fA-F]{2})|\\u([0-9a-fA-F]{4})|\\x([0-9a-fA-F]{2})"
    r"|[\\\s\u00ad\u200b-\u200f\u2060\ufeff]"
)
"""A character as URLs, HTML and JSON write it; or one that is in no key and nobody sees."""

_NAMED = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'", "sol": "/"}


class _Layer(NamedTuple):
    """A text without its escapes, and where each character stands in the text with them."""

    text: str
    starts: Sequence[int]
    ends: Sequence[int]


def _layers(text: str) -> Iterator[_Layer]:
    """Yield a text, then without its escapes, and again for as long as there are any."""
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
        return chr(number) if 0x20 < number < 0x7F else ""  # no other is in a key
    return _NAMED[match[3]] if match[3] else ""


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
        """Return the current key; the file is read only if it changed."""
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


class CredentialsSource(msgspec.Struct, frozen=True):
    """Where an operator finds the credentials of an upstream, to mend them; never what they are."""

    kind: Literal["environment", "file", "aws", "google", "none"] = "none"
    name: str | None = None
    """The variable or the file."""
    setting: str | None = None
    """The place in the settings that names it; None for the provider's usual place."""

    def __str__(self) -> str:
        """Say it in words."""
        named = f" ({self.setting})" if self.setting else ""
        match self.kind:
            case "environment":
                return f"the environment variable {self.name}{named}"
            case "file":
                return f"the file {self.name!r}{named}"
            case "aws":
                what = f" by {self.name}" if self.name else ""
                return f"Amazon's usual places: environment, shared files, role{what}{named}"
            case "google":
                what = f", by {self.name}" if self.name else ""
                return f"Google's Application Default Credentials{what}"
            case "none":
                return "nowhere: no key is sent"


class Credentials(Protocol):
    """The credentials of an upstream."""

    async def headers(self, method: str, url: str, body: bytes) -> Mapping[str, str]:
        """Return the headers that authorise one request.

        Raises:
            UpstreamError: `upstream_auth`, there are no credentials.
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
