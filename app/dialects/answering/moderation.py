"""OpenAI's moderation results, gathered from `content_filter` events for its two formats.

Chat Completions lists the results of `input` and of `output`; a response has one of each.
"""

from typing import Any, Final

from ...events import ContentFilter
from ..reading.json_values import mapping, mappings

_LISTED: Final = "moderation_results"
_SINGLE: Final = "moderation_result"


class Moderation:
    """The moderation results of one stream."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, Any]] = {}

    def feed(self, event: ContentFilter) -> None:
        """Take a verdict; those of other filters, which have no such type, are ignored."""
        if event.categories.get("type") in (_LISTED, _SINGLE, "error"):
            self._found["input" if event.scope == "prompt" else "output"] = event.categories

    def render_lists(self) -> dict[str, Any]:
        """Return the results in the form of Chat Completions; {} if there are none."""
        return {
            name: {"type": _LISTED, "model": found.get("model"), "results": [found]}
            if found["type"] == _SINGLE
            else found
            for name, found in self._found.items()
        }

    def render_singles(self) -> dict[str, Any]:
        """Return the first result of each, in the form of Responses; {} until both are known."""
        if len(self._found) < 2:
            return {}
        return {
            name: mapping(next(iter(mappings(found.get("results"))), None))
            if found["type"] == _LISTED
            else found
            for name, found in self._found.items()
        }
