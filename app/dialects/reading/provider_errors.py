"""Error classification: the error body of any provider to one `UpstreamError`.

Error bodies differ between hosts, so nothing here depends on one shape: it looks up every field
that can be a code, then the message, then the HTTP status.

The messages are safe to show. They name the upstream and say what to do. The provider's own
text is added only if the client can act on it, and without secrets and
names of accounts.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from ...errors import UpstreamError
from .json_values import decode_or, mapping, mappings, string
from .rate_limits import bound_wait, read_duration, read_wait
from .split_text import well_formed

Redact = Callable[[str], str]

MAX_TEXT: Final = 500

MAX_READ: Final = 8192
"""Characters of an error that are searched: patterns over megabytes block the event loop."""

_ADVICE: Final = {
    "upstream_invalid_request": "refused the request",
    "context_length_exceeded": "reports that the conversation is too long; shorten it",
    "content_filtered": "blocked the request with its content filter",
    "upstream_not_found": "does not have this model; check the model's name and the base URL",
    "upstream_tool_failed": "produced a broken tool call; try again",
    "upstream_auth": "refused the relay's key; check its key on the server",
    "upstream_forbidden": "forbids this to the relay's key; check the key's rights on the server",
    "upstream_billing": "refused the relay's account; check its credit and billing",
    "upstream_rate_limited": "has reached its rate limit; try again later",
    "upstream_overloaded": "is overloaded; try again later",
    "upstream_unavailable": "failed; try again",
    "upstream_timeout": "took too long; try again",
    "upstream_invalid_response": "sent an invalid answer; check its base URL",
}
_TELLING: Final = frozenset(tuple(_ADVICE)[:5])
"""The codes whose cause the client can fix, so that the provider's text helps."""

_NAMING: Final = ("upstream_invalid_request", "context_length_exceeded")
"""The codes for which the provider's own code is more specific."""

# The first row with one of the error's codes, in lower case, decides.
_WORDS: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    (
        "context_length_exceeded",
        (
            "context_length_exceeded",
            "too_many_prompt_tokens",
            "too_many_tokens",
            "exceed_context_size_error",  # llama.cpp
            "model_max_prompt_tokens_exceeded",  # GitHub Copilot
            "1261",  # Z.ai
        ),
    ),
    (
        "content_filtered",
        (
            "content_filter",
            "content_blocked",
            "content_policy_violation",
            "responsibleaipolicyviolation",
            "prohibited_content",
            "safety",
            "blocklist",
            "spii",
            "image_content_policy_violation",
            "bio_policy",
            "misalignment_policy_violation",
            "data_inspection_failed",  # DashScope
            "datainspectionfailed",  # DashScope
            "1026",  # MiniMax: the input
            "1027",  # MiniMax: the output
            "1301",  # Z.ai
        ),
    ),
    (
        "upstream_tool_failed",
        (
            "tool_use_failed",
            "invalid_tool_generation",
            "malformed_function_call",
            "malformed_tool_use",
            "malformed_model_output",
            "unexpected_tool_call",
            "too_many_tool_calls",
        ),
    ),
    (
        "upstream_billing",
        (
            "insufficient_quota",
            "billing_error",
            "payment_required",
            "billing_not_active",
            "insufficient_balance",
            "1008",  # MiniMax
            "1113",  # Z.ai
        ),
    ),
    (
        "upstream_auth",
        (
            "invalid_api_key",
            "api_key_invalid",
            "authentication_error",
            "authentication",
            "unauthenticated",
            "unrecognizedclientexception",
            "expiredtokenexception",
            "no_db_connection",  # LiteLLM without a database: any but its master key
        ),
    ),
    ("upstream_forbidden", ("permission_error", "permission_denied", "accessdeniedexception")),
    (
        "upstream_not_found",
        (
            "model_not_found",
            "not_found_error",
            "not_found",
            "deploymentnotfound",
            "resourcenotfoundexception",
        ),
    ),
    (
        "upstream_rate_limited",
        (
            "rate_limit_exceeded",
            "quota_exceeded",
            "rate_limit_error",
            "ratelimitreached",
            "resource_exhausted",
            "throttlingexception",
            "too_many_requests",
            "1002",  # MiniMax
            "1302",  # Z.ai: concurrent requests
            "1303",  # Z.ai: requests in a period
            "1305",  # Z.ai: all of its users
        ),
    ),
    (
        "upstream_overloaded",
        (
            "overloaded_error",
            "overloaded",
            "service_unavailable",
            "unavailable",
            "server_is_overloaded",
            "serviceunavailableexception",
            "insufficient_system_resource",
            "modelnotreadyexception",
            "capacity_exceeded",
        ),
    ),
    (
        "upstream_timeout",
        (
            "deadline_exceeded",
            "timeout_error",
            "gateway_timeout",
            "modeltimeoutexception",
            "timeout",
            "vector_store_timeout",
        ),
    ),
    (
        "upstream_invalid_request",
        (
            "invalid_image",
            "invalid_image_format",
            "invalid_base64_image",
            "invalid_image_url",
            "invalid_image_mode",
            "unsupported_image_media_type",
            "image_too_large",
            "image_too_small",
            "image_parse_error",
            "image_file_too_large",
            "image_file_not_found",
            "empty_image_file",
            "failed_to_download_image",
            "data_residency_mismatch",
            "request_too_large",  # Anthropic, within a stream
        ),
    ),
)
_VAGUE_WORDS: Final = frozenset(
    (
        "invalid_request_error",
        "invalid_argument",
        "invalid_request",
        "parameter_unknown",
        "failed_precondition",
        "validationexception",
        "invalid_prompt",
        "missing_thought_signature",
    )
)
"""Codes that mean an invalid request unless the HTTP status is more specific."""
_TEXTS: Final = tuple(
    (code, re.compile(pattern, re.IGNORECASE))
    for code, pattern in (
        (
            "context_length_exceeded",
            r"max(imum)? context length|prompt (is )?too long|exceeds the context window"
            r"|input tokens exceeded|too many tokens|input token count.{0,40}exceeds"
            r"|ContextWindowExceededError"
            r"|input is too long for requested model"  # Bedrock
            r"|exceed context limit"  # Anthropic, of input and max_tokens together
            r"|maximum prompt length is"  # xAI
            r"|exceeds the available context size|context size has been exceeded"  # llama.cpp
            r"|greater than the context length|context the overflows"  # LM Studio
            r"|exceeds? (the|max) (context|model) length|exceeded max context length"  # Ollama
            r"|exceeded model token limit"  # Kimi
            r"|prompt exceeds max length"  # Z.ai
            r"|context window exceeds limit"  # MiniMax
            r"|longer than the (model's context|maximum model) length"  # SGLang, vLLM
            r"|`?inputs`? tokens \+ `?max_new_tokens`? must be|`inputs` must have less than"  # TGI
            r"|range of input length should be"  # DashScope
            r"|prompt token count of \d{1,12} exceeds the limit"  # GitHub Copilot
            r"|too large for model with"  # Mistral
            r"|reduce the length of the (messages|prompt|input)",  # Groq, Cerebras
        ),
        # LiteLLM sends no code but the status: the names of its exceptions, and Azure's text.
        ("content_filtered", r"ContentPolicyViolationError|content management policy"),
        (
            "upstream_billing",
            r"insufficient (balance|credit|funds|quota)|credit balance is too low",
        ),
        (
            "upstream_auth",
            r"incorrect api key|invalid api key|api key not valid|security token included",
        ),
        (
            "upstream_not_found",
            r"model identifier is invalid|model\b.{0,80}\b(not found|does not exist)"
            r"|invalid model name",
        ),
    )
)
_LIMITED: Final = re.compile(
    r"rate.?limit (is |was |has been )?(reached|exceeded|hit)|exceeded.{0,40}rate.?limit"
    r"|too many requests|throttl(ed|ing)|(requests|tokens) per (minute|day)",
    re.IGNORECASE,
)
"""The texts of rate limits that hosts send as a status of 400 or 500, or as `api_error`."""
_STATUSES: Final = {
    401: "upstream_auth",
    402: "upstream_billing",
    403: "upstream_forbidden",
    404: "upstream_not_found",
    429: "upstream_rate_limited",
    **dict.fromkeys((498, 503, 529), "upstream_overloaded"),
    **dict.fromkeys((408, 504, 522, 524), "upstream_timeout"),
    **dict.fromkeys((409, 424, 425, 499), "upstream_unavailable"),
}

_NAME: Final = re.compile(r"[A-Za-z_][\w.\[\]-]{0,99}", re.ASCII)

_AGAIN: Final = re.compile(r"try again in ((?:[0-9]{1,9}(?:\.[0-9]{1,9})?(?:ms|h|m|s)){1,3})\b")

_SECRETS: Final = re.compile(
    r"(?<=//)[^/\s@]+@"  # credentials in a URL
    r"|\bbearer\s+\S+"
    r"|\b(?:key|token|secret|password|sig|signature)=[^\s&]+"
    r"|\b(?:api[-_ ]?key|secret|password):\s*\S+"
    r"|\b(?:sk|pk|rk|gsk|xai|pplx|nvapi)[-_][\w*-]{6,}"
    r"|\b(?:org|proj|user|acct|key|hf|r8)[-_](?=[\w-]{0,40}\d)[\w-]{5,}"
    r"|\b(?:AIza|AKIA|ASIA|eyJ|ya29\.)[\w.-]{8,}"
    r"|\bprojects/[\w-]+"
    r"|\b\d{12}\b"  # an AWS account
    r"|\b(?=[\w+/]{0,80}\d)[A-Za-z0-9_+/]{32,}={0,2}",
    re.IGNORECASE,
)


def parse_failure(
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    *,
    upstream: str,
    now: float,
    redact: Redact = str,
) -> UpstreamError:
    """Parse an error reply, regardless of its content type.

    `now` is its time of arrival in unix seconds: dates are relative to the reply's own `Date`, else
    to `now`.
    """
    text = body.decode(errors="replace").strip()
    document = decode_or(text, None if text.startswith("<") else text)  # HTML has no error code
    # Bedrock: "ValidationException:http://internal.amazon.com/..."
    kind = next((v for n, v in headers.items() if n.lower() == "x-amzn-errortype"), "")
    kind = kind.partition(":")[0]
    code = _classify(document, status=status, words=[kind])
    limited = code == "upstream_rate_limited" or status == 429
    wait = read_wait(headers, limited=limited, now=now) or _retry_info(document)
    return _error(code, upstream, document, wait=wait, redact=redact)


def parse_error(document: object, *, upstream: str, redact: Redact = str) -> UpstreamError:
    """Parse an error inside a stream: a text, or an object with or without an outer one."""
    code = _classify(document, status=None, words=[])
    return _error(code, upstream, document, wait=_retry_info(document), redact=redact)


def parse_finish_error(raw: str, *, upstream: str) -> UpstreamError:
    """Parse a finish reason of the class "error" without an error object."""
    # Gemini's Chat Completions route: "function_call_filter: MALFORMED_FUNCTION_CALL"
    return parse_error({"error": {"code": raw.rpartition(": ")[2]}}, upstream=upstream)


def _error(
    code: str, upstream: str, document: object, *, wait: float | None, redact: Redact
) -> UpstreamError:
    advice = _ADVICE[code]
    if code == "upstream_rate_limited":
        wait = wait or _wait_in_words(_text(document))
    if wait is not None:  # Codex reads the wait from the message
        advice = advice.replace("try again later", f"try again in {wait:g} s")
    message = f"upstream {upstream!r} {advice}"
    provider_message = _scrub(redact(_text(document)))
    if provider_message and code in _TELLING:
        message = f"{message}: {provider_message}"
    if code not in _NAMING:
        return UpstreamError(code, message, retry_after_s=wait, provider_message=provider_message)
    provider_code, param = (_named(document, key, redact) for key in ("code", "param"))
    return UpstreamError(
        code,
        message,
        retry_after_s=wait,
        provider_code=provider_code,
        param=param,
        provider_message=provider_message,
    )


def _classify(document: object, *, status: int | None, words: list[str]) -> str:
    lower = [word.lower() for word in (*words, *_words(document))]
    if status is None or status < 400:
        status = next((int(w) for w in lower if re.fullmatch("[45][0-9][0-9]", w)), status)
    for code, known in _WORDS:
        if not set(known).isdisjoint(lower):
            return _of_key(code, status)
    text = _text(document)
    if status in (None, 400, 500) and ("429" in lower or _LIMITED.search(text)):
        return "upstream_rate_limited"
    if status != 429:  # a 429 is about tokens per minute, plans or billing
        for code, pattern in _TEXTS:
            if pattern.search(text):
                return _of_key(code, status)
    vague = not _VAGUE_WORDS.isdisjoint(lower)
    if status == 403 and any("reasons" in mapping(e.get("metadata")) for e in _errors(document)):
        return "content_filtered"  # OpenRouter's moderation
    if vague and status in (404, None):  # a wrong path; a wrong model is `model_not_found`
        return "upstream_invalid_request"
    if status in _STATUSES:
        return _STATUSES[status]
    if status is None or status >= 500:
        return "upstream_unavailable"
    return "upstream_invalid_request" if status >= 400 else "upstream_invalid_response"


def _of_key(code: str, status: int | None) -> str:
    """Return the code; 401 and 403 decide between those of a key, since clients compare them."""
    if code in ("upstream_auth", "upstream_forbidden") and status in (401, 403):
        return _STATUSES[status]
    return code


def _errors(document: object) -> Iterator[dict[str, Any]]:
    """Yield the objects that may describe the error, the innermost last."""
    if isinstance(document, list):
        document = next(iter(document), None)
    outer = mapping(document)
    yield outer
    inner = mapping(outer.get("error"))
    yield inner
    yield mapping(inner.get("innererror"))
    yield mapping(outer.get("base_resp"))  # MiniMax
    for choice in mappings(outer.get("choices"))[:1]:
        # Azure refuses with a completion that its filter emptied.
        yield mapping(mapping(choice.get("content_filter_results")).get("error"))
    yield from mappings(inner.get("details"))


def _words(document: object) -> Iterator[str]:
    """Yield every value that can be a code, as text."""
    for error in _errors(document):
        for key in ("code", "type", "status", "error_type", "reason", "status_code"):
            value = error.get(key)
            if isinstance(value, str | int):
                yield str(value)


def _named(document: object, key: str, redact: Redact) -> str | None:
    """Return the first value of a key that looks like a code or a field name."""
    values = (error.get(key) for error in _errors(document))
    names = (v for v in values if isinstance(v, str) and _NAME.fullmatch(v))
    return next((n for n in names if redact(n) == n and not _SECRETS.search(n)), None)


def _text(document: object) -> str:
    """Return the message of an error, "" if there is none."""
    if isinstance(document, str):
        return document[:MAX_READ]
    outer, inner, _, minimax, *_ = _errors(document)
    for error in (inner, outer, minimax):
        for key in ("message", "error", "detail", "msg", "status_msg"):
            value = error.get(key)
            value = mapping(value).get("detail", value)  # Mistral: {"message": {"detail": ...}}
            if found := mappings(value):  # FastAPI: {"detail": [{"loc": ..., "msg": ...}]}
                value = "; ".join(map(_detail, found[:10]))
            if isinstance(value, str) and value.strip():
                return value[:MAX_READ]
    return ""


def _detail(item: dict[str, Any]) -> str:
    loc, text = item.get("loc"), string(item.get("msg"))
    return f"{'.'.join(map(str, loc))}: {text}" if isinstance(loc, list) and text else text


def _scrub(text: str) -> str:
    """Shorten `text` to one line without secrets and names of accounts."""
    line = "".join(c if c.isprintable() else " " for c in well_formed(text[: 4 * MAX_TEXT]))
    line = " ".join(_SECRETS.sub("[removed]", line).split())
    return line if len(line) <= MAX_TEXT else line[: MAX_TEXT - 1] + "…"


def _retry_info(document: object) -> float | None:
    """Parse Gemini's google.rpc.RetryInfo."""
    delays = (string(error.get("retryDelay")) for error in _errors(document))
    return bound_wait(max(map(read_duration, delays)))


def _wait_in_words(text: str) -> float | None:
    """Parse "Please try again in 11.054s" of OpenAI and Groq, also in streams."""
    match = _AGAIN.search(text)
    return bound_wait(read_duration(match[1])) if match else None
