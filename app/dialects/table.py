"""The wire formats that an upstream may speak, by name."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec

from app.dialects.anthropic.parser import Parser as AnthropicParser
from app.dialects.anthropic.request import IGNORED as ANTHROPIC_IGNORED
from app.dialects.anthropic.request import Quirks as AnthropicQuirks
from app.dialects.anthropic.request import (
    render_bedrock_request as render_bedrock_anthropic,
)
from app.dialects.anthropic.request import render_request as render_anthropic
from app.dialects.anthropic.request import render_vertex_request as render_vertex_anthropic
from app.dialects.bedrock.invoke import Decoder as BedrockInvokeDecoder
from app.dialects.bedrock.parser import Parser as BedrockParser
from app.dialects.bedrock.request import IGNORED as BEDROCK_IGNORED
from app.dialects.bedrock.request import Quirks as BedrockQuirks
from app.dialects.bedrock.request import render_request as render_bedrock
from app.dialects.cohere.parser import Parser as CohereParser
from app.dialects.cohere.request import IGNORED as COHERE_IGNORED
from app.dialects.cohere.request import Quirks as CohereQuirks
from app.dialects.cohere.request import render_request as render_cohere
from app.dialects.gemini.parser import Parser as GeminiParser
from app.dialects.gemini.request import Quirks as GeminiQuirks
from app.dialects.gemini.request import render_request as render_gemini
from app.dialects.ollama.parser import Parser as OllamaParser
from app.dialects.ollama.request import IGNORED as OLLAMA_IGNORED
from app.dialects.ollama.request import Quirks as OllamaQuirks
from app.dialects.ollama.request import render_request as render_ollama
from app.dialects.openai_chat.parser import Parser as OpenaiChatParser
from app.dialects.openai_chat.request import Quirks as OpenaiChatQuirks
from app.dialects.openai_chat.request import render_request as render_openai_chat
from app.dialects.openai_responses.parser import Parser as OpenaiResponsesParser
from app.dialects.openai_responses.request import IGNORED as OPENAI_RESPONSES_IGNORED
from app.dialects.openai_responses.request import Quirks as OpenaiResponsesQuirks
from app.dialects.openai_responses.request import render_request as render_openai_responses
from app.dialects.parser import Decoder, Parser
from app.framing.eventstream import Decoder as EventStreamDecoder
from app.framing.json_array import JsonArrayDecoder
from app.framing.lenient import LenientDecoder
from app.framing.ndjson import NdjsonDecoder

MODEL: Final = "{model}"
"""Where a path or a base URL wants the model's name."""


class Dialect(NamedTuple):
    """All that a relay needs to speak one format with an upstream."""

    path: str
    """Appended to the upstream's base URL; may hold `MODEL`."""
    decoder: type[Decoder]
    parser: type[Parser]
    render_request: Callable[..., dict[str, Any]]
    """(request, *, model, quirks) to the JSON body."""
    quirks: type[msgspec.Struct]
    """What one vendor of the format may want otherwise."""
    query: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}
    models_path: str | None = "models"
    """Where the models are listed, None if they are not."""
    ignored: frozenset[str] = frozenset()
    """Fields of a chat request that the format has no place for, though the answer is none
    the less one to the request: they are left out, and a `notice` says so."""


DIALECTS: Final[Mapping[str, Dialect]] = MappingProxyType(
    {
        "openai_chat": Dialect(
            path="chat/completions",
            decoder=LenientDecoder,
            parser=OpenaiChatParser,
            render_request=render_openai_chat,
            quirks=OpenaiChatQuirks,
        ),
        "openai_responses": Dialect(
            path="responses",
            decoder=LenientDecoder,
            parser=OpenaiResponsesParser,
            render_request=render_openai_responses,
            quirks=OpenaiResponsesQuirks,
            ignored=OPENAI_RESPONSES_IGNORED,
        ),
        "bedrock_converse": Dialect(
            path="model/{model}/converse-stream",
            decoder=EventStreamDecoder,
            parser=BedrockParser,
            render_request=render_bedrock,
            quirks=BedrockQuirks,
            headers={"accept": "application/vnd.amazon.eventstream"},
            models_path=None,
            ignored=BEDROCK_IGNORED,
        ),
        "bedrock_anthropic": Dialect(
            path="model/{model}/invoke-with-response-stream",
            decoder=BedrockInvokeDecoder,
            parser=AnthropicParser,
            render_request=render_bedrock_anthropic,
            quirks=AnthropicQuirks,
            headers={"accept": "application/vnd.amazon.eventstream"},
            models_path=None,
            ignored=ANTHROPIC_IGNORED,
        ),
        "cohere": Dialect(
            path="v2/chat",
            decoder=LenientDecoder,
            parser=CohereParser,
            render_request=render_cohere,
            quirks=CohereQuirks,
            # Without these it lists 20 models, of every kind.
            models_path="v1/models?endpoint=chat&page_size=1000",
            ignored=COHERE_IGNORED,
        ),
        "ollama": Dialect(
            path="api/chat",
            decoder=NdjsonDecoder,
            parser=OllamaParser,
            render_request=render_ollama,
            quirks=OllamaQuirks,
            models_path="api/tags",
            ignored=OLLAMA_IGNORED,
        ),
        "anthropic": Dialect(
            path="v1/messages",
            decoder=LenientDecoder,
            parser=AnthropicParser,
            render_request=render_anthropic,
            quirks=AnthropicQuirks,
            headers={"anthropic-version": "2023-06-01"},
            models_path="v1/models",
            ignored=ANTHROPIC_IGNORED,
        ),
        "vertex_anthropic": Dialect(
            path="{model}:streamRawPredict",
            decoder=LenientDecoder,
            parser=AnthropicParser,
            render_request=render_vertex_anthropic,
            quirks=AnthropicQuirks,
            models_path=None,
            ignored=ANTHROPIC_IGNORED,
        ),
        "gemini": Dialect(
            path="models/{model}:streamGenerateContent?alt=sse",
            decoder=JsonArrayDecoder,
            parser=GeminiParser,
            render_request=render_gemini,
            quirks=GeminiQuirks,
            models_path="models?pageSize=1000",  # 50 otherwise
            ignored=frozenset(("metadata", "parallel_tool_calls", "user")),
        ),
    }
)
