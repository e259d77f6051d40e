"""What a stream's log has of its request, for a relay that goes on with it."""

import json
from typing import Any

import pytest

from app.dialects.client_formats import CLIENT_FORMATS
from app.errors import RequestError
from app.generation.start_options import StartOptions
from app.generation.takeover import pack_request, unpack_request
from app.requests import ChatRequest, OutputCeiling, UserMessage
from app.upstreams.request_builder import RequestBuilder
from tests.dialects.clients import REQUESTS
from tests.dialects.test_carried_requests import FEATURES, UPSTREAMS, upstreams

pytestmark = pytest.mark.pure

BODIES: list[tuple[str, str, dict[str, Any]]] = [
    *((client, name, body) for client, found in FEATURES.items() for name, body in found.items()),
    *((client, "the usual one", body) for client, body in REQUESTS.items()),
]


def sent(chat: ChatRequest, dialect: str) -> object:
    try:
        return RequestBuilder(upstreams()[dialect], "m").build(chat, last=True)
    except RequestError as error:
        return str(error)


@pytest.mark.parametrize(("client", "name", "body"), BODIES)
def test_a_request_is_sent_as_it_was_by_the_relay_that_died(client, name, body):
    try:
        chat = CLIENT_FORMATS[client].parse_request(json.dumps(body).encode()).chat
    except RequestError:
        return  # it starts no stream
    kept = unpack_request(pack_request(chat, StartOptions(linger_s=None))).chat

    assert chat == kept
    assert chat.is_plain == kept.is_plain
    for dialect in UPSTREAMS:
        assert sent(chat, dialect) == sent(kept, dialect)


def test_options_and_the_ceiling_are_kept():
    chat = ChatRequest(
        messages=[UserMessage("Hi")], ceiling=OutputCeiling(9, 2, explicit=False, lowered=True)
    )
    options = StartOptions(linger_s=5.0, headers={"a": "b"}, metadata={"c": "d"})
    kept = unpack_request(pack_request(chat, options))

    assert chat.ceiling == kept.chat.ceiling
    assert (5.0, {"a": "b"}, {"c": "d"}) == (kept.linger_s, kept.headers, kept.metadata)


@pytest.mark.parametrize("packed", [b"", b"\x00", b"\x81\xa4chat\x80", b"\xc1"])
def test_what_is_no_request_is_refused(packed):
    with pytest.raises(ValueError, match=r"."):
        unpack_request(packed)
