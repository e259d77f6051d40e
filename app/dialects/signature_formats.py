"""Values of `format` for reasoning signatures and `opaque` events: their owner and their kind.

The provider needs such a value back, unchanged, with the next turn.
"""

from typing import Final

CLAUDE_THINKING: Final = "anthropic"
"""The signature of a thinking block."""
CLAUDE_REDACTED: Final = "anthropic.redacted_thinking"
"""A thinking block whose text the provider hides."""
CLAUDE_COMPACTION: Final = "anthropic.compaction"
"""A block, as JSON, that replaces the conversation before it."""

GOOGLE_SIGNATURE: Final = "google.thought_signature"
"""The `thought_signature` of a call in Gemini's Chat Completions route."""

OPENAI_ENCRYPTED: Final = "openai"
"""Encrypted reasoning at the end of its block."""
OPENAI_REASONING: Final = "openai.reasoning"
"""A reasoning item without any text."""
OPENAI_COMPACTION: Final = "openai.compaction"
"""An item that replaces the conversation before it."""
SUMMARY: Final = "seseragi.summary"
"""The relay's own: a summary of the conversation before it, by any model."""
OPENAI_PHASE: Final = "openai.phase"
"""The phase of the message before it, such as commentary."""
OPENAI_CUSTOM_CALL: Final = "openai.custom_tool_call"
"""A call whose arguments are free text."""
OPENAI_NAMESPACE: Final = "openai.namespace"
"""The namespace of the function of a call."""
OPENAI_ITEM: Final = "openai.item"
"""A whole item, as JSON: a call of a tool that the caller runs, or its result."""
