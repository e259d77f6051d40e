"""The built-in hook `redact`: replaces keys of services, and e-mail addresses.

A text may be JSON, or a part of it: a character after an escape begins a word, and letters may be
escaped themselves. Long texts are checked in slices, between which other tasks run.
"""

import asyncio
import re
from collections.abc import Callable
from string import ascii_letters, digits
from typing import Final

from .contract import Check, Verdict

SLICE: Final = 65_536
OVERLAP: Final = 512
"""Characters after a slice that decide whether a match begins in it: an address has up to 410."""
LONGEST_JWT: Final = 16_384
MANY: Final = 1000
"""Short texts between which other tasks run: 5 ms."""

_C: Final = "[A-Za-z0-9_-]"
_BEFORE: Final = r"(?:(?<![A-Za-z0-9]{0})|(?<=\\[bfnrt]{0})|(?<=\\u[0-9a-fA-F]{{4}}{0}))"
"""No word, or an escape; {0} is what follows it."""
_PREFIX: Final = (
    r"(?:sk-"  # OpenAI, Anthropic, DeepSeek
    r"|(?:gh[opsu]|github_pat|glpat|xox[abpr]|hf|gsk|xai|pplx|nvapi)[_-])"
)

# No expression backtracks. Look-behinds are slow: each follows a comparison of characters.
_KEY: Final = re.compile(
    rf"(?=[sgxhpnA]){_BEFORE.format('')}"
    rf"(?:{_PREFIX}{_C}{{16,}}+|AKIA[A-Z0-9]{{16}}|AIza{_C}{{35}})"
)
# Skip a segment that does not begin a JWT: no JWT begins within it.
_JWT: Final = re.compile(
    rf"eyJ{_BEFORE.format('eyJ')}"
    rf"(?:{_C}{{7,}}+\.{_C}{{10,}}+\.{_C}{{10,}}+|(?P<skipped>{_C}{{7,}}+))"
)
_EMAIL: Final = re.compile(
    r"(?:(?P<escape>\\(?:[bfnrt]|u[0-9a-fA-F]{4}))|(?<![A-Za-z0-9._%+\\-]))"
    r"[A-Za-z0-9._%+-]{1,64}+@(?:[A-Za-z0-9-]{1,63}+\.){1,5}[A-Za-z]{2,24}+\b"
)
_ESCAPED: Final = re.compile(r"\\(?<!\\\\)\\++(?=u00)")
_PLAIN: Final = f"{ascii_letters}{digits}._%+-@"
"""The characters of keys and addresses."""
_BEGIN: Final = re.compile(rf"{_PREFIX}|AKIA|AIza|eyJ|\\u00|^.*@")
_WORD: Final = f"{_PLAIN}\\"
KEY: Final = "[key]"
EMAIL: Final = "[email]"


async def redact(check: Check) -> Verdict | None:
    """Replace secrets and addresses in all texts; what may become one has to wait."""
    texts, hold = list[str](), 0
    for number, one in enumerate(check.texts):
        if number % MANY == MANY - 1:
            await asyncio.sleep(0)
        texts.append(await redact_text(one.text))
    if check.texts and not check.texts[-1].final:
        word = texts[-1][len(texts[-1].rstrip(_WORD)) :]
        begin = _BEGIN.search(word)
        hold = 0 if begin is None else len(word) - begin.start()
    changed = any(new != one.text for new, one in zip(texts, check.texts, strict=True))
    return Verdict(texts if changed else None, hold=hold) if changed or hold else None


async def redact_text(text: str) -> str:
    """Return a text with secrets and addresses replaced."""
    found = await _redact(text)
    if "\\u00" in found:
        plain = await _unescape(found)
        if (redacted := await _redact(plain)) != plain:
            return redacted
    return found


async def _unescape(text: str) -> str:
    """Return a text without escapes of characters that need none, however often escaped."""
    text = _ESCAPED.sub(r"\\", text)
    for character in _PLAIN:
        code = f"{ord(character):02x}"
        for form in {code, code.upper()}:
            text = text.replace(f"\\u00{form}", character)
        if len(text) > SLICE:
            await asyncio.sleep(0)
    return text


async def _redact(text: str) -> str:
    if "eyJ" in text:
        text = await _replace(_JWT, lambda match: match[0] if match["skipped"] else KEY, text)
    text = await _replace(_KEY, lambda match: KEY, text)
    if "@" in text:
        text = await _replace(_EMAIL, lambda match: f"{match['escape'] or ''}{EMAIL}", text)
    return text


async def _replace(pattern: re.Pattern[str], new: Callable[[re.Match[str]], str], text: str) -> str:
    """Replace all matches, and let other tasks run after each slice."""
    pieces, at, copied = list[str](), 0, 0
    overlap = LONGEST_JWT if pattern is _JWT else OVERLAP
    while at < len(text):
        last = min(at + SLICE, len(text))
        stop = min(last + overlap, len(text))
        begin, at = at, len(text) if stop == len(text) else last
        for found in pattern.finditer(text, begin, stop):
            start, end = found.span()
            if start >= last:
                at = start if stop == len(text) else last
                break
            if end == stop < len(text):  # the match may continue after the slice
                found = pattern.match(text, start) or found
                end = found.end()
            pieces += (text[copied:start], new(found))
            copied = end
            at = max(at, end)
        if at < len(text):
            await asyncio.sleep(0)
    return "".join((*pieces, text[copied:]))
