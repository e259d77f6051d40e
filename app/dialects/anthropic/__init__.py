"""Anthropic Messages: Claude at Anthropic itself, on Vertex AI, and through Bedrock's invoke."""

from typing import Final

NAME: Final = "anthropic"
"""The name of the client format, and of the `raw` of events."""

BETA: Final = "anthropic-beta"
"""The header that names the betas that a request uses."""

VERSION: Final = "anthropic-version"
"""The header that names the version of the API."""
OLDEST_VERSION: Final = "2023-06-01"
"""The version for requests of other dialects: the only one in November 2026."""

EVENTS: Final = frozenset(
    (
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
        "message",
        "error",
        "ping",
    )
)
"""The types of the events that have a meaning here; others are passed on."""

ERRORS: Final = {
    "conflict_error": "upstream_unavailable",
    "request_too_large": "upstream_invalid_request",
}
"""The types of errors that do not follow from the relay's code, with that code."""

ATTRIBUTION: Final = "x-anthropic-billing-header:"
"""Begins a block of Claude Code's system prompt, for Anthropic only: a digest that differs in each
request. It would void any other provider's prompt cache, and Bedrock refuses it."""
