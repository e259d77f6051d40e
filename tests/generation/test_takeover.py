"""What a stream's log has of its request, for a relay that goes on with it."""

import json
import re
from types import SimpleNamespace
from typing import Any

import pytest

from app.dialects.client_formats import CLIENT_FORMATS
from app.errors import RequestError, ServiceError
from app.eventlog.stream_info import StreamInfo
from app.eventlog.takeover import Orphan
from app.events import Event, StreamStart
from app.generation.run import TAKEN_OVER
from app.generation.shutdown import Shutdown
from app.generation.start_options import StartOptions
from app.generation.takeover import (
    MOST_BYTES,
    MOST_TAKEOVERS,
    Takeovers,
    pack_request,
    unpack_request,
)
from app.policies.admission import Admission, Shares
from app.policies.deadlines import Limits
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


def takeovers(*, draining: bool = False, streams: int = 0) -> Takeovers:
    """Return those of a relay that can only refuse."""
    clock = SimpleNamespace(wall=lambda: 1000.0)
    admission = Admission(Shares(), max_streams=1, clock=lambda: 0.0)
    admission.streams = streams
    parts = SimpleNamespace(clock=clock, limits=Limits(), admission=admission)
    shutdown = Shutdown(lambda: False)
    shutdown.draining = draining
    return Takeovers(parts, None, shutdown)  # type: ignore[arg-type]


def orphan(*, age_s: float = 10, count: int = 0) -> Orphan:
    events: list[Event] = [StreamStart("st_1", "r", created=1), *[TAKEN_OVER] * count]
    return Orphan(StreamInfo("st_1", takeover=b"?"), events, 1000.0 - age_s)


@pytest.mark.parametrize("busy", [{"draining": True}, {"streams": 1}])
def test_a_relay_that_cannot_now_leaves_an_orphan_to_others(busy):
    with pytest.raises(ServiceError) as raised:
        takeovers(**busy).heir(orphan())

    assert "overloaded" == raised.value.code


@pytest.mark.parametrize(
    "left", [orphan(age_s=1800), orphan(count=MOST_TAKEOVERS), orphan(count=MOST_TAKEOVERS - 1)]
)
def test_an_orphan_that_is_old_or_was_taken_over_too_often_is_ended(left):
    assert None is takeovers().heir(left)  # the last one's request cannot be read


def test_a_large_request_is_not_stored():
    chat = ChatRequest(messages=[UserMessage("x" * MOST_BYTES)])

    assert b"" == pack_request(chat, StartOptions(linger_s=None))
