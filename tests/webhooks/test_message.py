"""The messages of webhooks: signatures, bodies, pauses, and what a log stores of them."""

import base64
import json
import time

import msgspec
import pytest

from app.telemetry.row import StreamRow, pack_row
from app.webhooks import message
from app.webhooks.message import (
    PAUSES_S,
    Delivery,
    build_body,
    pack_delivery,
    pause_after,
    sign,
    unpack_delivery,
)
from tests.webhooks.receiver import KEYS, SECRETS

pytestmark = pytest.mark.pure

ROW = StreamRow(stream="st_1", tenant="acme", started_at=1.0, ended_at=2.5, status="completed")


def test_signature_is_that_of_the_published_example(monkeypatch):
    """The example of the libraries of Standard Webhooks."""
    key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    body, at = b'{"test": 2432232314}', 1614265330
    monkeypatch.setattr(message, "ID", "msg_%s")
    signed = sign("p5jXN8AQM9LWM0D4loKWxJek", body, secrets=[key], at=at)

    assert {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    } == signed


def test_official_library_accepts_the_signature_of_each_secret():
    webhooks = pytest.importorskip("standardwebhooks")
    body = build_body(ROW, '{"messages":[{"content":"せせらぎ"}]}')
    headers = sign("st_1", body, secrets=KEYS, at=int(time.time()))
    for secret in SECRETS:
        assert "stream.ended" == webhooks.Webhook(secret).verify(body, headers)["type"]
    other = webhooks.Webhook(base64.b64encode(b"x" * 32).decode())
    with pytest.raises(webhooks.WebhookVerificationError):
        other.verify(body, headers)
    with pytest.raises(webhooks.WebhookVerificationError):
        webhooks.Webhook(SECRETS[0]).verify(body + b" ", headers)


def test_body_has_the_fields_of_a_record():
    found = json.loads(build_body(ROW, '{"answer": []}'))

    assert ("stream.ended", "1970-01-01T00:00:02.500000Z") == (found["type"], found["timestamp"])
    assert {*StreamRow.__struct_fields__} == found["data"].keys()
    assert ("acme", {"answer": []}) == (found["data"]["tenant"], found["data"]["content"])
    assert json.loads(build_body(ROW, None))["data"]["content"] is None


def test_pauses_grow_up_to_a_day_and_end():
    pauses = [pause_after(n, chance=0.5, wait_s=None) for n in range(1, len(PAUSES_S) + 2)]

    assert [5, 30, 120] == pauses[:3]
    assert pauses[-1] is None
    assert 23 * 3600 < sum(PAUSES_S) <= 24 * 3600
    assert [4, 6] == [pause_after(1, chance=chance, wait_s=None) for chance in (0, 1)]


def test_endpoint_can_ask_for_a_longer_pause_but_not_for_any():
    assert 100 == pause_after(1, chance=0.5, wait_s=100)
    assert 30 == pause_after(2, chance=0.5, wait_s=1)
    assert PAUSES_S[-1] == pause_after(1, chance=0.5, wait_s=10**9)


def test_delivery_is_read_as_a_settlement_stored_it_and_as_it_was_put_back():
    assert Delivery(0, ROW) == unpack_delivery(pack_row(ROW))
    assert Delivery(3, ROW) == unpack_delivery(pack_delivery(Delivery(3, ROW)))
    for broken in (b"", b"\xc0", b"row"):
        with pytest.raises(msgspec.MsgspecError):
            unpack_delivery(broken)
