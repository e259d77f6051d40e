"""URLs that work without a header: of a stream that was started, and of one that is shared."""

import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from app.dialects.client_formats import CLIENT_FORMATS
from app.framing.sse import Message
from app.identity.principal import ANYONE, Principal
from app.testing.upstream import DONE, FINISH, Hold, head, send, serve_upstream, text
from tests.api.asking import Asked, serve_asked
from tests.api.bodies import body_of
from tests.api.test_ownership_matrix import STARTS
from tests.clock import Clock
from tests.serving import HELLO, events_of, read_messages, serve_script, text_of
from tests.waiting import until

M = "openai/m"
SAID = [head(), *(send(text(one)) for one in "abcd"), send(FINISH + DONE)]


@pytest.fixture
async def asked() -> AsyncIterator[Asked]:
    async with (
        serve_upstream() as upstream,
        serve_asked(upstream, default_model=M, total_timeout_s=100, retention_s=50) as asked,
    ):
        upstream.script = SAID
        yield asked


async def start(asked: Asked, *, who: str = "backend", path: str = "/v1/chat") -> httpx2.Response:
    body = HELLO if path == "/v1/chat" else body_of(path)
    reply = await asked.by(who, "POST", path, json=body, headers={"prefer": "respond-async"})
    assert 202 == reply.status_code, reply.text
    return reply


async def share(asked: Asked, stream: str, *, who: str = "backend", **body: Any) -> dict[str, Any]:
    reply = await asked.by(who, "POST", f"/v1/streams/{stream}/share", json=body)
    assert 200 == reply.status_code, reply.text
    assert "no-store" == reply.headers["cache-control"]
    made: dict[str, Any] = reply.json()
    return made


async def read(asked: Asked, url: str, **headers: str) -> list[Message]:
    """Read as an EventSource does: a URL, and no header but `Last-Event-ID`."""
    headers = {"accept": "text/event-stream", **headers}
    async with asked.relay.client.stream("GET", url, headers=headers) as reply:
        assert 200 == reply.status_code, await reply.aread()
        return await read_messages(reply)


def token_of(url: str) -> str:
    (token,) = parse_qs(urlsplit(url).query)["token"]
    return token


# Of a stream that was started


@pytest.mark.parametrize("path", sorted(STARTS))
async def test_started_stream_is_read_and_stopped_by_its_urls_alone(asked, path):
    reply = await start(asked, path=path)
    accepted = reply.json()

    assert "abcd" == text_of(events_of(await read(asked, accepted["events_url"])))
    beacon = {"content-type": "text/plain;charset=UTF-8"}
    stopped = await asked.by("", "POST", accepted["cancel_url"], content="", headers=beacon)
    assert 202 == stopped.status_code
    for path in (accepted["url"], f"{accepted['url']}/events"):
        assert 401 == (await asked.by("", "GET", path)).status_code


async def test_each_url_has_a_token_for_what_it_does_and_headers_have_none(asked):
    reply = await start(asked)
    accepted = reply.json()
    for name, may in (("events_url", "read"), ("cancel_url", "stop")):
        shown = await asked.tokens.verify(token_of(accepted[name]))

        assert (accepted["id"], may) == (shown.stream, shown.may)
        assert asked.keys["backend"].owner == shown.owner
        assert abs(time.time() + 150 - shown.expires_at) < 30
    assert "?" not in accepted["url"]
    assert "token" not in str(reply.headers)


async def test_cursors_and_formats_go_with_the_token(asked):
    accepted = (await start(asked)).json()
    url = accepted["events_url"]
    whole = await read(asked, url)
    for rest in (
        await read(asked, url, **{"last-event-id": whole[3].id}),
        await read(asked, f"{url}&after={whole[3].id}"),
        await read(asked, f"{url}&lastEventId={whole[3].id}"),
    ):
        assert whole[4:] == rest
    end = await asked.by("", "GET", url, headers={"last-event-id": whole[-1].id})
    assert 204 == end.status_code
    for name in CLIENT_FORMATS:
        mine = await asked.by("backend", "GET", f"{accepted['url']}/events?format={name}")
        linked = await asked.by("", "GET", f"{url}&format={name}")
        assert (200, mine.text) == (linked.status_code, linked.text)


async def test_stream_of_nobody_has_urls_without_a_token():
    async with serve_script(SAID, default_model=M) as (relay, _):
        headers = {"prefer": "respond-async"}
        accepted = (await relay.client.post("/v1/chat", json=HELLO, headers=headers)).json()

    url = f"/v1/streams/{accepted['id']}"
    assert (f"{url}/events", f"{url}/cancel") == (accepted["events_url"], accepted["cancel_url"])


async def test_token_lasts_as_long_as_the_longest_of_all_targets(tmp_path):
    config = tmp_path / "seseragi.toml"
    config.write_text(
        '[[route]]\nname = "slow"\ntargets = [{ model = "demo/demo", total_timeout_s = 5000 }]\n'
    )
    async with serve_asked(environ={}, config=str(config)) as asked:
        accepted = (await start(asked)).json()
        shown = await asked.tokens.verify(token_of(accepted["events_url"]))

    assert shown is not None
    assert shown.expires_at is not None
    assert abs(time.time() + 5000 + 900 - shown.expires_at) < 30


async def test_key_that_is_revoked_takes_the_links_with_it(asked):
    accepted = (await start(asked)).json()
    del asked.keys["backend"]
    reply = await asked.by("", "GET", accepted["events_url"])

    assert 401 == reply.status_code
    assert token_of(accepted["events_url"]) not in reply.text


# Of a stream that is shared


async def test_shared_link_is_read_by_anybody_in_any_format(asked):
    accepted = (await start(asked)).json()
    for name in CLIENT_FORMATS:
        made = await share(asked, accepted["id"], format=name)
        mine = await asked.by("backend", "GET", f"{accepted['url']}/events?format={name}")
        linked = await asked.by("", "GET", made["url"])

        assert (200, mine.text) == (linked.status_code, linked.text)
        assert token_of(made["url"]) == made["token"]
        shown = await asked.tokens.verify(made["token"])
        assert ("watch", accepted["id"]) == (shown.may, shown.stream)


async def test_holder_of_a_link_leaves_the_owner_a_place():
    async with (
        serve_upstream() as upstream,
        serve_asked(upstream, default_model=M, max_readers=4) as asked,
    ):
        upstream.script = [head(), send(text("a")), Hold()]
        accepted = (await start(asked)).json()
        link = (await share(asked, accepted["id"]))["url"]
        own = {"authorization": "Bearer backend"}
        async with contextlib.AsyncExitStack() as reading:

            async def attach(url: str, **headers: str) -> int:
                return (
                    await reading.enter_async_context(stream("GET", url, headers=headers))
                ).status_code

            stream = asked.relay.client.stream
            async with stream("GET", link) as first:
                assert [200, 200, 503] == [
                    first.status_code,
                    await attach(link),
                    await attach(link),
                ]
            await until(
                lambda: asked.relay.hub.load().readers == 1
            )  # a place that was left is free
            assert [200, 503] == [await attach(link), await attach(link)]
            events = accepted["events_url"]
            assert [200, 200, 503] == [
                await attach(f"{accepted['url']}/events", **own),
                await attach(events),
                await attach(events),
            ]


async def test_links_begin_with_the_root_path():
    async with serve_asked(root_path="/llm") as asked:
        accepted = (await start(asked)).json()
        made = await share(asked, accepted["id"])

    assert accepted["events_url"].startswith(f"/llm/v1/streams/{accepted['id']}/events?token=")
    assert accepted["cancel_url"].startswith(f"/llm/v1/streams/{accepted['id']}/cancel?token=")
    assert made["url"].startswith(f"/llm/v1/streams/{accepted['id']}/events?token=")
    assert made["page_url"].startswith(f"/llm/#watch={accepted['id']}&token=")


async def test_link_ends_when_it_is_told_to(monkeypatch):
    clock = Clock(monkeypatch)
    async with serve_upstream() as upstream, serve_asked(upstream, clock=clock) as asked:
        upstream.script = SAID
        accepted = (await start(asked)).json()
        made = await share(asked, accepted["id"], expires_in_s=60)
        assert "expires_in_s" == made["limited_by"]
        assert made["expires_at"] < time.time() + 62
        await clock.pass_(50)
        await read(asked, made["url"])
        await clock.pass_(11)
        reply = await asked.by("", "GET", made["url"])

    assert (401, True) == (reply.status_code, "the link to this stream has expired" in reply.text)


async def test_link_ends_with_its_stream_at_the_latest(log):
    limits: dict[str, Any] = {"total_timeout_s": 100, "retention_s": 50}
    async with (
        serve_upstream() as upstream,
        serve_asked(upstream, default_model=M, log=log, **limits) as asked,
    ):
        upstream.script = [head(), send(text("a")), Hold()]
        accepted = (await start(asked)).json()
        running = await share(asked, accepted["id"])
        assert 202 == (await asked.by("", "POST", accepted["cancel_url"])).status_code
        ended = await share(asked, accepted["id"])

    for made, left_s in ((running, 150), (ended, 50)):
        assert "retention_s" == made["limited_by"]
        assert abs(time.time() + left_s - made["expires_at"]) < 30


async def test_link_ends_with_its_key_at_the_latest(asked):
    accepted = (await start(asked)).json()
    ends_at = time.time() + 20
    asked.keys["backend"] = Principal("acme", key="backend", expires_at=ends_at)
    made = await share(asked, accepted["id"])

    assert "key" == made["limited_by"]
    assert abs(ends_at - made["expires_at"]) < 2


async def test_user_of_a_client_secret_shares_what_is_his(asked):
    secrets = [
        asked.tokens.make_client_secret(
            asked.keys["backend"], user=user, expires_at=time.time() + 60
        )
        for user in ("ann", "bob")
    ]
    accepted = (await start(asked, who=secrets[0])).json()
    made = await share(asked, accepted["id"], who=secrets[0])

    assert "abcd" == text_of(events_of(await read(asked, made["url"])))
    for who in (secrets[1], "backend"):
        reply = await asked.by(who, "POST", f"{accepted['url']}/share", json={})
        none = await asked.by(who, "POST", "/v1/streams/st_none/share", json={})
        assert 404 == reply.status_code == none.status_code
        assert reply.json()["code"] == none.json()["code"]


async def test_link_makes_no_other_link(asked):
    accepted = (await start(asked)).json()
    for name in ("events_url", "cancel_url"):
        token = token_of(accepted[name])
        reply = await asked.by("", "POST", f"{accepted['url']}/share?token={token}")
        assert (403, "forbidden") == (reply.status_code, reply.json()["code"])
        assert token not in reply.text


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"format": "other"}, "format: unknown format 'other'; use 'native'"),
        ({"expires_in_s": 0}, "expires_in_s"),
        ({"expires_in_s": 1e12}, "expires_in_s"),
        ({"may": "stop"}, "may"),
    ],
    ids=str,
)
async def test_what_is_unknown_is_refused(asked, body, told):
    accepted = (await start(asked)).json()
    reply = await asked.by("backend", "POST", f"{accepted['url']}/share", json=body)

    assert 400 == reply.status_code
    assert told in reply.json()["detail"]


async def test_without_identity_a_link_has_no_token():
    assert "" == ANYONE.owner
    async with serve_script(SAID, default_model=M) as (relay, _):
        stream = (await relay.client.post("/v1/chat", json=HELLO)).headers["stream-id"]
        made = (await relay.client.post(f"/v1/streams/{stream}/share")).json()
        other = (
            await relay.client.post(f"/v1/streams/{stream}/share", json={"format": "ui"})
        ).json()
        assert 200 == (await relay.client.get(other["url"])).status_code

    assert f"/v1/streams/{stream}/events" == made["url"]
    assert f"/#watch={stream}" == made["page_url"]
    assert (None, "retention_s") == (made["token"], made["limited_by"])
    assert other["url"].endswith("/events?format=ui")
