"""OpenAI Chat Completions and compatible APIs."""

from typing import Final

NAME: Final = "openai_chat"
"""The dialect's name in `?format=` and the settings."""
