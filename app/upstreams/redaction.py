"""Redaction of secrets in text: verbatim, and as JSON, URLs and base64 encode them. Pure."""

import base64
import re
from collections.abc import Iterable, Iterator
from typing import Final

MIN_ENCODED: Final = 8
"""Shorter secrets are only found verbatim: their base64 would match other text."""

HEAD: Final = 12
"""The shortest beginning of a secret, or of its base64, that is found without the rest."""

_MASKED: Final = r"(?=[*…]|\.\.|\Z)"
"""What follows a shorter beginning, of at least `MIN_ENCODED`, that is found."""


class Redactor:
    """Replaces secrets by `[key]`; after `add`, also the earlier ones, which an error may quote."""

    __slots__ = ("_max_secrets", "_pattern", "_secrets")

    def __init__(self, *secrets: str, max_secrets: int = 6) -> None:
        self._max_secrets = max_secrets
        self._secrets: tuple[str, ...] = ()
        self._pattern: re.Pattern[str] | None = None
        self.add(*secrets)

    def add(self, *secrets: str) -> None:
        """Add secrets, and forget the oldest beyond `max_secrets`."""
        newest = tuple(dict.fromkeys((*secrets, *self._secrets)))[: self._max_secrets]
        if newest != self._secrets:
            self._secrets, self._pattern = newest, None

    def redact(self, text: str) -> str:
        """Return the text with every secret replaced: 0.6 us for an id without one."""
        if not self._secrets:
            return text
        if self._pattern is None:  # compiling takes a millisecond
            self._pattern = _compile(self._secrets)
        return self._pattern.sub("[key]", text)


def _compile(secrets: Iterable[str]) -> re.Pattern[str]:
    longest_first = sorted(secrets, key=len, reverse=True)
    return re.compile("|".join(form for secret in longest_first for form in _forms(secret)))


def _forms(secret: str) -> Iterator[str]:
    """Yield a pattern for each form of a secret, then of its beginnings: texts are truncated."""
    characters = list(map(_escaped, secret))
    yield "".join(characters)
    if len(secret) < MIN_ENCODED:
        return
    if len(secret) > HEAD:
        others = re.escape("".join(c for c in sorted(set(secret)) if not c.isalnum()))
        more = rf"(?:[A-Za-z0-9_%…{others}]|\\{{1,15}}(?:u00|[\\{others}]))*"
        yield "".join(characters[:HEAD]) + more
    for size in range(min(HEAD, len(secret)) - 1, MIN_ENCODED - 1, -1):
        yield "".join(characters[:size]) + _MASKED
    for lead in range(3):  # its offset within three bytes
        encoded = base64.b64encode(bytes(lead) + secret.encode()).decode()
        # The first and last characters depend on the bytes around the secret.
        inner = encoded[(0, 2, 3)[lead] :].rstrip("=")[:-1][:HEAD]
        yield inner.replace("/", "[/_]").replace("+", "[+-]") + "[A-Za-z0-9+/_=-]*"


def _escaped(character: str) -> str:
    """Return a pattern for a character, which URLs and JSON (up to four times) may escape."""
    if character.isalnum():
        return character
    code = f"(?i:{ord(character):02x})"
    return rf"(?:\\{{0,15}}{re.escape(character)}|(?:%|\\{{1,15}}u00){code})"
