"""What one answer may make the relay keep: far beyond any answer that was meant as one.

What an upstream sends becomes events, and the log bounds those. These are the bounds on the
rest: what a parser holds back until it can be told, or keeps to tell things apart.
"""

from typing import Final

MAX_BLOCKS: Final = 100_000
MAX_CALLS: Final = 10_000
"""Tool calls, those too that have no name and are never told."""
MAX_SOURCES: Final = 10_000
MAX_SOURCES_SIZE: Final = 16 * 2**20
"""Characters of all sources: lists name one again and again."""
MAX_ID: Final = 8192
"""Characters of a tool call's id, which clients are told with every piece of the call."""
MAX_HELD: Final = 32 * 2**20
"""What may wait to be told at any time, in bytes, about."""
MAX_WORD: Final = 1000
"""Characters of a finish reason, which is kept until the end."""
ENTRY: Final = 200
"""About what one more entry in a parser's tables takes, in bytes."""


LARGE: Final = 65_536
"""Characters beyond which a message is looked through before it is decoded."""
MAX_VALUES: Final = 500_000
"""Values in one message, which are some 50 MB of objects: log probabilities of a whole answer,
twenty for each of its tokens, are 200 a token."""
MAX_EVENTS: Final = 20_000
"""Events of one message: 0.2 s in which nothing else is served."""


class Excess(Exception):
    """An answer goes beyond a bound. The text follows the upstream's name, and may be shown."""

    def __init__(self, most: int, what: str, *, where: str = "one answer") -> None:
        super().__init__(f"sent more than {most} {what} in {where}")
