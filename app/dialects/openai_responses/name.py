"""What `?format=` and the settings call the dialect."""

from typing import Final

NAME: Final = "openai_responses"
