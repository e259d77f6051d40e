"""The format's name, as a client format, and in the `raw` of events."""

from typing import Final

NAME: Final = "anthropic"
