"""Formats of reasoning signatures that Bedrock passes through from the model's maker.

Claude's signatures do not depend on the API, so they can be sent back through another one:
Converse, InvokeModel, or Anthropic's.
"""

from base64 import b64decode, b64encode
from typing import Final

SIGNATURE: Final = "anthropic"
"""The format of a signature: only Claude signs its reasoning."""

REDACTED: Final = "anthropic.redacted_thinking"
"""The format of Claude's redacted thinking: the text that Anthropic sends for it."""

BLOB: Final = "bedrock.redacted_content"
"""The format of other redacted reasoning: base64 of the bytes."""


def parse_redacted(blob: str) -> tuple[str, str]:
    """Return the format and the data of a `redactedContent`, a base64 blob.

    For Claude the bytes are Anthropic's text, itself base64: it is encoded twice on the wire.
    """
    try:
        text = b64decode(blob, validate=True).decode("ascii")
        b64decode(text, validate=True)
    except ValueError:
        return BLOB, blob
    return REDACTED, text


def render_redacted(format: str, data: str) -> str | None:
    """Return the blob for a result of `parse_redacted`; None for other formats."""
    match format:
        case "anthropic.redacted_thinking":
            return b64encode(data.encode()).decode()
        case "bedrock.redacted_content":
            return data
        case _:
            return None
