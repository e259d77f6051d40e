"""The relay's own wire format: PROTOCOL.md."""

from typing import Final

NAME: Final = "native"
"""The name of the client format, and of the dialect of cassettes."""
