"""The built-in hook `redact`: replaces keys of services, and e-mail addresses."""

import re
from typing import Final

from .contract import Check, Verdict

# Each alternative begins with fixed characters or is bounded, so the time is linear.
_SECRET: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"sk-[A-Za-z0-9_-]{16,200}"  # OpenAI, Anthropic, DeepSeek
    r"|(?:gh[opsu]|github_pat|glpat|xox[abpr]|hf|gsk|xai|pplx|nvapi)[_-][A-Za-z0-9_-]{16,200}"
    r"|AKIA[A-Z0-9]{16}"
    r"|AIza[A-Za-z0-9_-]{35}"
    r"|eyJ[A-Za-z0-9_-]{10,2000}\.[A-Za-z0-9_-]{10,2000}\.[A-Za-z0-9_-]{10,500}"  # a JWT
    r")"
)
_EMAIL: Final = re.compile(
    r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9._%+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,5}[A-Za-z]{2,24}\b"
)
KEY: Final = "[key]"
EMAIL: Final = "[email]"


async def redact(check: Check) -> Verdict | None:
    """Replace secrets and addresses in all texts."""
    texts = [redact_text(one.text) for one in check.texts]
    changed = any(new != one.text for new, one in zip(texts, check.texts, strict=True))
    return Verdict(texts) if changed else None


def redact_text(text: str) -> str:
    """Return a text with secrets and addresses replaced."""
    return _EMAIL.sub(EMAIL, _SECRET.sub(KEY, text))
