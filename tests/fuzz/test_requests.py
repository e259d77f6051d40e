"""Whatever a client posts, it is a request or refused, and costs in proportion to its bytes.

A fixed number of changed bodies of each format, with a fixed seed; `python -m tests.fuzz
requests` looks for more.
"""

import json
import random
from functools import partial

import pytest

from app.dialects.client_format import ParsedRequest
from app.dialects.client_formats import CLIENT_FORMATS
from tests.dialects.cost import count_calls
from tests.fuzz.mutations import mutate
from tests.fuzz.requests_corpus import CHAT, CORPORA, UI
from tests.fuzz.targets.requests import run

pytestmark = pytest.mark.proving

INPUTS = 600
"""Of each format: some 4 s."""

MAX_CALLS = 20_000
MAX_CALLS_PER_BYTE = 25
"""What the cheapest input of a few bytes may cost beside what each byte may."""


def collect(found: list[ParsedRequest | None], client_format: str, body: bytes) -> None:
    found.append(run(client_format, body))


@pytest.mark.parametrize("client_format", CLIENT_FORMATS)
def test_a_body_is_a_request_or_refused(client_format: str) -> None:
    taken = refused = 0
    dice = random.Random(client_format)
    for number in range(INPUTS):
        body = mutate(CORPORA[client_format], dice)
        found: list[ParsedRequest | None] = []
        try:
            calls = count_calls(partial(collect, found, client_format, body))
            assert calls < MAX_CALLS + MAX_CALLS_PER_BYTE * len(body)
        except BaseException as error:
            error.add_note(f"{client_format}, input {number}: {body[:3000]!r}")
            raise
        taken += found[0] is not None
        refused += found[0] is None
    assert taken > 20 < refused, (taken, refused)  # or nothing is tested


def test_the_corpus_is_taken() -> None:
    assert CORPORA.keys() == CLIENT_FORMATS.keys()
    for client_format, corpus in CORPORA.items():
        for document in corpus:
            assert run(client_format, json.dumps(document).encode()) is not None


def test_a_seed_gives_the_same_inputs() -> None:
    first, again = random.Random(1), random.Random(1)
    for _ in range(50):
        assert mutate([CHAT, UI], first) == mutate([CHAT, UI], again)
