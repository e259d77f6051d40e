"""Bounds on the memory and time that one upstream answer may take in its parser.

The log bounds the events. These bound the rest: pieces that a parser holds back, and its tables.
No real answer comes near them.
"""

from typing import Final

MAX_BLOCKS: Final = 100_000
MAX_CALLS: Final = 10_000
"""Tool calls, including those without a name, which never become events."""
MAX_SOURCES: Final = 10_000
MAX_SOURCES_SIZE: Final = 16 * 2**20
"""Characters of all sources: providers repeat a source many times."""
MAX_ID: Final = 8192
"""Characters of a tool call's id, which some client formats repeat with every delta."""
MAX_HELD: Final = 32 * 2**20
"""About how many bytes may be held back at any time."""
MAX_WORD: Final = 1000
"""Characters of a finish reason."""
ENTRY: Final = 200
"""About how many bytes an entry in a parser's tables takes."""


LARGE: Final = 65_536
"""Characters beyond which the values of a message are counted before it is decoded."""
MAX_VALUES: Final = 500_000
"""Values in one message: some 50 MB of objects. Log probabilities with twenty alternatives are
200 values a token."""
MAX_EVENTS: Final = 20_000
"""Events of one message: they block the event loop for 0.2 s."""


class Excess(Exception):
    """An answer exceeds a bound. The message follows the upstream's name, and is safe to show."""

    def __init__(self, most: int, what: str, *, where: str = "one answer") -> None:
        super().__init__(f"sent more than {most} {what} in {where}")
