"""OpenAI Chat Completions for upstreams."""

from ....framing.lenient import LenientDecoder
from ... import embeddings_calls, forwarded
from ...upstream_format import OPENAI_HEADERS, OptionNames, UpstreamFormat
from .. import NAME
from . import request
from .parser import Parser
from .rules import NAMES

_OPTIONS = OptionNames(
    refused={
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
        "another account or other requests": OPENAI_HEADERS,
    },
    safe=(
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
)

DIALECT = UpstreamFormat(
    path="chat/completions",
    decoder=LenientDecoder,
    parser=Parser,
    render_request=request.render_request,
    tool_names=NAMES,
    quirks=request.Quirks,
    ignored=request.IGNORED,
    client_format=NAME,
    render_extra=request.render_extra,
    options=_OPTIONS,
    continues=request.continues,
    limit_field=request.find_limit_field,
    embeddings=embeddings_calls.OPENAI,
    forwarded=forwarded.OPENAI,
    effort_words=True,
)
