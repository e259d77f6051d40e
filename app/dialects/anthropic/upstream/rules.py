"""Anthropic's rules for requests, on all of its platforms: what it answers with 400 otherwise.

Beside these: betas in `betas.py`; keywords of enforced schemas in `writing/enforced_schemas.py`;
by version of the model (prefill, sampling, thinking) in `writing/claude.py`.
"""

import re
from collections.abc import Mapping
from typing import Final

from ...writing.exchange import ExchangeForm
from ...writing.request_rules import NOT_BLANK, StopRules

FORM: Final = ExchangeForm(
    blank=False,  # `text content blocks must contain non-whitespace text` (pydantic-ai#4495)
    ids=re.compile(r"[a-zA-Z0-9_-]+"),  # `tool_use.id: String should match pattern`
    unique=True,  # `tool_use ids must be unique`
    trailing_space=False,  # `final assistant content cannot end with trailing whitespace`
)

NAMES: Final = re.compile(r"[a-zA-Z0-9_-]{1,128}")
"""`tools.0.custom.name: String should match pattern` (2026-03)."""

TOP_KEYWORDS: Final = frozenset(("oneOf", "allOf", "anyOf"))
"""`input_schema does not support oneOf, allOf, or anyOf at the top level`
(anthropics/claude-code#4886)."""

STOPS: Final = StopRules(NOT_BLANK)
"""`stop_sequences: each stop sequence must contain non-whitespace` (2026-04)."""

IMAGES: Final[Mapping[str, str]] = {
    **{name: name for name in ("image/png", "image/jpeg", "image/gif", "image/webp")},
    "image/jpg": "image/jpeg",
}
"""`source.base64.media_type: Input should be` one of these; each with the name that is sent."""

MAX_MARKS: Final = 4
"""`A maximum of 4 blocks with cache_control may be provided` (griffinmartin/
opencode-claude-auth#121, 2026-04-03)."""

MAX_USER: Final = 256
"""Characters of `metadata.user_id`, by the API reference."""
