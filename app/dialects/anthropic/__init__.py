"""Anthropic Messages: Claude at Anthropic itself, on Vertex AI, and through Bedrock's invoke."""

from typing import Final

NAME: Final = "anthropic"
"""The format's name, as a client format, and in the `raw` of events."""

BETA: Final = "anthropic-beta"
"""The header that names the betas that a request uses."""
