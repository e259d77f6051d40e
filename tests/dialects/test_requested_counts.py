"""Numbers by which output is reserved: what is not a readable count never reaches a provider."""

import json

import msgspec
import pytest

from app.dialects.client_formats import CLIENT_FORMATS
from app.dialects.forwarded import CALLS, parse_json
from app.dialects.writing.output_ceiling import bound_output
from app.errors import RequestError
from app.requests import OutputCeiling
from tests.dialects.clients import REQUESTS

pytestmark = pytest.mark.pure

UNREADABLE = ["10", [10], True, 1.5, -1, {"a": 1}, 10**30]

FIELDS = {
    "native": ("n", "max_tokens", "max_completion_tokens"),
    "openai_chat": ("n", "max_tokens", "max_completion_tokens"),
    "openai_completions": ("n", "best_of", "max_tokens"),
    "openai_responses": ("max_output_tokens",),
    "anthropic": ("max_tokens",),
}

IMAGES = next(call for call in CALLS if call.kind == "images")


@pytest.mark.parametrize("value", UNREADABLE, ids=str)
@pytest.mark.parametrize(
    "name", [(one, field) for one, fields in FIELDS.items() for field in fields], ids="-".join
)
def test_a_client_that_sends_no_count_is_told_which_field(name, value):
    client_format, field = name
    body = json.dumps({**REQUESTS[client_format], field: value}).encode()
    with pytest.raises(RequestError) as refused:
        CLIENT_FORMATS[client_format].parse_request(body)

    assert "invalid_request" == refused.value.code
    assert refused.value.message.startswith(f"{field}: ")


@pytest.mark.parametrize("value", [*UNREADABLE, 0, 101, 3.0], ids=str)
@pytest.mark.parametrize(
    "field", ["n", "N", "num_images", "numberOfImages", "sample_count", "batch-size"]
)
def test_a_call_for_images_needs_readable_counts(field, value):
    body = json.dumps({"model": "m", "prompt": "a", field: value}).encode()
    with pytest.raises(RequestError) as refused:
        parse_json(IMAGES, body)

    assert refused.value.message.startswith(f"{field}: ")


def test_a_call_for_images_reserves_each_of_them():
    def reserved(**fields: object) -> int:
        body = msgspec.json.encode({"model": "m", "prompt": "a", **fields})
        return parse_json(IMAGES, body).output_tokens // IMAGES.output_tokens

    assert [1, 1, 10, 4, 5] == [
        reserved(), reserved(n=None), reserved(n=10), reserved(num_images=4, n=2), reserved(N=5, n=1)
    ]  # fmt: skip


@pytest.mark.parametrize("value", [*UNREADABLE[:5], 10**30], ids=str)
@pytest.mark.parametrize("field", ["n", "best_of", "candidateCount", "num_return_sequences"])
def test_a_passed_on_count_that_is_not_reserved_is_refused(field, value):
    for body in ({field: value}, {"options": {field: value}}, {"a": [{field: value}]}):
        with pytest.raises(RequestError, match=field):
            bound_output(body, OutputCeiling(tokens=100, choices=1), field="max_tokens")


@pytest.mark.parametrize("value", UNREADABLE, ids=str)
@pytest.mark.parametrize(
    "field", ["max_tokens", "maxOutputTokens", "max-completion-tokens", "num_predict"]
)
def test_a_passed_on_limit_is_one_that_is_reserved(field, value):
    body = bound_output({field: value}, OutputCeiling(tokens=100, choices=1), field="max_tokens")
    assert {"max_tokens": 100} == body
    nested = bound_output(
        {"a": {field: value}}, OutputCeiling(tokens=100, choices=1), field="max_tokens"
    )
    assert 99 == nested["a"][field]
