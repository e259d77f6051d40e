"""Bounds on the memory and time that one upstream answer may take in its parser.

The log bounds the events; these bound a parser's buffers and tables. No real answer comes near
them.
"""

from typing import Final

MAX_BLOCKS: Final = 100_000
MAX_CALLS: Final = 10_000
"""Tool calls, including nameless ones, which never become events."""
MAX_SOURCES: Final = 10_000
MAX_SOURCES_SIZE: Final = 16 * 2**20
"""Characters of all sources: providers repeat sources many times."""
MAX_ID: Final = 8192
"""Characters of a tool call's id, which some client formats repeat with every delta."""
MAX_BUFFERED: Final = 32 * 2**20
"""Approximate bytes that may be buffered at any time."""
MAX_WORD: Final = 1000
"""Characters of a finish reason."""
ENTRY: Final = 200
"""Approximate bytes of an entry in a parser's tables."""


LARGE: Final = 65_536
"""Characters of a message above which its values are counted before decoding."""
MAX_VALUES: Final = 500_000
"""Values in one message: some 50 MB of objects. Log probabilities with twenty alternatives are
200 values a token."""
MAX_EVENTS: Final = 20_000
"""Events of one message: so many block the event loop for 0.2 s."""


class Excess(Exception):
    """An answer exceeds a bound. The message follows the upstream's name, and is safe to show."""

    def __init__(self, most: int, what: str, *, where: str = "one answer") -> None:
        super().__init__(f"sent more than {most} {what} in {where}")
