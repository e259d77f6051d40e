"""A key of the role `admin`: it reaches the streams of everybody by their ids, and no more."""

from collections.abc import AsyncIterator

import pytest

from app.identity.principal import Principal
from app.testing.upstream import DONE, FINISH, Hold, head, send, serve_upstream, text
from tests.api.asking import Asked, serve_asked
from tests.api.test_ownership_matrix import body_of
from tests.api.test_share import M, start
from tests.serving import HELLO

ADMIN = Principal("ops", key="boss", roles=frozenset({"admin"}))


@pytest.fixture
async def asked() -> AsyncIterator[Asked]:
    async with serve_upstream() as upstream, serve_asked(upstream, default_model=M) as asked:
        upstream.script = [head(), send(text("a")), Hold(), send(FINISH + DONE)]
        asked.keys["boss"] = ADMIN
        yield asked


async def test_admin_reads_stops_and_deletes_by_id(asked):
    stream = (await start(asked)).json()["id"]

    assert 404 == (await asked.by("plain", "GET", f"/v1/streams/{stream}")).status_code
    assert "running" == (await asked.by("boss", "GET", f"/v1/streams/{stream}")).json()["status"]
    stopped = await asked.by("boss", "POST", f"/v1/streams/{stream}/cancel")
    assert "cancelled" == stopped.json()["status"]
    read = await asked.by("boss", "GET", f"/v1/streams/{stream}/events")
    assert '"status":"cancelled"' in read.text
    assert 204 == (await asked.by("boss", "DELETE", f"/v1/streams/{stream}")).status_code
    assert 410 == (await asked.by("boss", "GET", f"/v1/streams/{stream}")).status_code
    assert 404 == (await asked.by("plain", "GET", f"/v1/streams/{stream}")).status_code


async def test_admin_finds_nothing_of_others_by_name(asked):
    reply = await start(asked, path="/v1/responses")
    response = reply.json()["id"]
    body = {"id": "chat-1", "messages": body_of("/v1/ui/chat")["messages"]}
    await asked.by("backend", "POST", "/v1/ui/chat", json=body, headers={"prefer": "respond-async"})

    assert 404 == (await asked.by("boss", "GET", f"/v1/responses/{response}")).status_code
    assert 204 == (await asked.by("boss", "GET", "/v1/ui/chat/chat-1/stream")).status_code
    key = {"idempotency-key": "k", "prefer": "respond-async"}
    own = await asked.by("boss", "POST", "/v1/chat", json=HELLO, headers=key)
    its = await asked.by("backend", "POST", "/v1/chat", json=HELLO, headers=key)
    assert own.json()["id"] != its.json()["id"]


async def test_admin_shares_only_what_is_its_own(asked):
    of_another, own = (await start(asked)).json(), (await start(asked, who="boss")).json()

    refused = await asked.by("boss", "POST", f"/v1/streams/{of_another['id']}/share")
    assert (403, "forbidden") == (refused.status_code, refused.json()["code"])
    assert 200 == (await asked.by("boss", "POST", f"/v1/streams/{own['id']}/share")).status_code


async def test_client_secret_of_an_admin_key_reaches_its_own_alone(asked):
    asked.keys["boss"] = Principal("ops", key="boss", roles=frozenset({"admin", "client_secrets"}))
    stream = (await start(asked)).json()["id"]

    secret = (await asked.by("boss", "POST", "/v1/client_secrets")).json()["value"]
    assert 404 == (await asked.by(secret, "GET", f"/v1/streams/{stream}")).status_code
