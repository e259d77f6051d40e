"""What the `format` of a proof says: whose it is, and how it goes back.

A proof is what a provider wants back with the next turn; the event schema has it as the
`format` of a reasoning block or of an `opaque`.
"""

from typing import Final

CLAUDE_THINKING: Final = "anthropic"
"""The signature of a thinking block."""
CLAUDE_REDACTED: Final = "anthropic.redacted_thinking"
"""A thinking block whose text the provider hides."""
CLAUDE_COMPACTION: Final = "anthropic.compaction"
"""A block, as JSON, that stands for all of the conversation before it."""

GOOGLE_SIGNATURE: Final = "google.thought_signature"
"""What Gemini's Chat Completions route wants back with a call."""

OPENAI_ENCRYPTED: Final = "openai"
"""Encrypted reasoning at the end of its block."""
OPENAI_REASONING: Final = "openai.reasoning"
"""A reasoning item without any text."""
OPENAI_COMPACTION: Final = "openai.compaction"
"""What stands for the conversation before it."""
SUMMARY: Final = "seseragi.summary"
"""The relay's own: a summary of the conversation before it, by whichever model was asked."""
OPENAI_PHASE: Final = "openai.phase"
"""Whether what stands before it was commentary."""
OPENAI_CUSTOM_CALL: Final = "openai.custom_tool_call"
"""Of a call whose arguments are any text."""
OPENAI_NAMESPACE: Final = "openai.namespace"
"""The name of the namespace in which the function of a call stands."""
OPENAI_ITEM: Final = "openai.item"
"""A whole item, as JSON: of a tool that the caller runs, or what answers it."""
