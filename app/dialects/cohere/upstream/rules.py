"""Cohere's rules for requests, by docs.cohere.com/reference/chat (2026-11)."""

from typing import Final

from ...writing.exchange import ExchangeForm
from ...writing.request_rules import NOT_EMPTY, StopRules

FORM: Final = ExchangeForm(blank=False, files=False, images=False)

STOPS: Final = StopRules(NOT_EMPTY, most=5)

NO_PARAMETERS: Final = {"type": "object", "properties": {}}
"""Of a tool without a schema: `parameters` is required."""

RANGES: Final = {
    "temperature": (0.0, 1.0),  # cohere-ai/cohere-developer-experience#523 (2025-05-01)
    "p": (0.01, 0.99),
    "frequency_penalty": (0.0, 1.0),
    "presence_penalty": (0.0, 1.0),
}
"""The least and the most of each, which are sent for values beyond them."""
