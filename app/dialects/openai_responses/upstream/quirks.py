"""Vendor-specific requirements of Responses requests."""

from typing import Final, Literal

from ...upstream_format import Quirks as CommonQuirks

ENCRYPTED_REASONING: Final = "reasoning.encrypted_content"
"""The value of `include` that requests reasoning to send back."""


class Quirks(CommonQuirks, frozen=True):
    """What a vendor requires in a request."""

    store: bool | None = False
    """Whether the provider stores the response; None omits the field."""
    encrypted_reasoning: Literal["auto", "always", "never"] = "auto"
    """When to request encrypted reasoning: models without reasoning reject it, so by default only
    for requests with reasoning options or items.
    """
    reasoning_summary: Literal["auto", "concise", "detailed"] | None = None
    """The summary to request along with an effort. OpenAI sends summaries to verified
    organizations only and rejects the request of others.
    """
    send_reasoning: Literal["encrypted", "text", "no"] = "encrypted"
    """The form of reasoning to send back: encrypted only, or its text too."""
    user_field: Literal["user", "safety_identifier"] = "user"
    compaction: bool = False
    """Whether the provider supports `compaction_trigger`; otherwise the model writes a summary."""
