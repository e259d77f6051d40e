"""Google's rules for requests of both its formats: what it answers with INVALID_ARGUMENT otherwise.

Thinking levels and budgets are in `request.py`, media types in `media_parts.py`.
"""

import re
from typing import Final

from ...writing.exchange import ExchangeForm
from ...writing.request_rules import NOT_EMPTY, StopRules

FORM: Final = ExchangeForm(
    blank=False,  # `contents.parts must not be empty` (vercel/ai#3775)
)

CALL: Final = "functionCall"
"""A part that may not be first: `Please ensure that function call turn comes immediately after a
user turn`. Nor may there be no turn: `contents is not specified` (NousResearch/
hermes-agent#57942, 2026-07-03)."""

CONTINUED: Final = re.compile(r"gemini-(?:[12](?![0-9])|3(?:\.1)?(?![.0-9]))")
"""The models that accept a final model turn and continue it; those after 3.1 reject it."""

NAMES: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")
"""API reference of FunctionDeclaration."""

STOPS: Final = StopRules(NOT_EMPTY, most=5)
"""API reference of GenerationConfig."""

ALWAYS_THINKS: Final = re.compile(r"gemini-2\.5-pro")
LEAST_BUDGET: Final = 128
"""`Budget 0 is invalid. This model only works in thinking mode` (snailyp/gemini-balance#206,
2025-07-14); the smallest is that of the thinking guide."""
