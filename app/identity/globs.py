"""Whether one allow-list is within another. Pure."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

from .principal import leads_up


def covers(allowed: Sequence[str] | None, glob: str) -> bool:
    """Return whether all names that a glob matches are allowed; None allows all.

    It is never wrong where it says yes. It may say no to what would be allowed, where the globs
    have brackets, or where several together would cover one.
    """
    return allowed is None or any(_covers(one, glob) for one in allowed)


def _covers(outer: str, glob: str) -> bool:
    if outer == glob:
        return True
    if leads_up(glob):
        return False
    if outer == "*":
        return True
    # Read as plain text, the glob may be matched by the outer one: a `*` there takes any text,
    # wildcards too. A `?` there takes one character, so that no `*` may be in its place, and
    # what brackets mean is not what their characters match.
    if "[" in glob or ("*" in glob and ("?" in outer or "[" in outer)):
        return False
    if "?" in glob and "[" in outer:
        return False
    return fnmatchcase(glob, outer)
