"""What an answer has cost, as the formats of OpenAI and Anthropic have room for it."""

from typing import Any

from ...events import StreamEnd


def render_cost(end: StreamEnd) -> dict[str, Any]:
    """Return what stands beside the counts: the cost in USD, and whether they are an estimate.

    The cost is a number, as OpenRouter's `usage.cost` is, and that of the whole stream.
    """
    said: dict[str, Any] = {}
    if end.cost is not None:
        said["cost"] = float(end.cost)
    if end.usage is not None and end.usage.estimated:
        said["estimated"] = True
    return said
