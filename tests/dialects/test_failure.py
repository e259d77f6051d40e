"""What a provider's error means, and what of it may be shown."""

import json
from typing import Any

import pytest

from app.dialects.reading.provider_errors import parse_error, parse_failure, parse_finish_error
from app.errors import UpstreamError
from tests.dialects.streams import absent, index

pytestmark = pytest.mark.pure

AUTH = "upstream_auth"
FORBIDDEN = "upstream_forbidden"
INVALID = "upstream_invalid_request"
CONTEXT = "context_length_exceeded"
NOT_FOUND = "upstream_not_found"
LIMITED = "upstream_rate_limited"
BILLING = "upstream_billing"
FILTERED = "content_filtered"
UNAVAILABLE = "upstream_unavailable"
OVERLOADED = "upstream_overloaded"
TIMEOUT = "upstream_timeout"
TOOL = "upstream_tool_failed"

# The recorded error bodies in the order of their index: host, status, and what the table of
# errors makes of them.
RECORDED = [
    ("api.anthropic.com", 401, AUTH),
    ("api.openai.com", 400, INVALID),
    ("api.anthropic.com", 400, INVALID),
    ("bedrock-runtime.us-east-1.amazonaws.com", 403, FORBIDDEN),  # an expired token
    ("api.openai.com", 401, AUTH),
    ("api.openai.com", 401, AUTH),
    ("api.openai.com", 401, AUTH),
    ("api.openai.com", 400, INVALID),
    ("rubyllm.services.ai.azure.com", 401, AUTH),
    ("bedrock-runtime.<AWS_REGION>.amazonaws.com", 403, FORBIDDEN),
    ("api.cohere.com", 401, AUTH),
    ("api.deepseek.com", 401, AUTH),
    ("generativelanguage.googleapis.com", 400, AUTH),  # API_KEY_INVALID
    ("api.mistral.ai", 401, AUTH),
    ("ollama.com", 401, AUTH),
    ("api.openai.com", 401, AUTH),
    ("openrouter.ai", 401, AUTH),
    ("api.perplexity.ai", 401, AUTH),
    ("api.x.ai", 400, AUTH),  # "Incorrect API key"
    ("api.anthropic.com", 400, CONTEXT),
    ("rubyllm.services.ai.azure.com", 429, LIMITED),
    ("bedrock-runtime.<AWS_REGION>.amazonaws.com", 400, CONTEXT),
    ("api.cohere.com", 400, CONTEXT),
    ("api.deepseek.com", 400, CONTEXT),
    ("generativelanguage.googleapis.com", 429, LIMITED),
    ("ollama.com", 400, CONTEXT),
    ("api.openai.com", 400, CONTEXT),
    ("openrouter.ai", 400, CONTEXT),
    ("api.perplexity.ai", 400, CONTEXT),
    ("aiplatform.googleapis.com", 400, CONTEXT),
    ("api.openai.com", 401, AUTH),
    ("api.openai.com", 404, NOT_FOUND),
    ("api.openai.com", 400, NOT_FOUND),  # model_not_found
    ("us-central1-aiplatform.googleapis.com", 400, INVALID),
    ("us-central1-aiplatform.googleapis.com", 400, INVALID),
    ("us-central1-aiplatform.googleapis.com", 404, NOT_FOUND),
    ("bedrock-runtime.us-east-1.amazonaws.com", 400, NOT_FOUND),  # "identifier is invalid"
    ("api.openai.com", 401, AUTH),
    ("bedrock-runtime.us-east-1.amazonaws.com", 400, INVALID),
    ("api.deepseek.com", 400, INVALID),
    ("api.cohere.com", 404, NOT_FOUND),
    ("api.cohere.com", 404, NOT_FOUND),
    ("api.openai.com", 404, NOT_FOUND),
    ("traceloop-stg.openai.azure.com", 404, NOT_FOUND),  # DeploymentNotFound
    ("api.openai.com", 400, INVALID),
    ("api.openai.com", 400, INVALID),
]
WAITS = {20: 1.0, 24: 48.0}
NOW = 1792567680.0
"""Wed, 21 Oct 2026 07:28:00 GMT."""


def recorded() -> list[Any]:
    found = index("errors/index.json")
    if found is None:
        return [absent()]
    rows = zip(found["errors"], RECORDED, strict=True)
    return [pytest.param((n, *row), id=f"{n}-{row[1][0]}") for n, row in enumerate(rows)]


@pytest.mark.parametrize("case", recorded())
def test_recorded_errors_have_the_code_of_the_table(case: Any) -> None:
    number, row, (host, status, code) = case
    assert (row["host"], row["status"]) == (host, status)
    body = json.dumps(row["body"]).encode()
    error = parse_failure(status, row["headers"], body, upstream="u", now=NOW)

    assert error.code == code
    assert error.retry_after_s == WAITS.get(number)
    assert error.message.startswith("upstream 'u' ")
    assert len(error.message) < 620


def failure(status: int, body: Any, **headers: str) -> UpstreamError:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return parse_failure(status, names, data, upstream="u", now=NOW)


def said(**fields: Any) -> dict[str, Any]:
    return {"error": fields}


TOO_LONG = [
    ("Anthropic", 400, said(type="invalid_request_error", message="prompt is too long: 213462 tokens > 200000 maximum")),
    ("Anthropic, with max_tokens", 400, said(type="invalid_request_error", message="input length and `max_tokens` exceed context limit: 199759 + 21333 > 200000, decrease input length or `max_tokens` and try again")),
    ("Bedrock", 400, {"message": "Input is too long for requested model."}),
    ("Bedrock, Claude", 400, {"message": "The model returned the following errors: Input is too long for requested model."}),
    ("OpenAI", 400, said(type="invalid_request_error", code="context_length_exceeded", message="This model's maximum context length is 128000 tokens.")),
    ("OpenAI Responses", 400, said(type="invalid_request_error", message="Your input exceeds the context window of this model.")),
    ("Gemini", 400, said(code=400, status="INVALID_ARGUMENT", message="The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).")),
    ("xAI", 400, {"code": "invalid-argument", "error": "This model's maximum prompt length is 131072 but the request contains 537812 tokens."}),
    ("Groq", 400, said(type="invalid_request_error", message="Please reduce the length of the messages or completion.")),
    ("Cerebras", 400, {"type": "invalid_request_error", "message": "Please reduce the length of the messages or completion. Current length is 9090 while limit is 8192"}),
    ("OpenRouter", 400, said(code=400, message="This endpoint's maximum context length is 131072 tokens. However, you requested about 140000 tokens")),
    ("llama.cpp", 400, said(code=400, type="exceed_context_size_error", message="the request exceeds the available context size", n_prompt_tokens=9000, n_ctx=4096)),
    ("llama.cpp, older", 400, said(code=400, type="invalid_request_error", message="the request exceeds the available context size. try increasing the context size")),
    ("LM Studio", 400, {"error": "The number of tokens to keep from the initial prompt is greater than the context length. Try to load the model with a larger context length"}),
    ("LM Studio, older", 400, {"error": "Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens"}),
    ("Ollama", 400, {"error": "the input length exceeds the context length"}),
    ("Ollama, cloud", 400, {"error": "prompt too long; exceeded max context length by 4 tokens"}),
    ("Kimi", 400, said(type="invalid_request_error", message="Invalid request: Your request exceeded model token limit: 131072 (requested: 150000)")),
    ("Z.ai", 400, said(code="1261", message="Prompt exceeds max length")),
    ("MiniMax", 400, said(type="bad_request_error", message="invalid params, context window exceeds limit (2013)")),
    ("SGLang", 400, {"object": "error", "message": "The input (60000 tokens) is longer than the model's context length (32768 tokens).", "code": 400}),
    ("vLLM", 400, {"object": "error", "message": "The decoder prompt (length 5000) is longer than the maximum model length of 4096.", "code": 400}),
    ("Together", 422, said(type="invalid_request_error", message="Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 9000 `inputs` tokens")),
    ("TGI", 422, {"error": "Input validation error: `inputs` must have less than 1024 tokens. Given: 2000", "error_type": "validation"}),
    ("DashScope", 400, said(code="invalid_parameter_error", message="<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 98304]")),
    ("GitHub Copilot", 400, said(code="model_max_prompt_tokens_exceeded", message="prompt token count of 128008 exceeds the limit of 128000")),
    ("GitHub Copilot, in words", 400, said(message="prompt token count of 128008 exceeds the limit of 128000")),
    ("Mistral", 400, {"object": "error", "message": "Prompt contains 150000 tokens and 0 draft tokens, too large for model with 131072 maximum context length", "type": "invalid_request_invalid_args"}),
    ("Cohere", 400, {"message": "too many tokens: total number of tokens in the prompt cannot exceed 4081"}),
    ("Fireworks", 400, said(message="The prompt is too long: 12345, model maximum context length: 8191")),
]  # fmt: skip


@pytest.mark.parametrize(("who", "status", "body"), TOO_LONG, ids=[row[0] for row in TOO_LONG])
def test_too_long_is_understood_in_every_wording(who: str, status: int, body: Any) -> None:
    assert CONTEXT == failure(status, body).code
    assert CONTEXT == parse_error(body, upstream="u").code


@pytest.mark.parametrize(
    "message",
    [
        "max_tokens must be less than or equal to 8192",
        "messages: text content blocks must contain non-whitespace text",
        "the description of the tool is too long",
        "tools: too many",
    ],
)
def test_what_only_looks_too_long_is_an_invalid_request(message: str) -> None:
    assert INVALID == failure(400, said(type="invalid_request_error", message=message)).code


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (said(code="data_inspection_failed", message="Output data may contain inappropriate content."), FILTERED),
        ({"code": "DataInspectionFailed", "message": "Input data may contain inappropriate content."}, FILTERED),
        ({"base_resp": {"status_code": 1027, "status_msg": "output new_sensitive"}}, FILTERED),
        ({"base_resp": {"status_code": 1026, "status_msg": "input new_sensitive"}}, FILTERED),
        ({"base_resp": {"status_code": 1002, "status_msg": "rate limit"}}, LIMITED),
        ({"base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}}, BILLING),
        (said(code="1302", message="High concurrency usage of this API"), LIMITED),
        (said(code="1113", message="Your account is in arrears"), BILLING),
        (said(code="1301", message="System detected potentially unsafe or sensitive content"), FILTERED),
    ],
)  # fmt: skip
def test_verdicts_of_providers_with_codes_of_their_own(body: Any, code: str) -> None:
    assert code == failure(400, body).code
    assert code == parse_error(body, upstream="u").code


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        # The status alone.
        *((status, b"", INVALID) for status in (400, 405, 413, 415, 418, 422)),
        (401, b"", AUTH),
        (403, b"", FORBIDDEN),
        *((status, b"", TIMEOUT) for status in (408, 504, 524)),
        *((status, b"", OVERLOADED) for status in (498, 503, 529)),
        *((status, b"", UNAVAILABLE) for status in (409, 424, 500, 501, 502, 520)),
        (402, b"", BILLING),
        (404, b"", NOT_FOUND),
        (429, b"", LIMITED),
        (302, b"", "upstream_invalid_response"),
        (502, b"<html><title>502 Bad Gateway</title>", UNAVAILABLE),
        (503, b"no healthy upstream", OVERLOADED),
        (500, b"\xff\xfe", UNAVAILABLE),
        (400, b'{"error":', INVALID),
        (400, b"null", INVALID),
        (400, b"[]", INVALID),
        (400, b"5", INVALID),
        # The shapes of bodies.
        (400, {"error": "prompt is too long"}, CONTEXT),
        (400, {"error": {"message": "Prompt is too long"}}, CONTEXT),
        (400, {"type": "error", "error": {"type": "overloaded_error"}}, OVERLOADED),
        (400, {"message": "too many tokens"}, CONTEXT),
        (400, {"detail": "Invalid API Key"}, AUTH),
        (422, {"detail": [{"loc": ["x"], "msg": "field required", "type": "missing"}]}, INVALID),
        (400, {"code": "invalid-argument", "error": "Incorrect API key provided"}, AUTH),
        (503, [{"error": {"status": "UNAVAILABLE"}}], OVERLOADED),
        (400, {"object": "error", "type": "NotFoundError", "code": 404}, INVALID),
        (400, {"success": False, "error": "too many tokens"}, CONTEXT),
        (400, {"error": {"details": [{"reason": "API_KEY_INVALID"}]}}, AUTH),
        # Words that overrule the status.
        (429, said(code="insufficient_quota", type="insufficient_quota"), BILLING),
        (429, said(message="You exceeded your current quota, check your billing"), LIMITED),
        (429, said(message="too many tokens per minute"), LIMITED),
        (400, said(message="Your credit balance is too low to access the API"), BILLING),
        (400, said(type="billing_error"), BILLING),
        (400, said(code="content_filter", innererror={"code": "x"}), FILTERED),
        (400, said(code="x", innererror={"code": "ResponsibleAIPolicyViolation"}), FILTERED),
        (400, {"choices": [{"content_filter_results": said(code="content_filter")}]}, FILTERED),
        (400, {"choices": [{"content_filter_results": None}]}, INVALID),
        (403, said(code=403, metadata={"reasons": ["violence"]}), FILTERED),
        (403, said(code=403, metadata={"provider_name": "x"}), FORBIDDEN),
        (400, said(code="tool_use_failed", type="invalid_request_error"), TOOL),
        (400, said(type="authentication_error", code="invalid_request_error"), AUTH),
        # A 403 is never a 401, nor a 401 a 403.
        (403, said(type="permission_error"), FORBIDDEN),
        (403, said(status="PERMISSION_DENIED", message="API key not valid"), FORBIDDEN),
        (403, said(code="invalid_api_key"), FORBIDDEN),
        (403, {"detail": "Invalid API key"}, FORBIDDEN),
        (401, said(type="permission_error"), AUTH),
        (403, said(code="model_not_found"), NOT_FOUND),
        (403, said(code="insufficient_quota"), BILLING),
        (500, said(type="rate_limit_error"), LIMITED),
        (400, said(type="invalid_request_error", message="Rate limit reached for x"), LIMITED),
        (400, said(message="Too many requests, please slow down"), LIMITED),
        (400, {"error": {"code": 429, "message": "x"}}, LIMITED),
        (500, said(type="api_error", message="You have exceeded your rate limit"), LIMITED),
        (400, said(message="rate_limit: unknown field"), INVALID),
        (500, said(status="DEADLINE_EXCEEDED"), TIMEOUT),
        (500, said(code="server_is_overloaded"), OVERLOADED),
        # LiteLLM.
        (400, said(code="400", message="litellm.ContextWindowExceededError: no"), CONTEXT),
        (400, said(code="400", message="litellm.ContentPolicyViolationError: no"), FILTERED),
        (400, said(code="400", message="due to Azure OpenAI's content management policy"), FILTERED),
        (400, said(code="400", message="/v1: Invalid model name passed in model=x"), NOT_FOUND),
        (400, said(code="400", type="no_db_connection", message="No connected db."), AUTH),
        # 404: the model, unless it is plainly the request.
        (404, {"message": "no Route matched with those values"}, NOT_FOUND),
        (404, said(type="invalid_request_error", message="Invalid URL (POST /v1/x)"), INVALID),
        (404, said(type="invalid_request_error", message="The model `x` does not exist"), NOT_FOUND),
        (404, said(type="not_found_error", message="model: x"), NOT_FOUND),
        (400, said(type="server_error"), INVALID),
    ],
)  # fmt: skip
def test_an_error_reply_has_a_code(status: int, body: Any, code: str) -> None:
    assert failure(status, body).code == code


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("ValidationException:http://x/", INVALID),
        ("ThrottlingException:http://x/", LIMITED),
        ("ModelNotReadyException", OVERLOADED),
        ("AccessDeniedException", FORBIDDEN),
        ("ResourceNotFoundException", NOT_FOUND),
        ("ModelTimeoutException", TIMEOUT),
        ("ServiceUnavailableException", OVERLOADED),
    ],
)
def test_bedrock_names_the_error_in_a_header(kind: str, code: str) -> None:
    assert failure(400, {"message": "x"}, X_Amzn_ErrorType=kind).code == code


@pytest.mark.parametrize(
    ("document", "code"),
    [
        ({"error": {"message": "x"}}, UNAVAILABLE),
        ({"error": {"code": 429}}, LIMITED),
        (said(type="api_error", message="Rate limit exceeded"), LIMITED),
        (said(type="api_error", message="Internal server error"), UNAVAILABLE),
        ({"error": {"code": 400, "message": "Token limit reached"}}, INVALID),
        ({"error": {"code": "401", "status_code": 500}}, AUTH),
        ({"error": {"code": 403}}, FORBIDDEN),
        ({"error": {"type": "permission_error"}}, FORBIDDEN),
        ({"error": {"type": "server_error", "code": None}}, UNAVAILABLE),
        ({"error": {"type": "invalid_request_error"}}, INVALID),
        ({"error": {"type": "overloaded_error"}}, OVERLOADED),
        ({"error": True}, UNAVAILABLE),
        ({"error": {"code": "image_too_large", "message": "x"}}, INVALID),
        ({"error": {"code": "image_content_policy_violation"}}, "content_filtered"),
        ({"error": {"code": "vector_store_timeout"}}, TIMEOUT),
        ("Prompt is too long", CONTEXT),
        ({"error": "Prompt is too long"}, CONTEXT),
        (None, UNAVAILABLE),
        ([], UNAVAILABLE),
        ({}, UNAVAILABLE),
    ],
)
def test_an_error_in_a_stream_has_a_code(document: object, code: str) -> None:
    assert parse_error(document, upstream="u").code == code


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        ("error", UNAVAILABLE),
        ("network_error", UNAVAILABLE),
        ("insufficient_system_resource", OVERLOADED),
        ("TIMEOUT", TIMEOUT),
        ("MALFORMED_FUNCTION_CALL", TOOL),
        ("malformed_tool_use", TOOL),
        ("UNEXPECTED_TOOL_CALL", TOOL),
        ("function_call_filter: MALFORMED_FUNCTION_CALL", TOOL),
    ],
)
def test_a_finish_reason_that_is_an_error_has_a_code(raw: str, code: str) -> None:
    error = parse_finish_error(raw, upstream="u")

    assert error.code == code
    assert raw not in error.message


RETRY_INFO = {"error": {"code": 429, "details": [{"retryDelay": "48.5s"}, {"retryDelay": 5}, "x"]}}
DATE = "Wed, 21 Oct 2026 07:28:00 GMT"


@pytest.mark.parametrize(
    ("status", "headers", "body", "seconds"),
    [
        (429, {}, b"", None),
        (429, {"retry_after": "7"}, b"", 7),
        (429, {"Retry_After": "1.5"}, b"", 1.5),
        (503, {"retry_after": "7"}, b"", 7),
        (429, {"retry_after_ms": "250", "retry_after": "1"}, b"", 0.25),
        (429, {"retry_after_ms": "0", "retry_after": "1"}, b"", 1),  # Azure
        (429, {"retry_after": "0"}, b"", None),
        (429, {"retry_after": "-5"}, b"", None),
        (429, {"retry_after": "nan"}, b"", None),
        (429, {"retry_after": "99999999999999999999"}, b"", None),
        (429, {"retry_after": "86400"}, b"", 3600),
        (429, {"retry_after": "Wed, 21 Oct 2026 07:28:30 GMT", "date": DATE}, b"", 30),
        (429, {"retry_after": "Wed, 21 Oct 2026 07:27:30 GMT", "date": DATE}, b"", None),
        (429, {"retry_after": "Wed, 21 Oct 2026 07:28:30 GMT"}, b"", 30),
        (429, {"retry_after": "Wed, 21 Oct 2026 07:27:30 GMT"}, b"", None),
        (
            429,
            {
                "anthropic_ratelimit_input_tokens_remaining": "0",
                "anthropic_ratelimit_input_tokens_reset": "2026-10-21T07:28:12Z",
                "anthropic_ratelimit_requests_remaining": "12",
                "anthropic_ratelimit_requests_reset": "2026-10-21T07:29:00Z",
            },
            b"",
            12,
        ),
        (429, {"retry_after": "Wed, 21 Oct 2026 07:28:30 -0000", "date": DATE}, b"", None),
        (429, {"retry_after": "soon", "date": DATE}, b"", None),
        (429, {}, RETRY_INFO, 48.5),
        (503, {}, RETRY_INFO, 48.5),
        (429, {"retry_after": "5"}, RETRY_INFO, 5),
        (429, {"x_ratelimit_reset_requests": "17ms"}, b"", 0.017),
        (429, {"x_ratelimit_reset_tokens": "1m2s"}, b"", 62),
        (429, {"x_ratelimit_reset_tokens": "1h"}, b"", 3600),
        (429, {"x_ratelimit_reset_tokens": "10"}, b"", 10),
        (429, {"x_ratelimit_reset_tokens": "tomorrow"}, b"", None),
        (429, {"x_ratelimit_reset_tokens": "6m0s", "x_ratelimit_reset_requests": "2s"}, b"", 360),
        (429, {"x_ratelimit_reset_tokens": "6m0s", "x_ratelimit_remaining_tokens": "5", "x_ratelimit_reset_requests": "2s", "x_ratelimit_remaining_requests": "0"}, b"", 2),
        (503, {"x_ratelimit_reset_requests": "17ms"}, b"", None),
    ],
)  # fmt: skip
def test_the_wait_that_a_reply_asks_for(
    status: int, headers: dict[str, str], body: Any, seconds: float | None
) -> None:
    assert failure(status, body, **headers).retry_after_s == seconds


def test_the_wait_of_a_provider_behind_litellm() -> None:
    headers = {"llm_provider-retry-after": "7"}

    assert parse_failure(429, headers, b"", upstream="u", now=NOW).retry_after_s == 7
    headers["retry-after"] = "2"
    assert parse_failure(429, headers, b"", upstream="u", now=NOW).retry_after_s == 2


def test_an_error_in_a_stream_may_ask_for_a_wait() -> None:
    assert parse_error(RETRY_INFO, upstream="u").retry_after_s == 48.5


@pytest.mark.parametrize(
    ("told", "seconds"),
    [
        ("Limit 30000, Used 22999. Please try again in 11.054s. Visit https://a.b.", 11.054),
        ("Please try again in 6m0s.", 360),
        ("Please try again in 898ms.", 0.898),
        ("Please try again in a while.", None),
        ("Please try again in 1x.", None),
    ],
)
def test_a_rate_limit_in_a_stream_says_its_wait_in_words(told: str, seconds: float | None) -> None:
    error = parse_error({"error": {"code": "rate_limit_exceeded", "message": told}}, upstream="u")

    assert error.retry_after_s == seconds
    words = "later" if seconds is None else f"in {seconds:g} s"
    assert error.message.endswith(f"try again {words}")


def test_the_message_names_the_upstream_and_what_to_do() -> None:
    assert str(failure(401, said(message="Incorrect API key provided: abc"))) == (
        "upstream 'u' refused the relay's key; check its key on the server"
    )
    assert str(failure(400, said(message="top_k:\n  too\tlarge"))) == (
        "upstream 'u' refused the request: top_k: too large"
    )
    assert str(failure(400, b"")) == "upstream 'u' refused the request"


@pytest.mark.parametrize("status", [401, 402, 403, 408, 429, 500, 502, 503])
def test_a_text_that_the_caller_cannot_use_is_not_shown(status: int) -> None:
    assert "hush" not in str(failure(status, said(message="hush")))


@pytest.mark.parametrize(
    "secret",
    [
        "sk-proj-abcdefghij",
        "sk-wrong****-key",
        "org-AbCdEf12",
        "proj_Ab12Cd34",
        "user_2w02ZGxKw2KeeHUG",
        "gsk_abcdefgh",
        "xai-abcdefgh",
        "Bearer abc.def",
        "key=abc",
        "api_key: abc",
        "AIzaSyA1234567890",
        "AKIAIOSFODNN7EXAMPLE",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIx",
        "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "0123456789abcdef0123456789abcdef",
        "123456789012",
        "projects/my-project",
    ],
)
def test_secrets_and_accounts_are_removed(secret: str) -> None:
    error = failure(400, said(message=f"no {secret} here"))

    assert str(error) == "upstream 'u' refused the request: no [removed] here"


@pytest.mark.parametrize(
    "text",
    [
        "user_input is too long",
        "us.anthropic.claude-sonnet-4-5-20250929-v1:0 has no tools",
        "deepseek-ai/DeepSeek-R1-Distill-Llama-70B has no tools",
        "key: expected a string",
        "see https://docs.example.com/docs/models#command",
        "こんにちは",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert str(failure(400, said(message=text))) == f"upstream 'u' refused the request: {text}"


def test_a_url_loses_its_credentials_only() -> None:
    error = failure(400, said(message="see https://me:pw@example.com/a?key=abc&x=1"))

    assert str(error).endswith("see https://[removed]example.com/a?[removed]&x=1")


def test_a_long_text_is_cut_and_a_broken_one_is_mended() -> None:
    assert len(str(failure(400, said(message="ab " * 10_000)))) < 540
    body = b'{"error":{"message":"a\\ud83d\\u0007\\u202eb"}}'
    assert str(failure(400, body)).endswith(": a� b")
