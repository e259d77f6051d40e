"""What a stream's log has of its request, for a relay that goes on with it."""

import json
import re
from typing import Any

import pytest

from app.dialects.client_formats import CLIENT_FORMATS
from app.errors import RequestError
from app.generation.start_options import StartOptions
from app.generation.takeover import pack_request, unpack_request
from app.relay import Relay
from app.requests import ChatRequest, OutputCeiling, UserMessage
from app.settings import SettingsError, load_settings
from app.settings.access import settle_identity
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


ROUTE = '[[route]]\nname = "r"\ntargets = ["demo/demo"]\nrescue = true\ntakeover = true\n'
HOOK = '[[hook]]\ncall = "redact"\n'


@pytest.mark.parametrize(
    ("log", "more", "why"),
    [
        ("memory", "", "the log ends with its process; use --log sqlite:///PATH"),
        ("sqlite:///{folder}/log.db", HOOK, "an answer that hooks check cannot be taken over"),
    ],
)
async def test_what_cannot_be_taken_over_is_refused_at_the_start(tmp_path, log, more, why):
    config = tmp_path / "seseragi.toml"
    config.write_text(f'log = "{log.format(folder=tmp_path)}"\n{ROUTE}{more}')
    settings = settle_identity(load_settings({}, config=str(config))).settings
    with pytest.raises(SettingsError, match=re.escape(f"route 'r'.takeover: {why}")):
        async with Relay.open(settings):
            pass


@pytest.mark.parametrize("packed", [b"", b"\x00", b"\x81\xa4chat\x80", b"\xc1"])
def test_what_is_no_request_is_refused(packed):
    with pytest.raises(ValueError, match=r"."):
        unpack_request(packed)
