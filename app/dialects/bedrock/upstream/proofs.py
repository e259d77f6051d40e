"""The proofs of reasoning that Bedrock passes through, in the form that their maker uses.

Claude's proofs are the same whichever way they came, so they may go back another way:
through Converse, in invoke, or to Anthropic itself.
"""

from base64 import b64decode, b64encode
from typing import Final

SIGNATURE: Final = "anthropic"
"""The format of a signature: no other family signs what it thought."""

REDACTED: Final = "anthropic.redacted_thinking"
"""The format of what Claude thought and hides: the text that Anthropic gives for it."""

BLOB: Final = "bedrock.redacted_content"
"""The format of hidden reasoning that is no such text: base64 of the bytes."""


def parse_redacted(blob: str) -> tuple[str, str]:
    """Return the format and the data of a `redactedContent`, a blob in base64.

    The bytes of Claude's are Anthropic's text, itself base64: on the wire it is so twice.
    """
    try:
        text = b64decode(blob, validate=True).decode("ascii")
        b64decode(text, validate=True)
    except ValueError:
        return BLOB, blob
    return REDACTED, text


def render_redacted(format: str, data: str) -> str | None:
    """Return the blob for what `parse_redacted` gave; None if it is something else's."""
    match format:
        case "anthropic.redacted_thinking":
            return b64encode(data.encode()).decode()
        case "bedrock.redacted_content":
            return data
        case _:
            return None
