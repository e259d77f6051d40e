"""What one vendor of Responses wants otherwise in a request."""

from typing import Final, Literal

from ...upstream_format import Quirks as CommonQuirks

ENCRYPTED_REASONING: Final = "reasoning.encrypted_content"
"""What `include` names to get reasoning that can be sent back."""


class Quirks(CommonQuirks, frozen=True):
    """What one vendor wants in a request."""

    store: bool | None = False
    """Whether the provider keeps the answer; None leaves the field out."""
    encrypted_reasoning: Literal["auto", "always", "never"] = "auto"
    """When to ask for reasoning that can be sent back: models that do not reason refuse the
    question, so by default only requests that speak of reasoning ask."""
    reasoning_summary: Literal["auto", "concise", "detailed"] | None = None
    """What to ask for beside an effort. OpenAI gives summaries to verified organisations only,
    and refuses the request of any other."""
    send_reasoning: Literal["encrypted", "text", "no"] = "encrypted"
    """What goes back of the reasoning: what only the provider can read, or its text too."""
    user_field: Literal["user", "safety_identifier"] = "user"
    compaction: bool = False
    """Whether the provider takes a `compaction_trigger`; else the model writes a summary."""
