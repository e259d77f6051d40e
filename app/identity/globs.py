"""Containment of allow-lists. Pure."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

from .principal import leads_up


def covers(allowed: Sequence[str] | None, glob: str) -> bool:
    """Return whether all names that a glob matches are allowed; None allows all.

    True is always correct. False may be wrong for globs with brackets, or if only several globs
    together cover one.
    """
    return allowed is None or any(_covers(one, glob) for one in allowed)


def _covers(outer: str, glob: str) -> bool:
    if outer == glob:
        return True
    if leads_up(glob):
        return False
    if outer == "*":
        return True
    # As plain text the glob may match the outer one, whose `*` matches any text, including
    # wildcards. A `?` there matches one character, which must not be a `*`; and brackets do
    # not match their own characters.
    if "[" in glob or ("*" in glob and ("?" in outer or "[" in outer)):
        return False
    if "?" in glob and "[" in outer:
        return False
    return fnmatchcase(glob, outer)
