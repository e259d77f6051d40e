"""Rules of OpenAI's Responses for requests: what it answers with 400 otherwise.

Those of one vendor are `Quirks` in `request.py`, with their values in `app/upstreams/presets.toml`.
"""

import re
from typing import Final

from ...writing.exchange import ExchangeForm

FORM: Final = ExchangeForm(ids=re.compile(r".{1,64}", re.DOTALL))
"""`Invalid 'input[2].call_id': string too long`."""

NAMES: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""`Invalid 'tools[0].name': string does not match pattern`, `string too long` (2025-12)."""

LONGEST_USER: Final = 64

# Of OpenAI's own hosts: the quirk `openai_limits`.

LEAST_OUTPUT: Final = 16
"""`Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16`
(vectorize-io/hindsight#58, 2025-12-19)."""

TOP_KEYWORDS: Final = frozenset(("oneOf", "anyOf", "allOf", "enum", "not"))
"""`Invalid schema for function: schema must have type 'object' and not have
'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level`."""

IMAGES: Final = ("image/png", "image/jpeg", "image/jpg", "image/gif", "image/webp")
"""`You uploaded an unsupported image` names them."""
