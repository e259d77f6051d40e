"""The wire formats that an upstream may speak, by name."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from app.dialects.anthropic.dialect import DIALECT as ANTHROPIC
from app.dialects.anthropic.dialect import VERTEX as VERTEX_ANTHROPIC
from app.dialects.bedrock.dialect import CONVERSE as BEDROCK_CONVERSE
from app.dialects.bedrock.dialect import INVOKE as BEDROCK_ANTHROPIC
from app.dialects.cohere.dialect import DIALECT as COHERE
from app.dialects.dialect import Dialect
from app.dialects.gemini.dialect import DIALECT as GEMINI
from app.dialects.ollama.dialect import DIALECT as OLLAMA
from app.dialects.openai_chat.dialect import DIALECT as OPENAI_CHAT
from app.dialects.openai_responses.dialect import DIALECT as OPENAI_RESPONSES

DIALECTS: Final[Mapping[str, Dialect]] = MappingProxyType(
    {
        "openai_chat": OPENAI_CHAT,
        "openai_responses": OPENAI_RESPONSES,
        "anthropic": ANTHROPIC,
        "vertex_anthropic": VERTEX_ANTHROPIC,
        "bedrock_anthropic": BEDROCK_ANTHROPIC,
        "bedrock_converse": BEDROCK_CONVERSE,
        "gemini": GEMINI,
        "cohere": COHERE,
        "ollama": OLLAMA,
    }
)
