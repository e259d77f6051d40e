"""The cost of an answer, for the usage objects of OpenAI's and Anthropic's formats."""

from typing import Any

from ...events import StreamEnd


def render_cost(end: StreamEnd) -> dict[str, Any]:
    """Return the fields beside the counts: the cost in USD, and whether they are estimated.

    The cost is that of the whole stream, as a number, like OpenRouter's `usage.cost`.
    """
    said: dict[str, Any] = {}
    if end.cost is not None:
        said["cost"] = float(end.cost)
    if end.usage is not None and end.usage.estimated:
        said["estimated"] = True
    return said
