"""Converse's rules for requests: what Bedrock answers with a ValidationException otherwise.

Beside these: keywords of enforced schemas in `writing/enforced_schemas.py`; Claude's rules by
version (prefill, sampling, thinking) in `writing/claude.py`.
"""

import re
from typing import Final

from ...writing.exchange import ExchangeForm
from ...writing.request_rules import NOT_BLANK, NOT_EMPTY, StopRules

FORM: Final = ExchangeForm(
    blank=False,  # `The text field in the ContentBlock object is blank` (2026-03)
    ids=re.compile(r"[a-zA-Z0-9_.:-]{1,64}"),  # API reference of ToolUseBlock
    unique=True,
    links=False,  # ImageSource has bytes and s3Location
)

FIRST_ROLE: Final = "user"
"""`A conversation must start with a user message`, `The value at messages is empty` (2026-03)."""

NAMES: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""API reference of ToolSpecification."""

TEXT_BESIDE: Final = "document"
"""`A text block must be included in the content when using documents` (2026-03)."""

MAX_DOCUMENTS: Final = 5
"""API reference of Message: per turn."""

NO_OUTPUT: Final = "There is no output."
"""The content of an empty result: `The content field is blank` (pydantic/pydantic-ai#6115)."""

STOPS: Final = StopRules(NOT_EMPTY)
"""API reference of InferenceConfiguration."""
CLAUDE_STOPS: Final = StopRules(NOT_BLANK)
"""As at Anthropic."""

MAX_POINTS: Final = 4
"""Cache points of a request, by the user guide's table of prompt caching."""

USED_TOOLS: Final = "requires tools with earlier tool calls: sent those that were called"
"""`The toolConfig field must be defined when using toolUse and toolResult content blocks`."""

IMAGES: Final = {
    "image/png": "png",
    "image/jpeg": "jpeg",
    "image/jpg": "jpeg",
    "image/gif": "gif",
    "image/webp": "webp",
}
DOCUMENTS: Final = {
    "application/pdf": "pdf",
    "text/csv": "csv",
    "application/msword": "doc",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.ms-excel": "xls",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "text/html": "html",
    "text/plain": "txt",
    "text/markdown": "md",
}
"""API reference of ImageBlock and DocumentBlock: the formats, by media types."""
VIDEOS: Final = {
    **{kind: kind for kind in ("flv", "mkv", "mov", "mp4", "mpeg", "mpg", "webm", "wmv")},
    **{"quicktime": "mov", "x-flv": "flv", "x-matroska": "mkv", "x-ms-wmv": "wmv"},
    **{"3gpp": "three_gp", "3gp": "three_gp"},
}
"""API reference of VideoBlock: the formats, by subtypes and endings."""
