"""Google's generateContent, of the Gemini API and Vertex AI, and its Interactions API."""

from ....framing.json_array import JsonArrayDecoder
from ....framing.lenient import LenientDecoder
from ...upstream_format import OptionNames, ResumableAnswer, UpstreamFormat, under
from ...writing.token_counts import CountCall
from . import request
from .embeddings import EMBEDDINGS
from .interactions import request as interactions
from .interactions.parser import Parser as InteractionsParser
from .parser import Parser
from .rules import NAMES

_MODELS = "models?pageSize=1000"  # the default is 50
_PROVIDER = "gcp.gemini"

_OPTIONS = OptionNames(
    refused={
        "another model": "generationConfig.routingConfig generationConfig.model*"
        " routingConfig modelSelectionConfig",
        "another destination": "tools.mcpServers tools.mcp_servers",
        "another bill": "serviceTier",
        "what is stored": "cachedContent fileUri tools.fileSearch tools.retrieval modelArmorConfig",
    },
    safe=(
        "safetySettings toolConfig tools.functionDeclarations"
        + under(
            "generationConfig",
            "_responseJsonSchema audioTimestamp enableAffectiveDialog "
            "enableEnhancedCivicAnswers frequencyPenalty imageConfig logprobs maxOutputTokens "
            "mediaResolution presencePenalty responseFormat responseJsonSchema "
            "responseLogprobs responseMimeType responseModalities responseSchema seed "
            "speechConfig stopSequences temperature thinkingConfig topK topP",
        )
    ),
    keyed=True,
)

DIALECT = UpstreamFormat(
    path="models/{model}:streamGenerateContent?alt=sse",
    decoder=JsonArrayDecoder,
    parser=Parser,
    render_request=request.render_request,
    tool_names=NAMES,
    quirks=request.Quirks,
    models_path=_MODELS,
    ignored=request.IGNORED,
    render_extra=request.render_extra,
    options=_OPTIONS,
    limit="generationConfig.maxOutputTokens",
    find_hosted_tool=request.find_hosted_tool,
    token_count=CountCall("models/{model}:countTokens", request.render_count, "totalTokens"),
    embeddings=EMBEDDINGS,
    provider=_PROVIDER,
    operation="generate_content",
)

_INTERACTIONS_OPTIONS = OptionNames(
    refused={
        "another model": "agent agent_config",
        "another destination": "tools.mcp_server webhook_config environment",
        "another bill": "service_tier background",
        "what is stored": "previous_interaction_id cached_content continuation_token uri"
        " tools.file_search tools.retrieval response_format.video response_format.gcs_uri",
    },
    safe=(
        "safety_settings response_modalities tools.function"
        + under(
            "response_format",
            "aspect_ratio audio bit_rate image image_size mime_type sample_rate schema text type",
        )
        + under(
            "generation_config",
            "image_config max_output_tokens seed speech_config stop_sequences temperature "
            "thinking_level thinking_summaries tool_choice top_p transcription_config",
        )
    ),
)

INTERACTIONS = UpstreamFormat(
    path="interactions",
    decoder=LenientDecoder,
    parser=InteractionsParser,
    render_request=interactions.render_request,
    tool_names=NAMES,
    quirks=interactions.Quirks,
    models_path=_MODELS,
    ignored=interactions.IGNORED,
    render_extra=interactions.render_extra,
    options=_INTERACTIONS_OPTIONS,
    limit="generation_config.max_output_tokens",
    find_hosted_tool=interactions.find_hosted_tool,
    # "Background execution" of the Gemini API's documentation.
    resume=ResumableAnswer(
        fields={"background": True, "store": True},
        cursor="event_id",
        query="last_event_id",
        first=("event_type", "interaction.created"),
    ),
    embeddings=EMBEDDINGS,
    provider=_PROVIDER,
)
