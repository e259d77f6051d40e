"""Rules of Chat Completions for requests: what OpenAI and hosts of its format answer with 400.

Those of one vendor are `Quirks` in `request.py`, with their values in `app/upstreams/presets.toml`.
"""

import re
from typing import Final

from ...writing.exchange import ExchangeForm
from ...writing.request_rules import ANY_TEXT, StopRules

FORMS: Final = {
    "any": ExchangeForm(images=False),
    "40": ExchangeForm(ids=re.compile(r".{1,40}", re.DOTALL), images=False),
    "nine": ExchangeForm(ids=re.compile(r"[a-zA-Z0-9]{9}"), short=True, images=False),
}
"""By the quirk `call_ids`. Messages of the role `tool` are text only on nearly all hosts."""

NAMES: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""`Invalid 'tools[0].function.name': string does not match pattern`, `string too long` (2025-12);
compatible hosts repeat it."""

LONGEST_USER: Final = 64
"""Characters of a `user`: OpenAI rejects more, such as Claude Code's 190; others allow 128 or
more.
"""

# Of OpenAI's own hosts: the quirk `openai_limits`.

STOPS: Final = StopRules(ANY_TEXT, most=4)
"""`Invalid 'stop': array too long` (continuedev/continue#1572, 2024-06-26)."""

TOP_KEYWORDS: Final = frozenset(("oneOf", "anyOf", "allOf", "enum", "not"))
"""`Invalid schema for function: schema must have type 'object' and not have
'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level`."""

IMAGES: Final = ("image/png", "image/jpeg", "image/jpg", "image/gif", "image/webp")
"""`You uploaded an unsupported image` names them."""
