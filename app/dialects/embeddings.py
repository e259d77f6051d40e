"""Embeddings: OpenAI's request and response, and those of the upstream formats. No I/O."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta, Raw

from ..errors import RequestError
from ..requests import convert_body, parse_body, parse_part
from .reading.billing import parse_cost
from .reading.json_values import count, decode, mapping, short
from .writing.token_counts import GOOGLES
from .writing.token_estimate import estimate_text

MAX_INPUTS: Final = 2048
"""OpenAI's own limit."""
MAX_VALUES: Final = 400_000
"""Values in a request: OpenAI accepts 300,000 tokens, each perhaps a value."""

SAFE: Final = frozenset(
    (
        "input_type",
        "task",
        "task_type",
        "title",
        "instruction",
        "prompt_name",
        "truncate",
        "truncation",
        "truncate_prompt_tokens",
        "normalize",
        "late_chunking",
        "dimensions",
        "output_dimension",
        "output_dimensionality",
    )
)
"""Provider-specific fields that only affect the vectors: clients may always set them."""

_EXAMPLE: Final = '{"model": "demo-embedding", "input": "Hi"}'


class Request(msgspec.Struct, frozen=True):
    """A client's request, parsed."""

    model: str | None
    input: Raw
    """The client's own JSON."""
    inputs: Sequence[str | list[int]]
    dimensions: int | None = None
    base64: bool = False
    user: str | None = None
    extras: Mapping[str, Any] = {}
    """Fields that OpenAI's request lacks."""
    provider_options: Mapping[str, Any] = {}

    @property
    def texts(self) -> bool:
        """Whether the inputs are texts; else they are tokens."""
        return isinstance(self.inputs[0], str)


_TEXTS: Final = {"type": "array", "items": {"type": "string"}, "minItems": 1}
_TOKENS: Final = {"type": "array", "items": {"type": "integer"}, "minItems": 1}
_INPUT: Final = {
    "anyOf": [
        {"type": "string"},
        {**_TEXTS, "maxItems": MAX_INPUTS},
        _TOKENS,
        {"type": "array", "items": _TOKENS, "minItems": 1, "maxItems": MAX_INPUTS},
    ]
}


class EmbeddingsRequest(msgspec.Struct, frozen=True):
    input: Annotated[Raw, Meta(extra_json_schema=_INPUT)]
    model: str | None = None
    dimensions: Annotated[int, Meta(ge=1, le=65_536)] | None = None
    encoding_format: Literal["float", "base64"] | None = None
    user: str | None = None
    provider_options: dict[str, Any] | None = None


_decoder = msgspec.json.Decoder(EmbeddingsRequest)
_raw_fields = msgspec.json.Decoder(dict[str, Raw])


def parse_request(body: bytes) -> Request:
    """Parse a request.

    Raises:
        RequestError: `invalid_request`, with the path and the reason.
    """
    parsed = parse_body(body, _decoder, example=_EXAMPLE, max_values=MAX_VALUES)
    fields = parse_body(body, _raw_fields, example=_EXAMPLE, max_values=MAX_VALUES)
    rest = {
        name: parse_part(raw, path=name[:80])
        for name, raw in fields.items()
        if name not in EmbeddingsRequest.__struct_fields__
    }
    return Request(
        parsed.model,
        parsed.input.copy(),
        _inputs(bytes(parsed.input)),
        dimensions=parsed.dimensions,
        base64=parsed.encoding_format == "base64",
        user=parsed.user,
        extras={name: value for name, value in rest.items() if value is not None},
        provider_options=parsed.provider_options or {},
    )


def _inputs(raw: bytes) -> Sequence[str | list[int]]:
    """Parse one or several inputs, each a text or a list of tokens."""
    kind: Any = str
    if raw[:1] == b"[":
        match raw[1:].lstrip()[:1]:
            case b'"':
                kind = list[str]
            case b"[":
                kind = list[list[int]]
            case b"]":
                raise RequestError("invalid_request", "input: empty; send a text")
            case _:
                kind = list[int]
    value = convert_body(parse_part(Raw(raw), path="input"), kind, path="input")
    inputs = [value] if kind in (str, list[int]) else value
    if len(inputs) > MAX_INPUTS:
        raise RequestError(
            "invalid_request", f"input: {len(inputs)} texts; send at most {MAX_INPUTS}"
        )
    return inputs


def estimate(inputs: Sequence[str | list[int]]) -> int:
    """Estimate the tokens of inputs."""
    return sum(len(one) if isinstance(one, list) else estimate_text(one) for one in inputs)


class Parsed(NamedTuple):
    """The answer to one call."""

    vectors: Sequence[Raw]
    tokens: int | None = None
    model: str | None = None
    cost: str | None = None
    """In USD, as the provider reports it."""


class Format(NamedTuple):
    """The embeddings call of one upstream format."""

    path: str
    """The path after the base URL, which may contain `MODEL`."""
    render: Callable[..., dict[str, Any]]
    """(request, inputs, *, model, dimensions_field) to the body of the call."""
    parse: Callable[[bytes], Parsed]
    """Parses the answer. Raises MsgspecError: the body is invalid."""
    most: int = MAX_INPUTS
    """The maximum number of inputs in one call."""
    takes_tokens: bool = False
    fields: frozenset[str] | None = frozenset()
    """The supported `extras` of a request; None for any."""


def format_of(dialect: str, *, model: str, base_url: str) -> Format | None:
    """Return the embeddings call for a model; None if the dialect has none."""
    match dialect:
        case "openai_chat" | "openai_responses":
            return _OPENAI
        case "gemini" | "gemini_interactions":
            return _VERTEX if GOOGLES in base_url else _GEMINI
        case "cohere":
            return _COHERE
        case "ollama":
            return _OLLAMA
        case "bedrock_converse" | "bedrock_anthropic" if "cohere.embed" in model:
            return _BEDROCK_COHERE
        case "bedrock_converse" | "bedrock_anthropic" if "titan-embed" in model:
            return _TITAN
        case _:
            return None


def _set(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


# OpenAI and compatible providers.


class _OpenAIRow(msgspec.Struct):
    embedding: Raw
    index: int | None = None


class _OpenAIAnswer(msgspec.Struct):
    data: list[_OpenAIRow]
    model: Any = None
    usage: Raw = Raw(b"null")


_openai = msgspec.json.Decoder(_OpenAIAnswer)


def _render_openai(
    request: Request, inputs: object, *, model: str, dimensions_field: str = "dimensions"
) -> dict[str, Any]:
    dimensions = {} if request.dimensions is None else {dimensions_field: request.dimensions}
    return {
        "input": request.input,
        **dimensions,
        "encoding_format": "base64" if request.base64 else "float",
        **_set(user=request.user),
        **request.extras,
        **request.provider_options,
        "model": model,
    }


def _parse_openai(body: bytes) -> Parsed:
    answer = _openai.decode(body)
    rows = answer.data
    if all(row.index is not None for row in rows):
        rows = sorted(rows, key=lambda row: row.index or 0)
    usage = _read(answer.usage)
    tokens = count(usage.get("prompt_tokens"))
    tokens = count(usage.get("total_tokens")) if tokens is None else tokens
    vectors = [row.embedding for row in rows]
    return Parsed(vectors, tokens, model=short(answer.model), cost=parse_cost(usage))


def _read(usage: Raw) -> dict[str, Any]:
    """Parse the usage leniently: the vectors are already paid for."""
    try:
        return mapping(decode(bytes(usage).decode()))
    except ValueError:
        return {}


_OPENAI: Final = Format("embeddings", _render_openai, _parse_openai, takes_tokens=True, fields=None)


# Google's API, and Vertex AI's for the same models.


class _Values(msgspec.Struct):
    values: Raw


class _GeminiAnswer(msgspec.Struct, rename="camel"):
    embeddings: list[_Values]
    usage_metadata: Any = None


_gemini = msgspec.json.Decoder(_GeminiAnswer)


def _render_gemini(
    request: Request, inputs: Sequence[str], *, model: str, **_: object
) -> dict[str, Any]:
    shared = {
        "model": f"models/{model}",
        **_set(
            outputDimensionality=request.dimensions,
            taskType=request.extras.get("task_type"),
            title=request.extras.get("title"),
        ),
        **request.provider_options,
    }
    return {"requests": [{**shared, "content": {"parts": [{"text": text}]}} for text in inputs]}


def _parse_gemini(body: bytes) -> Parsed:
    answer = _gemini.decode(body)
    usage = mapping(answer.usage_metadata)
    return Parsed([row.values for row in answer.embeddings], count(usage.get("promptTokenCount")))


_GEMINI: Final = Format(
    "models/{model}:batchEmbedContents",
    _render_gemini,
    _parse_gemini,
    most=100,
    fields=frozenset(("task_type", "title")),
)


class _Embeddings(msgspec.Struct):
    values: Raw
    statistics: Any = None


class _Prediction(msgspec.Struct):
    embeddings: _Embeddings


class _VertexAnswer(msgspec.Struct):
    predictions: list[_Prediction]


_vertex = msgspec.json.Decoder(_VertexAnswer)


def _render_vertex(
    request: Request, inputs: Sequence[str], *, model: str, **_: object
) -> dict[str, Any]:
    extras = request.extras
    about = _set(task_type=extras.get("task_type"), title=extras.get("title"))
    parameters = {**_set(outputDimensionality=request.dimensions), **request.provider_options}
    instances = [{"content": text, **about} for text in inputs]
    return {"instances": instances, **({"parameters": parameters} if parameters else {})}


def _parse_vertex(body: bytes) -> Parsed:
    rows = [one.embeddings for one in _vertex.decode(body).predictions]
    tokens = [count(mapping(row.statistics).get("token_count")) for row in rows]
    return Parsed([row.values for row in rows], _sum(tokens))


_VERTEX: Final = Format(
    "models/{model}:predict",
    _render_vertex,
    _parse_vertex,
    most=1,  # the limit of gemini-embedding-001
    fields=frozenset(("task_type", "title")),
)


# Cohere, at its own API and through Bedrock.


class _CohereVectors(msgspec.Struct):
    float: list[Raw]


class _CohereAnswer(msgspec.Struct):
    embeddings: _CohereVectors
    meta: Any = None


_cohere = msgspec.json.Decoder(_CohereAnswer)


def _render_cohere(
    request: Request, inputs: Sequence[str], *, model: str, **_: object
) -> dict[str, Any]:
    return {**_render_bedrock_cohere(request, inputs), "model": model}


def _render_bedrock_cohere(request: Request, inputs: Sequence[str], **_: object) -> dict[str, Any]:
    return {
        "texts": inputs,
        # Required there, and unknown from OpenAI's request.
        "input_type": request.extras.get("input_type") or "search_document",
        **_set(output_dimension=request.dimensions, truncate=request.extras.get("truncate")),
        **request.provider_options,
        "embedding_types": ["float"],
    }


def _parse_cohere(body: bytes) -> Parsed:
    answer = _cohere.decode(body)
    billed = mapping(mapping(answer.meta).get("billed_units"))
    return Parsed(answer.embeddings.float, count(billed.get("input_tokens")))


_COHERE_FIELDS: Final = frozenset(("input_type", "truncate"))
_COHERE: Final = Format("v2/embed", _render_cohere, _parse_cohere, most=96, fields=_COHERE_FIELDS)
_BEDROCK_COHERE: Final = Format(
    "model/{model}/invoke", _render_bedrock_cohere, _parse_cohere, most=96, fields=_COHERE_FIELDS
)


# Amazon's own.


class _TitanAnswer(msgspec.Struct, rename="camel"):
    embedding: Raw
    input_text_token_count: Any = None


_titan = msgspec.json.Decoder(_TitanAnswer)


def _render_titan(request: Request, inputs: Sequence[str], **_: object) -> dict[str, Any]:
    more = _set(dimensions=request.dimensions, normalize=request.extras.get("normalize"))
    return {"inputText": inputs[0], **more, **request.provider_options}


def _parse_titan(body: bytes) -> Parsed:
    answer = _titan.decode(body)
    return Parsed([answer.embedding], count(answer.input_text_token_count))


_TITAN: Final = Format(
    "model/{model}/invoke",
    _render_titan,
    _parse_titan,
    most=1,
    fields=frozenset(("normalize",)),
)


# Ollama.


class _OllamaAnswer(msgspec.Struct):
    embeddings: list[Raw]
    prompt_eval_count: Any = None
    model: Any = None


_ollama = msgspec.json.Decoder(_OllamaAnswer)


def _render_ollama(
    request: Request, inputs: Sequence[str], *, model: str, **_: object
) -> dict[str, Any]:
    more = _set(dimensions=request.dimensions, truncate=request.extras.get("truncate"))
    return {"input": inputs, **more, **request.provider_options, "model": model}


def _parse_ollama(body: bytes) -> Parsed:
    answer = _ollama.decode(body)
    return Parsed(answer.embeddings, count(answer.prompt_eval_count), short(answer.model))


_OLLAMA: Final = Format("api/embed", _render_ollama, _parse_ollama, fields=frozenset(("truncate",)))


def _sum(counts: Sequence[int | None]) -> int | None:
    """Return the sum of counts; None if one is unknown."""
    known = [one for one in counts if one is not None]
    return sum(known) if len(known) == len(counts) else None


def join(parts: Sequence[Parsed]) -> Parsed:
    """Join the answers of several calls."""
    vectors = [vector for part in parts for vector in part.vectors]
    return Parsed(vectors, _sum([part.tokens for part in parts]), parts[0].model)


def render_answer(vectors: Sequence[bytes], *, model: str, tokens: int) -> dict[str, Any]:
    """Return the body of OpenAI's response."""
    return {
        "object": "list",
        "data": [
            {"object": "embedding", "index": index, "embedding": Raw(vector)}
            for index, vector in enumerate(vectors)
        ],
        "model": model,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }
