"""Requests of clients in all formats: a request or refused, and so is the body for each provider."""

import contextlib
import json
from random import Random
from typing import Any

import msgspec

from app.dialects.client_format import ParsedRequest
from app.dialects.client_formats import CLIENT_FORMATS
from app.dialects.upstream_formats import UPSTREAM_FORMATS
from app.errors import CODES, RelayError, RequestError
from tests.dialects.request_shapes import BUILDERS
from tests.fuzz.mutations import RAW, mutate
from tests.fuzz.requests_corpus import CORPORA, MODELS
from tests.fuzz.target import Target

FORMATS = [*CLIENT_FORMATS]


def check(data: bytes) -> None:
    if data:
        run(FORMATS[data[0] % len(FORMATS)], data[1:])


def run(client_format: str, body: bytes) -> ParsedRequest | None:
    """Read a body and build what every provider is sent; None if it is refused."""
    try:
        asked = CLIENT_FORMATS[client_format].parse_request(body)
    except RequestError as error:
        refused = error
    else:
        assert isinstance(asked, ParsedRequest)
        msgspec.json.encode(asked.labels)
        assert asked.name is None or asked.name.encode()
        for number, (dialect, quirks) in enumerate(BUILDERS.values()):
            build(asked, dialect, quirks, model=MODELS[number % len(MODELS)])
        return asked
    check_message(refused)
    assert "invalid_request" == refused.code
    assert CLIENT_FORMATS[client_format].render_failure(refused, "req_1").body.decode()
    return None


def build(asked: ParsedRequest, dialect: str, quirks: Any, *, model: str) -> None:
    """Build what a provider is sent; nothing else than a refusal may come of it."""
    client_body = asked.chat.client_body
    refused = None
    try:
        body = UPSTREAM_FORMATS[dialect].render_request(asked.chat, model=model, quirks=quirks).body
    except RelayError as error:
        refused = error
    else:
        assert isinstance(msgspec.json.decode(msgspec.json.encode(body)), dict)
    if refused is not None:
        check_message(refused)
    if client_body is not None:
        passthrough = UPSTREAM_FORMATS[dialect].passthrough.get(client_body.client_format)
        if passthrough is not None:
            msgspec.json.encode(passthrough.pass_on(client_body).body)


def check_message(error: RelayError) -> None:
    assert error.code in CODES
    assert 0 < len(error.message) < 1000
    assert error.message.encode()


def change(data: bytes, dice: Random) -> bytes:
    at = data[0] % len(FORMATS) if data else dice.randrange(len(FORMATS))
    corpus = list(CORPORA[FORMATS[at]])
    with contextlib.suppress(ValueError, RecursionError):
        corpus.append(json.loads(data[1:]))
    return bytes((at,)) + mutate(corpus, dice)


TARGET = Target(
    check,
    seeds=[
        bytes((FORMATS.index(name),)) + json.dumps(document).encode()
        for name, corpus in CORPORA.items()
        for document in corpus
    ],
    tokens=RAW,
    mutate=change,
    costly=True,
)
