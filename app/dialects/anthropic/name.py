"""The format's name, among those of clients, and in `raw` of events."""

from typing import Final

NAME: Final = "anthropic"
