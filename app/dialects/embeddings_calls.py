"""Embeddings: OpenAI's request and response, and what the calls of formats share. No I/O."""

import base64
import binascii
import sys
from array import array
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta, Raw

from ..errors import RequestError
from ..requests import convert_body, parse_body, parse_part
from .reading.billing import parse_cost
from .reading.json_values import count, decode, mapping, short
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

_EXAMPLE: Final = '{"model": "text-embedding-3-small", "input": "Hi"}'


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


class EmbeddingsCall(NamedTuple):
    """An embeddings call of an upstream format."""

    path: str
    """The path after the base URL, which may contain `MODEL`."""
    render: Callable[..., dict[str, Any]]
    """(request, inputs, *, model, dimensions_field) to the body of the call."""
    parse: Callable[[bytes], Parsed]
    """Parses the answer. Raises MsgspecError: the body is invalid."""
    most: int = MAX_INPUTS
    """The maximum number of inputs in one call."""
    takes_tokens: bool = False
    fields: Mapping[str, str] | None = MappingProxyType({})
    """The provider's names of `dimensions` and the supported `extras`; None for any extras."""
    model: str = ""
    """A part of the names of the models that it is for."""
    base_url: str = ""
    """A part of the base URLs that it is for."""

    def is_for(self, model: str, base_url: str) -> bool:
        """Return whether a model of an upstream has this call."""
        return self.model in model and self.base_url in base_url


def rename(request: Request, fields: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields that a request sets, by the provider's names."""
    values = {"dimensions": request.dimensions, **request.extras}
    return {name: values[field] for field, name in fields.items() if values.get(field) is not None}


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
    return {
        "input": request.input,
        **rename(request, {"dimensions": dimensions_field}),
        "encoding_format": "base64" if request.base64 else "float",
        **({} if request.user is None else {"user": request.user}),
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


OPENAI: Final = (
    EmbeddingsCall("embeddings", _render_openai, _parse_openai, takes_tokens=True, fields=None),
)


# Cohere, at its own API and through Bedrock.

COHERE_FIELDS: Final = {
    "dimensions": "output_dimension",
    "input_type": "input_type",
    "truncate": "truncate",
}


class _CohereVectors(msgspec.Struct):
    float: list[Raw]


class _CohereAnswer(msgspec.Struct):
    embeddings: _CohereVectors
    meta: Any = None


_cohere = msgspec.json.Decoder(_CohereAnswer)


def render_cohere(request: Request, inputs: Sequence[str], **_: object) -> dict[str, Any]:
    return {
        "texts": inputs,
        **rename(request, COHERE_FIELDS),
        # Cohere requires `input_type`; OpenAI's request has no such field.
        "input_type": request.extras.get("input_type") or "search_document",
        **request.provider_options,
        "embedding_types": ["float"],
    }


def parse_cohere(body: bytes) -> Parsed:
    answer = _cohere.decode(body)
    billed = mapping(mapping(answer.meta).get("billed_units"))
    return Parsed(answer.embeddings.float, count(billed.get("input_tokens")))


# Amazon Bedrock: Cohere's models and Amazon's own, in each of its formats.

_INVOKE: Final = "model/{model}/invoke"
_TITAN_FIELDS: Final = {"dimensions": "dimensions", "normalize": "normalize"}


class _TitanAnswer(msgspec.Struct, rename="camel"):
    embedding: Raw
    input_text_token_count: Any = None


_titan = msgspec.json.Decoder(_TitanAnswer)


def _render_titan(request: Request, inputs: Sequence[str], **_: object) -> dict[str, Any]:
    return {"inputText": inputs[0], **rename(request, _TITAN_FIELDS), **request.provider_options}


def _parse_titan(body: bytes) -> Parsed:
    answer = _titan.decode(body)
    return Parsed([answer.embedding], count(answer.input_text_token_count))


BEDROCK: Final = (
    EmbeddingsCall(
        _INVOKE, render_cohere, parse_cohere, most=96, fields=COHERE_FIELDS, model="cohere.embed"
    ),
    EmbeddingsCall(
        _INVOKE, _render_titan, _parse_titan, most=1, fields=_TITAN_FIELDS, model="titan-embed"
    ),
)


def add_counts(counts: Sequence[int | None]) -> int | None:
    """Return the sum of counts; None if one is unknown."""
    known = [one for one in counts if one is not None]
    return sum(known) if len(known) == len(counts) else None


def join(parts: Sequence[Parsed]) -> Parsed:
    """Join the answers of several calls."""
    vectors = [vector for part in parts for vector in part.vectors]
    return Parsed(vectors, add_counts([part.tokens for part in parts]), parts[0].model)


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


_NUMBERS: Final = b"0123456789+-.eE, \t\r\n[]"

_numbers = msgspec.json.Decoder(list[float])


def as_numbers(vector: bytes) -> bytes:
    """Return a vector as a list of numbers.

    Raises:
        ValueError: it is not a vector.
    """
    if vector[:1] == b"[":
        if vector.count(b"[") > 1 or vector.translate(None, _NUMBERS):
            raise ValueError("not numbers")
        return vector
    return msgspec.json.encode(_read_base64(vector).tolist())


def as_base64(vector: bytes) -> bytes:
    """Return a vector as a JSON string: base64 of little-endian float32.

    Raises:
        ValueError: it is not a vector.
    """
    if vector[:1] != b"[":
        _read_base64(vector)
        return vector
    try:
        numbers = array("f", _numbers.decode(vector))
    except (msgspec.MsgspecError, OverflowError):
        raise ValueError("not numbers") from None
    if sys.byteorder == "big":
        numbers.byteswap()
    return b'"%b"' % base64.b64encode(numbers.tobytes())


def _read_base64(text: bytes) -> "array[float]":
    numbers = array("f")
    try:
        data = base64.b64decode(text.strip(b'"'), validate=True)
    except binascii.Error:
        raise ValueError("not base64") from None
    if len(data) % numbers.itemsize or not text.startswith(b'"'):
        raise ValueError("not a list of numbers")
    numbers.frombytes(data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
