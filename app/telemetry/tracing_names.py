"""The names of spans and attributes, in one table.

Those of `gen_ai` follow OpenTelemetry's conventions for generative AI as of November 2026
(github.com/open-telemetry/semantic-conventions-genai), the others its conventions 1.44 for HTTP.
Both still change. Names that they do not define begin with `seseragi`.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import urlsplit

# Requests

METHOD: Final = "http.request.method"
ROUTE: Final = "http.route"
STATUS_CODE: Final = "http.response.status_code"
PATH: Final = "url.path"
SCHEME: Final = "url.scheme"
ERROR: Final = "error.type"
REQUEST_ID: Final = "seseragi.request_id"
CODE: Final = "seseragi.code"
"""The error code of a refused request."""
CLIENT_LEFT: Final = "seseragi.client_left"
"""True if the server noticed that the client disconnected before the end of its response."""

OTHER_METHOD: Final = "_OTHER"
METHODS: Final = frozenset(("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"))

# Streams

STREAM_SPAN: Final = "stream"
STREAM: Final = "seseragi.stream"
MODEL_ROUTE: Final = "seseragi.route"
CLIENT_FORMAT: Final = "seseragi.client_format"
KEY: Final = "seseragi.key"
"""The name of the API key."""
STATUS: Final = "seseragi.status"
ATTEMPTS: Final = "seseragi.attempts"
EVENTS: Final = "seseragi.events"
FIRST_EVENT: Final = "seseragi.first_event_s"
LONGEST_GAP: Final = "seseragi.longest_gap_s"
COST: Final = "seseragi.cost_usd"
ENDED_BY: Final = "seseragi.ended_by"
"""The cause of an incomplete answer."""
LOST: Final = "seseragi.lost"
"""True if another process ended it for a dead one, whose spans may be missing."""
RETRY: Final = "retry"
FALLBACK: Final = "fallback"
NEXT_TARGET: Final = "seseragi.next_target"
WAIT: Final = "seseragi.wait_s"

# Upstream requests

TARGET: Final = "seseragi.target"
ATTEMPT: Final = "seseragi.attempt"
ESTIMATED: Final = "seseragi.usage.estimated"
SERVER: Final = "server.address"
PORT: Final = "server.port"
OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
REQUEST_STREAM: Final = "gen_ai.request.stream"
RESPONSE_MODEL: Final = "gen_ai.response.model"
RESPONSE_ID: Final = "gen_ai.response.id"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"

USAGE: Final[Mapping[str, str]] = {
    "input_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "cached_input_tokens": "gen_ai.usage.cache_read.input_tokens",
    "cache_write_tokens": "gen_ai.usage.cache_write.input_tokens",
    "reasoning_tokens": "gen_ai.usage.reasoning.output_tokens",
}
"""By the fields of `TokenCounts`."""

CHAT: Final = "chat"
EMBEDDINGS: Final = "embeddings"
COUNT_TOKENS: Final = "count_tokens"
"""Not defined by the conventions."""
OPERATIONS: Final[Mapping[str, str]] = {"gemini": "generate_content"}
"""The operation of a generation by upstream format, if it is not `CHAT`."""

_HOSTS: Final[Mapping[str, str]] = {
    "api.openai.com": "openai",
    "api.anthropic.com": "anthropic",
    "generativelanguage.googleapis.com": "gcp.gemini",
    "aiplatform.googleapis.com": "gcp.vertex_ai",
    "openai.azure.com": "azure.ai.openai",
    "services.ai.azure.com": "azure.ai.inference",
    "amazonaws.com": "aws.bedrock",
    "api.mistral.ai": "mistral_ai",
    "api.cohere.com": "cohere",
    "api.deepseek.com": "deepseek",
    "api.groq.com": "groq",
    "api.x.ai": "x_ai",
    "api.perplexity.ai": "perplexity",
    "api.moonshot.ai": "moonshot_ai",
    "ml.cloud.ibm.com": "ibm.watsonx.ai",
}
"""Providers by the suffix of their host names."""

_FORMATS: Final[Mapping[str, str]] = {
    "anthropic": "anthropic",
    "vertex_anthropic": "gcp.vertex_ai",
    "bedrock_anthropic": "aws.bedrock",
    "bedrock_converse": "aws.bedrock",
    "gemini": "gcp.gemini",
    "cohere": "cohere",
}
"""Providers of formats that only they speak, for unknown hosts."""


class Server(NamedTuple):
    """The server of an upstream, and its provider."""

    provider: str
    host: str | None
    port: int | None


@lru_cache(256)
def server_of(name: str, base_url: str, dialect: str) -> Server:
    """Return the server of an upstream, without secret parts of its URL.

    The provider of an unknown OpenAI-compatible host is the upstream's name.
    """
    try:
        url = urlsplit(base_url)
        host, port = url.hostname, url.port or (80 if url.scheme == "http" else 443)
    except ValueError:
        host, port = None, None
    if host is None or "." not in host:
        return Server(_FORMATS.get(dialect, name), host, port if host else None)
    # "-" too: regions of Vertex AI are "europe-west1-aiplatform.googleapis.com".
    known = (
        one for end, one in _HOSTS.items() if host == end or host.endswith((f".{end}", f"-{end}"))
    )
    return Server(next(known, None) or _FORMATS.get(dialect, name), host, port)
