"""Ollama's rules for requests, by api/types.go and server/routes.go of its source (2026-11)."""

from typing import Final

from ...writing.exchange import ExchangeForm

FORM: Final = ExchangeForm(files=False, links=False)
"""Images are base64 without a media type, and the server fetches none."""

THINK: Final[dict[str, bool | str]] = {"none": False, "minimal": "low", "xhigh": "max"}
"""Efforts with other names in Ollama; it supports low, medium, high and max."""
