"""What the demo needs of a language to speak it.

`{quote}`, `{turn}`, `{results}` and `{number}` stand for what the request brings; each template has
at most one of them, so that words of the user are never taken for another one.
"""

import re
from collections.abc import Callable
from typing import NamedTuple


class Variant(NamedTuple):
    """One wording of the usual answer, in paragraphs."""

    intro: str
    quote: str
    points: str
    code: str
    closing: str


class Phrases(NamedTuple):
    """A language."""

    greetings: tuple[tuple[re.Pattern[str], str], ...]
    """What a message may begin with, and what is said back; the first match counts."""
    turn: str
    ordinal: Callable[[int], str]
    variants: tuple[Variant, ...]
    brief: str
    """For an application that has its own instructions and tools, and may run what it is sent."""
    no_tool: str
    """Where none of the tools may be called."""
    title: str
    reasoning: str
    slow: str
    cities: tuple[str, str]
    results: str
    result: tuple[str, str]
    """What stands before and after the name of a tool in the list of results."""
    paragraph: str
    """What stands before each paragraph of the long answer."""
    sentences: tuple[str, ...]
    """The long answer goes round and round them; each has the space that follows it."""
