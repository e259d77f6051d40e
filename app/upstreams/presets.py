"""Presets of providers, one row of data each, for use without configuration.

A dialect is a wire format and is defined in `dialects`; this module has no code. URLs may
contain `{model}` and the names of `PLACES`. Variables are those of the official SDKs, with the
same meaning.
"""

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from .credentials import Auth

PLACES: Final[Mapping[str, tuple[str, ...]]] = {
    "region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
    "project": ("GOOGLE_CLOUD_PROJECT", "ANTHROPIC_VERTEX_PROJECT_ID"),
    "location": ("GOOGLE_CLOUD_LOCATION", "CLOUD_ML_REGION"),
    "resource": ("AZURE_RESOURCE_NAME",),
    "account": ("SNOWFLAKE_ACCOUNT",),
}
"""Placeholders of base URLs: a key of the upstream's table, and its variables."""

AddedBy = Literal["key", "key or URL", "key and URL", "URL", "table"]
"""The variables that add an upstream without a table. A variable that is often set for other
reasons adds none.
"""


class Preset(msgspec.Struct, frozen=True, kw_only=True):
    """One provider."""

    title: str = ""
    base_url: str | None = None
    base_url_env: str | None = None
    base_url_suffix: str = ""
    """Appended to the variable's URL to form a base URL."""
    port: int | None = None
    """The default port if the variable has a host without port, or no scheme."""
    key_env: tuple[str, ...] = ()
    """The first variable that is set is used."""
    auth: Auth = "bearer"
    without_key: Auth = "none"
    added_by: AddedBy = "key"
    dialect: str = "openai_chat"
    quirks: Mapping[str, object] = {}
    """Fields of the dialect's own type."""
    host_quirks: Mapping[str, object] = {}
    """Quirks of the provider's own host only, not of hosts that replace it."""
    query: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}
    """Sent with every request, by lower-case name; those of the upstream's table replace them."""
    defaults: Mapping[str, str] = {}
    """Values of `PLACES`."""
    lists_models: bool = True
    """False if the API has no list of models, or one without usable models."""
    default_model: str | None = None
    """The model for requests without one."""


_OPENAI = {"max_tokens_field": "max_completion_tokens"}
_OPENAI_EXTRAS = (
    "audio",
    "logit_bias",
    "modalities",
    "moderation",
    "prediction",
    "prompt_cache_options",
    "web_search_options",
)
_UNKNOWN_HOST = {"send_reasoning": "as_received"}
UNKNOWN: Final = Preset(quirks=_UNKNOWN_HOST)
"""For an upstream without a preset."""
_OPENAI_ITSELF = {"allowed_tools": True, "extras": _OPENAI_EXTRAS, "call_ids": "40"}
_NEWER = ("verbosity", "prompt_cache_key", "prompt_cache_retention", "safety_identifier")
_OPENAI_ONLY = (*_NEWER, "service_tier", "store")
"""The fields that strict hosts reject because only OpenAI has them."""
_COMPACTS = {"compaction": True}
_GATEWAY = {"cache_control": True}
_GOOGLE = "https://{location_host}/v1/projects/{project}/locations/{location}/publishers"
_AZURE = "https://{resource}.openai.azure.com/openai"
_BEDROCK = "https://bedrock-runtime.{region}.amazonaws.com"

PRESETS: Final[Mapping[str, Preset]] = {
    "openai": Preset(
        title="OpenAI, Chat Completions",
        base_url="https://api.openai.com/v1",
        base_url_env="OPENAI_BASE_URL",
        key_env=("OPENAI_API_KEY",),
        added_by="key or URL",
        quirks=_OPENAI | _UNKNOWN_HOST,
        host_quirks=_OPENAI_ITSELF | {"send_reasoning": "no"},
        default_model="gpt-6-luna",
    ),
    "openai-responses": Preset(
        title="OpenAI, Responses",
        base_url="https://api.openai.com/v1",
        base_url_env="OPENAI_BASE_URL",
        key_env=("OPENAI_API_KEY",),
        added_by="table",
        dialect="openai_responses",
        host_quirks=_COMPACTS,
        default_model="gpt-6-luna",
    ),
    "azure": Preset(
        title="Azure OpenAI",
        base_url=f"{_AZURE}/v1",
        base_url_env="AZURE_OPENAI_ENDPOINT",
        base_url_suffix="/openai/v1",
        key_env=("AZURE_OPENAI_API_KEY",),
        auth="api-key",
        added_by="key and URL",
        quirks=_OPENAI | _OPENAI_ITSELF,
        lists_models=False,
    ),
    "azure-responses": Preset(
        title="Azure OpenAI, Responses",
        base_url=f"{_AZURE}/v1",
        base_url_env="AZURE_OPENAI_ENDPOINT",
        base_url_suffix="/openai/v1",
        key_env=("AZURE_OPENAI_API_KEY",),
        auth="api-key",
        added_by="table",
        dialect="openai_responses",
        quirks=_COMPACTS,
        lists_models=False,
    ),
    "azure-deployments": Preset(
        title="Azure OpenAI, URLs of deployments",
        base_url=f"{_AZURE}/deployments/{{model}}",
        base_url_env="AZURE_OPENAI_ENDPOINT",
        base_url_suffix="/openai/deployments/{model}",
        key_env=("AZURE_OPENAI_API_KEY",),
        auth="api-key",
        added_by="table",
        # Of an API version older than these.
        quirks=_OPENAI | {"extras": _OPENAI_EXTRAS, "left_out": _OPENAI_ONLY, "call_ids": "40"},
        query={"api-version": "2024-10-21"},
        lists_models=False,
    ),
    "azure-anthropic": Preset(
        title="Claude on Azure (Foundry)",
        base_url="https://{resource}.services.ai.azure.com/anthropic",
        base_url_env="ANTHROPIC_FOUNDRY_BASE_URL",
        key_env=("ANTHROPIC_FOUNDRY_API_KEY",),
        auth="api-key",
        added_by="table",
        dialect="anthropic",
        lists_models=False,
    ),
    "anthropic": Preset(
        title="Anthropic",
        base_url="https://api.anthropic.com",
        base_url_env="ANTHROPIC_BASE_URL",
        key_env=("ANTHROPIC_API_KEY",),
        auth="x-api-key",
        dialect="anthropic",
        default_model="claude-haiku-5-5",
    ),
    "gemini": Preset(
        title="Google Gemini",
        base_url="https://generativelanguage.googleapis.com/v1beta",
        base_url_env="GOOGLE_GEMINI_BASE_URL",
        base_url_suffix="/v1beta",
        key_env=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        auth="x-goog-api-key",
        dialect="gemini",
        default_model="gemini-3.8-flash",
    ),
    "gemini-interactions": Preset(
        title="Google Gemini, Interactions",
        base_url="https://generativelanguage.googleapis.com/v1beta",
        base_url_env="GOOGLE_GEMINI_BASE_URL",
        base_url_suffix="/v1beta",
        key_env=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        auth="x-goog-api-key",
        added_by="table",
        dialect="gemini_interactions",
        default_model="gemini-3.8-flash",
    ),
    "vertex": Preset(
        title="Vertex AI, Gemini",
        base_url=f"{_GOOGLE}/google",
        without_key="google",
        added_by="table",
        dialect="gemini",
        defaults={"location": "global"},
        lists_models=False,
        default_model="gemini-3.8-flash",
    ),
    "vertex-anthropic": Preset(
        title="Vertex AI, Claude",
        base_url=f"{_GOOGLE}/anthropic/models",
        without_key="google",
        added_by="table",
        dialect="vertex_anthropic",
        defaults={"location": "global"},
        lists_models=False,
    ),
    "bedrock": Preset(
        title="Amazon Bedrock, Converse",
        base_url=_BEDROCK,
        base_url_env="AWS_ENDPOINT_URL_BEDROCK_RUNTIME",
        key_env=("AWS_BEARER_TOKEN_BEDROCK",),
        without_key="aws",
        dialect="bedrock_converse",
        lists_models=False,
    ),
    "bedrock-anthropic": Preset(
        title="Amazon Bedrock, Claude in its own format",
        base_url=_BEDROCK,
        base_url_env="AWS_ENDPOINT_URL_BEDROCK_RUNTIME",
        key_env=("AWS_BEARER_TOKEN_BEDROCK",),
        without_key="aws",
        added_by="table",
        dialect="bedrock_anthropic",
        lists_models=False,
    ),
    "mistral": Preset(
        title="Mistral",
        base_url="https://api.mistral.ai/v1",
        key_env=("MISTRAL_API_KEY",),
        quirks={
            "stream_options": False,
            "seed_field": "random_seed",
            "required_word": "any",
            "send_reasoning": "thinking",
            "files": "document_url",
            "bare_audio": True,
            "dimensions_field": "output_dimension",
            "plain": True,
            "call_ids": "nine",
            "left_out": ["user", *_OPENAI_ONLY],
            "extras": [
                "min_tokens",
                "repetition_penalty",
                "top_k",
                "prompt_logprobs",
                "prediction",
                "top_prompt_logprobs",
                "prompt_mode",
                "guardrails",
                "safe_prompt",
            ],
        },
        default_model="mistral-medium-latest",
    ),
    "cohere": Preset(
        title="Cohere",
        base_url="https://api.cohere.com",
        base_url_env="CO_API_URL",
        key_env=("CO_API_KEY", "COHERE_API_KEY"),
        dialect="cohere",
        default_model="command-a-plus-05-2026",
    ),
    "deepseek": Preset(
        title="DeepSeek",
        base_url="https://api.deepseek.com",
        key_env=("DEEPSEEK_API_KEY",),
        quirks={"send_reasoning": "reasoning_content", "developer": False},
        default_model="deepseek-flash",
    ),
    "openrouter": Preset(
        title="OpenRouter",
        base_url="https://openrouter.ai/api/v1",
        key_env=("OPENROUTER_API_KEY",),
        quirks=_GATEWAY | {"send_reasoning": "reasoning_details", "effort_field": "reasoning"},
        default_model="openrouter/auto",
    ),
    "groq": Preset(
        title="Groq",
        base_url="https://api.groq.com/openai/v1",
        base_url_env="GROQ_BASE_URL",
        base_url_suffix="/openai/v1",
        key_env=("GROQ_API_KEY",),
        quirks=_OPENAI
        | {
            "left_out": ["logprobs", "top_logprobs", *_NEWER],
            "names": "none",
            "prefill": "plain",
            "extras": [
                "citation_options",
                "compound_custom",
                "disable_tool_validation",
                "documents",
                "exclude_domains",
                "include_domains",
                "include_reasoning",
                "logit_bias",
                "reasoning_format",
                "search_settings",
            ],
        },
        default_model="openai/gpt-oss-120b",
    ),
    "xai": Preset(
        title="xAI",
        base_url="https://api.x.ai/v1",
        key_env=("XAI_API_KEY",),
        quirks=_OPENAI | {"names": "user"},
        default_model="grok-4.7",
    ),
    "together": Preset(
        title="Together",
        base_url="https://api.together.ai/v1",
        base_url_env="TOGETHER_BASE_URL",
        key_env=("TOGETHER_API_KEY",),
        quirks={"send_reasoning": "reasoning"},
    ),
    "fireworks": Preset(
        title="Fireworks",
        base_url="https://api.fireworks.ai/inference/v1",
        key_env=("FIREWORKS_API_KEY",),
        quirks={
            "send_reasoning": "reasoning_content",
            "left_out": ["verbosity", "prompt_cache_retention", "safety_identifier", "store"],
        },
    ),
    "perplexity": Preset(
        title="Perplexity",
        base_url="https://api.perplexity.ai",
        key_env=("PERPLEXITY_API_KEY", "PPLX_API_KEY"),
        quirks={
            "stream_options": False,
            "left_out": [
                "seed",
                "logprobs",
                "top_logprobs",
                "parallel_tool_calls",
                *_OPENAI_ONLY,
            ],
        },
        lists_models=False,
        default_model="sonar",
    ),
    "cerebras": Preset(
        title="Cerebras",
        base_url="https://api.cerebras.ai/v1",
        base_url_env="CEREBRAS_BASE_URL",
        base_url_suffix="/v1",
        key_env=("CEREBRAS_API_KEY",),
        quirks=_OPENAI
        | {
            "send_reasoning": "reasoning",
            "left_out": [
                "frequency_penalty",
                "presence_penalty",
                "verbosity",
                "store",
                "prompt_cache_retention",
                "safety_identifier",
            ],
            "extras": [
                "clear_thinking",
                "disable_reasoning",
                "logit_bias",
                "min_completion_tokens",
                "min_tokens",
                "prediction",
                "reasoning_format",
            ],
        },
        default_model="gpt-oss-120b",
    ),
    "sambanova": Preset(
        title="SambaNova",
        base_url="https://api.sambanova.ai/v1",
        key_env=("SAMBANOVA_API_KEY",),
    ),
    "nvidia": Preset(
        title="NVIDIA",
        base_url="https://integrate.api.nvidia.com/v1",
        key_env=("NVIDIA_API_KEY",),
        quirks={"left_out": _OPENAI_ONLY},
        added_by="table",
    ),
    "deepinfra": Preset(
        title="DeepInfra",
        base_url="https://api.deepinfra.com/v1/openai",
        key_env=("DEEPINFRA_API_KEY",),
    ),
    "zai": Preset(
        title="Z.ai",
        base_url="https://api.z.ai/api/paas/v4",
        key_env=("ZAI_API_KEY",),
        quirks={"send_reasoning": "reasoning_content", "developer": False},
    ),
    "moonshot": Preset(
        title="Moonshot (Kimi)",
        base_url="https://api.moonshot.ai/v1",
        key_env=("MOONSHOT_API_KEY",),
        quirks={"send_reasoning": "reasoning_content", "prefill": "partial"},
    ),
    "huggingface": Preset(
        title="Hugging Face router",
        base_url="https://router.huggingface.co/v1",
        key_env=("HF_TOKEN",),
        added_by="table",
    ),
    "vercel": Preset(
        title="Vercel AI Gateway",
        base_url="https://ai-gateway.vercel.sh/v1",
        key_env=("AI_GATEWAY_API_KEY",),
        quirks=_GATEWAY | {"send_reasoning": "reasoning_details", "effort_field": "reasoning"},
    ),
    "databricks": Preset(
        title="Databricks",
        base_url_env="DATABRICKS_HOST",
        base_url_suffix="/serving-endpoints",
        port=443,
        key_env=("DATABRICKS_TOKEN",),
        quirks={"left_out": _OPENAI_ONLY},
        added_by="table",
        lists_models=False,
    ),
    "snowflake": Preset(
        title="Snowflake Cortex",
        base_url="https://{account}.snowflakecomputing.com/api/v2/cortex/v1",
        key_env=("SNOWFLAKE_PAT",),
        quirks={"left_out": _OPENAI_ONLY},
        added_by="table",
        lists_models=False,
    ),
    "litellm": Preset(
        title="LiteLLM proxy",
        base_url="http://127.0.0.1:4000/v1",
        base_url_env="LITELLM_PROXY_API_BASE",
        key_env=("LITELLM_PROXY_API_KEY",),
        added_by="URL",
        quirks=_GATEWAY | {"send_reasoning": "thinking_blocks"},
    ),
    "ollama": Preset(
        title="Ollama",
        base_url="http://127.0.0.1:11434",
        base_url_env="OLLAMA_HOST",
        port=11434,
        key_env=("OLLAMA_API_KEY",),
        added_by="URL",
        dialect="ollama",
    ),
    "vllm": Preset(
        title="vLLM",
        base_url="http://127.0.0.1:8000/v1",
        key_env=("VLLM_API_KEY",),
        added_by="table",
        quirks={"send_reasoning": "reasoning", "prefill": "continue_final_message"},
    ),
    "llamacpp": Preset(
        title="llama.cpp server",
        base_url="http://127.0.0.1:8080/v1",
        key_env=("LLAMA_API_KEY",),
        added_by="table",
        quirks={"send_reasoning": "reasoning_content", "prefill": "plain"},
    ),
    "lmstudio": Preset(
        title="LM Studio",
        base_url="http://127.0.0.1:1234/v1",
        added_by="table",
    ),
}
