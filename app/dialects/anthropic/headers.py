"""Headers of Anthropic's API."""

from typing import Final

BETA: Final = "anthropic-beta"
"""The header that names the betas that a request uses."""
