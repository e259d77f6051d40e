"""How the relay proves to an upstream who it is. Nothing here is shown to anyone."""

from collections.abc import Mapping
from itertools import groupby
from typing import Literal, Protocol

import msgspec

PIECE = 8
"""Less of a key than that gives nothing away, and may stand in a text by chance."""

Auth = Literal["bearer", "api-key", "x-api-key", "x-goog-api-key"]
"""Where a key travels: in Authorization, or in a header of that name."""


class Secret:
    """A key: nothing but `reveal` shows it."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def redact(self, text: str) -> str:
        """Take the key, and every piece of it of `PIECE` characters and more, out of a text."""
        size = min(PIECE, len(self._value))
        pieces = {self._value[at : at + size] for at in range(len(self._value) - size + 1)}
        hidden = [False] * len(text)
        for at in range(len(text) - size + 1):
            if text[at : at + size] in pieces:
                hidden[at : at + size] = [True] * size
        runs = groupby(zip(hidden, text, strict=True), key=lambda pair: pair[0])
        return "".join("[key]" if hide else "".join(c for _, c in run) for hide, run in runs)

    def __repr__(self) -> str:
        return "Secret('...')"


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

    secret: Secret
    auth: Auth = "bearer"

    async def headers(self, method: str, url: str, body: bytes) -> Mapping[str, str]:
        key = self.secret.reveal()
        return {"authorization": f"Bearer {key}"} if self.auth == "bearer" else {self.auth: key}

    def redact(self, text: str) -> str:
        return self.secret.redact(text)
