"""Parser of clients' Completions requests, whose prompt becomes a user message."""

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from ....errors import RequestError
from ....requests import (
    MAX_TOKENS,
    ChatRequest,
    Linger,
    Penalty,
    UserMessage,
    parse_body,
    parse_fields,
)
from ...client_format import ParsedRequest
from ...openai_chat.client.renderer import USAGE
from ...writing.chat_extras import check_extras

NAME: Final = "openai_completions"


class CompletionsStreamOptions(msgspec.Struct, frozen=True):
    include_usage: bool | None = None


class Request(msgspec.Struct, frozen=True):
    prompt: Annotated[
        Any,
        Meta(
            extra_json_schema={
                "anyOf": [
                    {"type": "string"},
                    {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 1},
                ]
            }
        ),
    ]
    model: str | None = None
    best_of: Annotated[int, Meta(ge=1, le=128)] | None = None
    echo: bool | None = None
    frequency_penalty: Penalty | None = None
    logit_bias: dict[str, float] | None = None
    logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    max_tokens: Annotated[int, Meta(ge=0, le=MAX_TOKENS)] | None = None
    n: Annotated[int, Meta(ge=1, le=128)] | None = None
    presence_penalty: Penalty | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    stream: bool | None = None
    stream_options: CompletionsStreamOptions | None = None
    suffix: str | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    user: str | None = None
    provider_options: dict[str, Any] | None = None
    on_disconnect: Literal["continue", "cancel"] | Linger | None = None


_decoder = msgspec.json.Decoder(Request)


def parse_request(data: bytes) -> ParsedRequest:
    """Parse a request body.

    Raises:
        RequestError: `invalid_request`, with the path and the reason.
    """
    body = parse_body(data, _decoder, example='{"model": "demo", "prompt": "Hi"}')
    _check_supported(body)
    fields = {name: value for name, value in parse_fields(data).items() if value is not None}
    extras = {name: fields[name] for name in fields.keys() - set(Request.__struct_fields__)}
    check_extras(extras)
    if body.logit_bias is not None:
        extras["logit_bias"] = body.logit_bias
    chat = ChatRequest(
        [UserMessage(_prompt(body.prompt))],
        model=body.model,
        stream=body.stream is True,
        max_tokens=body.max_tokens,
        n=body.n,
        temperature=body.temperature,
        top_p=body.top_p,
        frequency_penalty=body.frequency_penalty,
        presence_penalty=body.presence_penalty,
        seed=body.seed,
        stop=body.stop or None,
        logprobs=None if body.logprobs is None else True,
        top_logprobs=body.logprobs or None,
        user=body.user,
        provider_options=body.provider_options,
        on_disconnect=body.on_disconnect,
        extras=extras or None,
    )
    options = body.stream_options
    labels = {USAGE: "1"} if options is not None and options.include_usage else {}
    return ParsedRequest(chat, labels)


def _prompt(prompt: str | list[Any] | None) -> str:
    match prompt:
        case str():
            return prompt
        case [str() as one]:
            return one
        case [str(), *_]:
            reason = f"has {len(prompt)} texts; send one per request"
        case [int() | list(), *_]:
            reason = "token ids are not supported; send text"
        case _:
            reason = "send a text"
    raise RequestError("invalid_request", f"prompt: {reason}")


def _check_supported(body: Request) -> None:
    """Raise for options that chat models do not support."""
    if body.suffix:
        raise RequestError(
            "invalid_request",
            "suffix: not supported by chat models, which only continue the prompt",
        )
    if body.echo:
        raise RequestError("invalid_request", "echo: not supported; prepend the prompt yourself")
    if body.max_tokens == 0:
        raise RequestError(
            "invalid_request", "max_tokens: send 1 or more; prompt tokens are not scored"
        )
    if body.best_of is not None and body.best_of > (body.n or 1):
        raise RequestError(
            "invalid_request",
            f"best_of: {body.best_of} is more than n, {body.n or 1}; all answers are returned",
        )
