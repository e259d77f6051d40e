"""Compaction by a summary, for providers without compaction of their own.

OpenAI replaces a conversation by an encrypted `compaction` item when the last item of `input`
is a `compaction_trigger`. Other models are prompted for a summary. The client receives it in
such an item too, and sends it back in later requests, where it becomes a user message: models
that can continue a turn reject a final assistant message.
"""

from typing import Final

from ..reasoning_signatures import SUMMARY, PackedSignature, pack

TRIGGER: Final = "compaction_trigger"
"""The type of the item that requests compaction; it must be the last one."""

COMPACTIONS: Final = ("compaction", "compaction_summary")
"""The types of items that replace a conversation."""

INSTRUCTION: Final = (
    "Answer this with text only. Do not call any tools.\n"
    "The conversation has become too long. Write a summary that replaces it: the model that "
    "continues will see the summary, and nothing else of what you said and did. State\n"
    "- the task, and everything that the user asked for or ruled out;\n"
    "- what has been done, and the decisions made, with their reasons;\n"
    "- the facts needed to continue: names, paths, commands, values and errors, exactly;\n"
    "- the current state, and the next steps.\n"
    "Answer with the summary alone."
)
"""Tools and `tool_choice` are unchanged: a different `tool_choice` would invalidate Anthropic's
prompt cache, and Bedrock has no value for none.
"""

_PREFACE: Final = (
    "This is a summary of the conversation so far, which it replaces. Continue from it, and do "
    "not repeat work that is done.\n\n"
)


def pack_summary(summary: str) -> str:
    """Return a summary as the `encrypted_content` of a compaction item."""
    return pack(PackedSignature(SUMMARY, data=summary))


def read_summary(packed: PackedSignature) -> str | None:
    """Return the user message that replaces a compaction item; None if it is not a summary."""
    return _PREFACE + packed.data if packed.format == SUMMARY and packed.data else None
