"""The upstream formats, by name."""

from typing import Final

from ..plugins import Registry
from .anthropic.upstream.format import BEDROCK as BEDROCK_ANTHROPIC
from .anthropic.upstream.format import DIALECT as ANTHROPIC
from .anthropic.upstream.format import VERTEX as VERTEX_ANTHROPIC
from .bedrock.upstream.format import CONVERSE as BEDROCK_CONVERSE
from .cohere.upstream.format import DIALECT as COHERE
from .gemini.upstream.format import DIALECT as GEMINI
from .gemini.upstream.format import INTERACTIONS as GEMINI_INTERACTIONS
from .ollama.upstream.format import DIALECT as OLLAMA
from .openai_chat.upstream.format import DIALECT as OPENAI_CHAT
from .openai_responses.upstream.format import DIALECT as OPENAI_RESPONSES
from .upstream_format import UpstreamFormat

USUAL: Final = "openai_chat"
"""The format of an upstream whose settings name none."""

UPSTREAM_FORMATS: Final[Registry[UpstreamFormat]] = Registry(
    "dialect",
    {
        USUAL: OPENAI_CHAT,
        "openai_responses": OPENAI_RESPONSES,
        "anthropic": ANTHROPIC,
        "vertex_anthropic": VERTEX_ANTHROPIC,
        "bedrock_anthropic": BEDROCK_ANTHROPIC,
        "bedrock_converse": BEDROCK_CONVERSE,
        "gemini": GEMINI,
        "gemini_interactions": GEMINI_INTERACTIONS,
        "cohere": COHERE,
        "ollama": OLLAMA,
    },
    group="seseragi.upstream_formats",
    is_part=lambda part: isinstance(part, UpstreamFormat),
    wants="a seseragi.dialects.upstream_format.UpstreamFormat",
)
