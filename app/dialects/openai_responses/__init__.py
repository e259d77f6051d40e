"""OpenAI Responses and compatible APIs."""

from typing import Final

NAME: Final = "openai_responses"
"""The dialect's name in `?format=` and the settings."""
