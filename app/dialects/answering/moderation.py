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
        self._results: dict[str, dict[str, Any]] = {}

    def feed(self, event: ContentFilter) -> None:
        """Take a verdict; those of other filters, which have no such type, are ignored."""
        if event.categories.get("type") in (_LISTED, _SINGLE, "error"):
            self._results["input" if event.scope == "prompt" else "output"] = event.categories

    def render_lists(self) -> dict[str, Any]:
        """Return the results in the form of Chat Completions; {} if there are none."""
        return {
            name: {"type": _LISTED, "model": result.get("model"), "results": [result]}
            if result["type"] == _SINGLE
            else result
            for name, result in self._results.items()
        }

    def render_singles(self) -> dict[str, Any]:
        """Return the first result of each, in the form of Responses; {} until both are known."""
        if len(self._results) < 2:
            return {}
        return {
            name: mapping(next(iter(mappings(result.get("results"))), None))
            if result["type"] == _LISTED
            else result
            for name, result in self._results.items()
        }
