"""Anthropic Messages: Claude at Anthropic itself, on Vertex AI, and through Bedrock's invoke."""

from typing import Final

NAME: Final = "anthropic"
"""The name of the client format, and of the `raw` of events."""

BETA: Final = "anthropic-beta"
"""The header that names the betas that a request uses."""

ATTRIBUTION: Final = "x-anthropic-billing-header:"
"""Begins a block of Claude Code's system prompt, for Anthropic only: a digest that differs in each
request. It would void any other provider's prompt cache, and Bedrock refuses it."""
