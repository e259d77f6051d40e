"""The dialect's name in `?format=` and the settings."""

from typing import Final

NAME: Final = "openai_responses"
