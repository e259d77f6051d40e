"""Provider-specific fields that clients may set: the setting `options` of an upstream.

Clients send them in `provider_options`, or in a request in the upstream's own dialect. A field
is named by its path, such as `generationConfig.topK`; a list item by its type, or in the
dialects of `KEYED` by its keys: `tools.web_search_20260318`, `tools.googleSearch`. Case, "_"
and "-" are ignored: Google's APIs accept `cached_content` for `cachedContent`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import translate
from functools import lru_cache
from typing import Any, Final

import msgspec

from .media import STORED

SAFE_WORD: Final = "safe"
"""In a list of options: all of `SAFE` for the dialect."""

KEYED: Final = frozenset(("gemini", "bedrock_converse"))
"""The dialects whose tools are identified by their key; in others they have a type."""

RELAYS: Final = ("model", "modelid", "stream")
"""The fields that the relay sets: no list of options allows them."""

_OF_REQUESTS: Final = "header.idempotency-key header.traceparent header.tracestate"
"""Headers (`client_headers`) that connect a call with others: all clients share an account."""

_OPENAI_HEADERS: Final = f"header.openai-organization header.openai-project {_OF_REQUESTS}"

_ANTHROPIC_REFUSED: Final[Mapping[str, str]] = {
    "another model": "fallbacks",
    "another destination": "mcp_servers tools.mcp* inference_geo",
    "another bill": "service_tier speed",
    "what is stored": "container file_id",
    "other requests": _OF_REQUESTS,
}

_SCHEMAS: Final = frozenset(("function", "parameters", "input_schema"))
_OF_FUNCTIONS: Final = _SCHEMAS | {"cache_control"}
"""The objects in a function tool, in any dialect whose tools have types."""

REFUSED: Final[Mapping[str, Mapping[str, str]]] = {
    "openai_chat": {
        "another model": "models route router fallbacks fallback_* preset plugins"
        " engine deployment* model_* draft_model specul* lora* context_window_fallback*"
        " specific_deployment mock_* router_settings_override",
        "another destination": "provider provideroptions provider_options gateway api_base"
        " base_url api_type api_version custom_llm_provider extra_headers extra_query"
        " extra_body headers endpoint url aws_* vertex_* azure_* watsonx_* region_name"
        " data_sources mcp_servers tools.mcp* callback* success_callback"
        " failure_callback webhook* litellm_*",
        "another account": "api_key user_api_key* organization project byok user_config"
        " credentials*",
        "another bill": "service_tier priority search_parameters background",
        "what is stored": "previous_response_id conversation* thread_id prompt prompt_id"
        " prompt_variables container container_id assistant* agent_id vector_store* file_id"
        " file_ids cache caching tools.file_search tools.retrieval tools.collections_search",
        "another account or other requests": _OPENAI_HEADERS,
    },
    "openai_responses": {
        "another model": "models fallbacks plugins route preset",
        "another destination": "provider mcp_servers tools.mcp extra_* data_sources webhook*",
        "another account": "api_key organization project",
        "another bill": "service_tier background",
        "what is stored": "previous_response_id conversation prompt container container_id"
        " file_id file_ids vector_store_ids tools.file_search"
        " tools.code_interpreter tools.shell tools.collections_search",
        "another account or other requests": _OPENAI_HEADERS,
    },
    "anthropic": _ANTHROPIC_REFUSED,
    "vertex_anthropic": _ANTHROPIC_REFUSED,
    "bedrock_anthropic": _ANTHROPIC_REFUSED,
    "bedrock_converse": {
        "another model": "promptVariables promptRouter* additionalModelRequestFields.model*"
        " additionalModelRequestFields.fallbacks",
        "another destination": "additionalModelRequestFields.mcp_servers"
        " additionalModelRequestFields.inference_geo",
        "another bill": "performanceConfig serviceTier"
        " additionalModelRequestFields.speed additionalModelRequestFields.service_tier",
        "what is stored": "additionalModelRequestFields.container",
    },
    "gemini": {
        "another model": "generationConfig.routingConfig generationConfig.model*"
        " routingConfig modelSelectionConfig",
        "another destination": "tools.mcpServers tools.mcp_servers",
        "another bill": "serviceTier",
        "what is stored": "cachedContent fileUri tools.fileSearch tools.retrieval modelArmorConfig",
    },
    "gemini_interactions": {
        "another model": "agent agent_config",
        "another destination": "tools.mcp_server webhook_config environment",
        "another bill": "service_tier background",
        "what is stored": "previous_interaction_id cached_content continuation_token uri"
        " tools.file_search tools.retrieval response_format.video response_format.gcs_uri",
    },
    "cohere": {
        "another destination": "connectors",
        "another bill": "priority",
        "what is stored": "conversation_id chat_history_id",
    },
    "ollama": {"another model": "adapter*", "another destination": "remote*"},
}
"""The fields that clients may not set unless `options` allows them, by dialect and effect.

An upstream without restrictions leaves the provider's tools to the client, which chooses the
bill anyway; behind routes they are not in `SAFE`.
"""

_ANTHROPIC_OWN: Final = (
    "messages system max_tokens temperature top_p stop_sequences metadata tool_choice thinking"
    " output_config output_format tools.custom tools.bash_* tools.text_editor_*"
    " tools.computer_* tools.memory_*"
)
_ANTHROPIC_SAFE: Final = (
    "top_k cache_control context_management diagnostics header.x-client-request-id"
)

_RESPONSES_OWN: Final = (
    "input instructions max_output_tokens temperature top_p top_logprobs text reasoning include"
    " truncation tool_choice parallel_tool_calls max_tool_calls prompt_cache_* metadata user"
    " safety_identifier client_metadata context_management store"
    " stream_options.include_obfuscation tools.function tools.custom tools.namespace"
    " tools.tool_search tools.local_shell tools.apply_patch tools.computer*"
)

OWN: Final[Mapping[str, str]] = {
    **dict.fromkeys(("anthropic", "vertex_anthropic", "bedrock_anthropic"), _ANTHROPIC_OWN),
    "openai_responses": _RESPONSES_OWN,
}
"""The fields of a request in the dialect's own format that a chat request can express too, or
that only concern the client.
"""


def _under(path: str, names: str) -> str:
    """Return the options with these names below a path."""
    return "".join(f" {path}.{name}" for name in names.split())


SAFE: Final[Mapping[str, str]] = {
    "openai_chat": (
        # Sampling.
        "temperature top_p top_k top_a min_p typical_p tfs_z seed random_seed stop"
        " frequency_penalty presence_penalty repetition_penalty repeat_penalty repeat_last_n"
        " length_penalty no_repeat_ngram_size logit_bias logprobs top_logprobs bad_words"
        " stop_token_ids allowed_token_ids min_tokens include_stop_str_in_output ignore_eos"
        " skip_special_tokens spaces_between_special_tokens samplers mirostat*"
        " dynatemp_* xtc_* dry_* max_tokens max_completion_tokens"
        # Thinking.
        " reasoning reasoning_effort reasoning_format reasoning_split include_reasoning"
        " thinking thinking_budget enable_thinking chat_template_kwargs prompt_mode"
        # The form of the answer.
        " response_format structured_outputs guided_* grammar json_schema verbosity modalities"
        " audio prediction parse_tool_calls parallel_tool_calls tool_choice tools.function"
        " tools.custom continue_final_message add_generation_prompt"
        " stream_options.include_obfuscation return_images return_related_questions"
        " search_*_filter safe_prompt safety_identifier user metadata prompt_cache_key"
        " prompt_cache_options prompt_cache_retention usage.include header.x-client-request-id"
    ),
    "openai_responses": (
        "temperature top_p top_k top_logprobs max_output_tokens seed reasoning text include"
        " truncation tool_choice parallel_tool_calls tools.function tools.custom"
        " stream_options.include_obfuscation safety_identifier user metadata prompt_cache_key"
        " prompt_cache_options prompt_cache_retention header.x-client-request-id"
    ),
    "anthropic": f"{_ANTHROPIC_OWN} {_ANTHROPIC_SAFE}",
    "vertex_anthropic": f"{_ANTHROPIC_OWN} {_ANTHROPIC_SAFE}",
    "bedrock_anthropic": f"{_ANTHROPIC_OWN} {_ANTHROPIC_SAFE}",
    "bedrock_converse": (
        "inferenceConfig outputConfig toolConfig.toolChoice toolConfig.tools.toolSpec"
        " toolConfig.tools.cachePoint requestMetadata additionalModelResponseFieldPaths"
        + _under(
            "additionalModelRequestFields",
            "enable_thinking frequency_penalty inferenceConfig.topK logit_bias min_p "
            "output_config presence_penalty reasoningConfig reasoning_config reasoning_effort "
            "repetition_penalty safety_mode seed thinking topK top_k",
        )
    ),
    "gemini": (
        "safetySettings toolConfig tools.functionDeclarations"
        + _under(
            "generationConfig",
            "_responseJsonSchema audioTimestamp enableAffectiveDialog "
            "enableEnhancedCivicAnswers frequencyPenalty imageConfig logprobs maxOutputTokens "
            "mediaResolution presencePenalty responseFormat responseJsonSchema "
            "responseLogprobs responseMimeType responseModalities responseSchema seed "
            "speechConfig stopSequences temperature thinkingConfig topK topP",
        )
    ),
    "gemini_interactions": (
        "safety_settings response_modalities tools.function"
        + _under(
            "response_format",
            "aspect_ratio audio bit_rate image image_size mime_type sample_rate schema text type",
        )
        + _under(
            "generation_config",
            "image_config max_output_tokens seed speech_config stop_sequences temperature "
            "thinking_level thinking_summaries tool_choice top_p transcription_config",
        )
    ),
    "cohere": (
        "k p temperature seed max_tokens stop_sequences frequency_penalty presence_penalty"
        " logprobs safety_mode documents citation_options thinking response_format strict_tools"
        " tool_choice tools.function"
    ),
    "ollama": (
        "think format logprobs top_logprobs truncate shift"
        + _under(
            "options",
            "frequency_penalty min_p mirostat* num_keep num_predict penalize_newline "
            "presence_penalty repeat_last_n repeat_penalty seed stop temperature tfs_z top_k "
            "top_p typical_p",
        )
    ),
}
"""The fields that only shape the answer: sampling, thinking, safety, form, and client functions."""


class Options(msgspec.Struct, frozen=True):
    """The fields that clients may set, as paths with `*` and `?` wildcards."""

    allowed: tuple[str, ...]
    refused: tuple[str, ...] = ()
    keyed: bool = False

    def list_refused(self, fields: Mapping[str, Any]) -> dict[str, str]:
        """Return the disallowed fields, each with the path that is the reason."""
        found = {}
        for name, value in fields.items():
            if value is None or value == []:
                continue  # unset; an empty object may have an effect (`web_search_options`)
            plain = _plain(name)
            path = name if plain in RELAYS else next(self._walk(name, plain, value), None)
            if path is not None:
                found[name] = path
        return found

    def _walk(self, shown: str, path: str, value: Any, *, allowed: bool = False) -> Iterator[str]:
        """Yield the disallowed paths below `path`; `allowed`: whether a path above it is."""
        if _matches(self.refused, path):
            yield shown
            return
        allowed = allowed or _matches(self.allowed, path)
        if _matches(_starts(self.refused if allowed else self.allowed + self.refused), path):
            if value == {}:
                return  # its members would not be allowed
            below = list(self._below(value))
            for name, inner in below:
                yield from self._walk(
                    f"{shown}.{name}", f"{path}.{_plain(name)}", inner, allowed=allowed
                )
            if below:
                return
        if not allowed:
            yield shown

    def _below(self, value: Any) -> Iterable[tuple[str, Any]]:
        if isinstance(value, dict):
            return value.items()
        if not isinstance(value, list):
            return ()
        if self.keyed:
            return (pair for item in value if isinstance(item, dict) for pair in item.items())
        return ((type_of(item), None) for item in value)


def type_of(item: Any) -> str:
    """Return the type of a list item: "custom" for a function tool without a type.

    Gateways accept provider tools by a key (`{"google_search": {}}`) or by their name alone.
    """
    kind = item.get("type") if isinstance(item, dict) else "?"
    if kind is not None:
        return str(kind)
    objects = {name for name, value in item.items() if isinstance(value, dict)}
    return "custom" if objects & _SCHEMAS and objects <= _OF_FUNCTIONS else "untyped"


@lru_cache
def options_of(dialect: str, options: tuple[str, ...] | None) -> Options:
    """Return the options that an upstream allows; None: all except `REFUSED`."""
    keyed = dialect in KEYED
    if options is None:
        refused = " ".join(REFUSED.get(dialect, {}).values())
        return Options(("*",), _patterns(refused), keyed)
    names = (SAFE.get(dialect, "") if word == SAFE_WORD else word for word in options)
    return Options(_patterns(" ".join(names)), keyed=keyed)


@lru_cache
def stored_of(dialect: str, options: tuple[str, ...] | None) -> frozenset[str]:
    """Return the fields of `STORED` that an upstream does not allow, at any path."""
    return frozenset(options_of(dialect, options).list_refused(dict.fromkeys(STORED, "")))


@lru_cache
def own_of(dialect: str) -> Options:
    """Return the options that a request in the dialect's own format may always contain."""
    return Options(_patterns(OWN.get(dialect, "")), keyed=dialect in KEYED)


def _patterns(names: str) -> tuple[str, ...]:
    return tuple(".".join(map(_plain, name.split("."))) for name in names.split())


def _plain(name: str) -> str:
    """Return a name normalized across spellings, including those that Go treats as equal.

    A dot within it is not a separator.
    """
    return name.casefold().replace("_", "").replace("-", "").replace(".", "\0")


@lru_cache
def _starts(patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Return the parent paths of the patterns."""
    cut = (pattern.split(".") for pattern in patterns)
    return tuple({".".join(names[:end]) for names in cut for end in range(1, len(names))})


def _matches(patterns: tuple[str, ...], path: str) -> bool:
    return bool(patterns) and _compile(patterns).match(path) is not None


@lru_cache
def _compile(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, patterns)))
