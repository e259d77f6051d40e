"""Coming back to a stream: sent-again POSTs, idempotency keys, snapshots, deleting."""

import asyncio
import json
from typing import Any

import pytest

from app.dialects.client_formats import CLIENT_FORMATS
from app.framing.sse import Decoder
from app.testing.upstream import (
    DONE,
    FINISH,
    Hold,
    Step,
    Until,
    head,
    send,
    serve_upstream,
    text,
    wait,
)
from tests.api.bodies import body_of
from tests.clock import Clock
from tests.serving import (
    HELLO,
    Relay,
    cut_off,
    events_of,
    read_messages,
    serve_relay,
    serve_script,
    text_of,
    text_so_far,
)
from tests.waiting import until

SLOW: list[Step] = [
    head(),
    *(step for n in "abcd" for step in (send(text(n)), wait(0.03))),
    send(FINISH + DONE),
]


async def post(relay: Relay, body: dict | None = None, **headers: str) -> tuple[str, list]:
    """POST and read all; gives the stream's id and the messages."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with relay.client.stream("POST", "/v1/chat", json=body or HELLO, headers=named) as reply:
        assert reply.status_code == 200, await reply.aread()
        return reply.headers["stream-id"], await read_messages(reply)


async def test_post_sent_again_with_the_last_id_reads_on(log):
    async with serve_script(SLOW, log=log) as (relay, upstream):
        stream, whole = await post(relay)
        for message in whole[:-1]:
            again, rest = await post(relay, last_event_id=message.id)
            number = int(message.id.rpartition(".")[2])

            assert (stream, whole[number:]) == (again, rest)
        end = await relay.client.post(
            "/v1/chat", json=HELLO, headers={"last-event-id": whole[-1].id}
        )
        assert 204 == end.status_code
        assert 1 == len(upstream.calls)


@pytest.mark.parametrize(
    ("cursor", "status"),
    [("st_unknown.3", 404), ("7", 400), ("nonsense", 400), ("x" * 60_000, 400)],
)
async def test_post_with_a_strange_last_id_starts_nothing(log, cursor, status):
    async with serve_script(SLOW, log=log) as (relay, upstream):
        reply = await relay.client.post("/v1/chat", json=HELLO, headers={"last-event-id": cursor})

        assert status == reply.status_code
        assert [] == upstream.calls


async def test_same_key_and_body_start_one_generation(log):
    async with serve_script(SLOW, log=log) as (relay, upstream):
        replies = await asyncio.gather(*(post(relay, idempotency_key="key-1") for _ in range(5)))
        later = await post(relay, idempotency_key="key-1")

        assert [replies[0]] * 5 == replies
        assert replies[0] == later
        assert 1 == len(upstream.calls)


@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize("began", [True, False])
@pytest.mark.parametrize("path", [one.path for one in CLIENT_FORMATS.values()])
async def test_answer_to_a_key_waits_in_every_format(path: str, began: bool, streams: bool):
    """A page that is hidden leaves, and sends the same POST again when it is seen."""
    goes_on = Until()
    first: list[Step] = [head(), send(text("ab"))] if began else []
    script: list[Step] = [*first, goes_on, *([] if began else [head(), send(text("ab"))])]
    ask: dict[str, Any] = {
        "json": {**body_of(path), "model": "openai/m"},
        "headers": {"idempotency-key": "k"},
    }
    if path != "/v1/ag-ui":  # which only streams
        ask["json"]["stream"] = streams
    async with serve_script([*script, send(text("cd") + FINISH + DONE)]) as (relay, upstream):
        leaving = asyncio.create_task(relay.client.post(path, **ask))
        await asyncio.wait_for(upstream.called.wait(), 20)
        leaving.cancel()
        await cut_off(relay, others=0)
        await until(lambda: not relay.hub.load().readers)
        again = asyncio.create_task(relay.client.post(path, **ask))
        await until(lambda: relay.hub.load().readers == 1)
        goes_on.told.set()
        reply = await again

    assert 200 == reply.status_code, reply.text
    assert "ab" in reply.text
    assert "cd" in reply.text
    assert 1 == len(upstream.calls)


async def test_same_key_with_another_body_is_refused(log):
    async with serve_script(SLOW, log=log) as (relay, upstream):
        await post(relay, idempotency_key="key-1")
        reply = await relay.client.post(
            "/v1/chat", json={**HELLO, "seed": 1}, headers={"idempotency-key": "key-1"}
        )

        assert (422, "idempotency_mismatch") == (reply.status_code, reply.json()["code"])
        assert 1 == len(upstream.calls)


async def test_key_of_a_failed_start_gives_the_same_failure(log):
    async with serve_script([head("401 No"), send("{}")], log=log) as (relay, upstream):
        replies = [
            await relay.client.post("/v1/chat", json=HELLO, headers={"idempotency-key": "k"})
            for _ in range(2)
        ]

        assert [(502, "upstream_auth")] * 2 == [
            (reply.status_code, reply.json()["code"]) for reply in replies
        ]
        assert 1 == len(upstream.calls)


async def test_key_of_a_start_that_may_be_tried_again_is_free(log):
    async with serve_script([head("429 Slow", retry_after="1"), send("{}")], log=log) as (
        relay,
        upstream,
    ):
        refused = await relay.client.post("/v1/chat", json=HELLO, headers={"idempotency-key": "k"})
        assert 429 == refused.status_code
        upstream.script = SLOW
        first = await post(relay, idempotency_key="k")
        again = await post(relay, idempotency_key="k")

        assert "abcd" == text_of(events_of(first[1]))
        assert first == again
        assert 2 == len(upstream.calls)


async def test_key_of_a_refused_start_is_free_again(log):
    async with serve_script([head(), send(text("a")), Hold()], max_streams=1, log=log) as (
        relay,
        upstream,
    ):
        busy = await relay.client.post("/v1/chat", json=HELLO, headers={"prefer": "respond-async"})
        refused = await relay.client.post("/v1/chat", json=HELLO, headers={"idempotency-key": "k"})
        assert 503 == refused.status_code
        await relay.client.post(busy.json()["cancel_url"])
        upstream.script = SLOW
        await until(lambda: not relay.hub.load().streams)
        _, messages = await post(relay, idempotency_key="k")

        assert "abcd" == text_of(events_of(messages))


async def test_key_that_is_free_is_refused_by_a_relay_that_takes_nothing(log):
    """Not answered with the failure of before: another relay may start anew."""
    async with serve_script(
        [head("429 Slow", retry_after="1"), send("{}")], max_streams=1, log=log
    ) as (relay, upstream):
        failed = await relay.client.post("/v1/chat", json=HELLO, headers={"idempotency-key": "k"})
        assert 429 == failed.status_code
        upstream.script = [head(), send(text("a")), Hold()]
        await relay.client.post("/v1/chat", json=HELLO, headers={"prefer": "respond-async"})
        refused = await relay.client.post("/v1/chat", json=HELLO, headers={"idempotency-key": "k"})

        assert (503, "overloaded") == (refused.status_code, refused.json()["code"])


async def test_result_is_waited_for_again_by_its_key(log):
    async with serve_script(SLOW, log=log) as (relay, upstream):
        body = {**HELLO, "stream": False}
        headers = {"idempotency-key": "k"}
        leaving = asyncio.create_task(relay.client.post("/v1/chat", json=body, headers=headers))
        await asyncio.wait_for(upstream.called.wait(), 20)
        leaving.cancel()
        await cut_off(relay, others=0)
        reply = await relay.client.post("/v1/chat", json=body, headers=headers)

        assert "abcd" == reply.json()["text"]
        assert 1 == len(upstream.calls)


async def test_a_wrong_body_with_the_key_of_a_failed_stream_leaves_that_alone(log):
    """A failed stream may be tried again by its own request, and by no other."""
    async with serve_script([head("429 Slow", retry_after="1"), send("{}")], log=log) as (
        relay,
        upstream,
    ):
        headers = {"idempotency-key": "k"}
        failed = await relay.client.post("/v1/chat", json=HELLO, headers=headers)
        other = await relay.client.post("/v1/chat", json={**HELLO, "seed": 1}, headers=headers)
        kept = await relay.client.get(f"/v1/streams/{failed.headers['stream-id']}")

        assert (422, "idempotency_mismatch") == (other.status_code, other.json()["code"])
        assert (200, "failed") == (kept.status_code, kept.json()["status"])
        assert 1 == len(upstream.calls)


async def test_a_key_is_for_one_path(log):
    async with serve_script(SLOW, log=log) as (relay, upstream):
        headers = {"idempotency-key": "k"}
        body = {**HELLO, "model": "openai/m", "stream": True, "max_tokens": 9}
        statuses = [
            (await relay.client.post(path, json=body, headers=headers)).status_code
            for path in ("/v1/chat/completions", "/v1/chat", "/v1/messages")
        ]

        assert [200, 422] == statuses[:2]
        assert statuses[2] in (409, 422, 400)
        assert 1 == len(upstream.calls)


async def test_a_key_is_for_the_betas_that_were_asked_for():
    async with serve_script(SLOW) as (relay, upstream):
        body = {**HELLO, "model": "openai/m", "stream": True, "max_tokens": 9}
        statuses = [
            (
                await relay.client.post(
                    "/v1/messages",
                    json=body,
                    headers={"idempotency-key": "k", "anthropic-beta": beta},
                )
            ).status_code
            for beta in ("a-2026-01-01", "a-2026-01-01", "b-2026-01-01")
        ]

        assert [200, 200] == statuses[:2]
        assert statuses[2] != 200
        assert 1 == len(upstream.calls)


async def test_bad_key_is_named(log):
    async with serve_relay(log=log) as relay:
        reply = await relay.client.post(
            "/v1/chat", json=HELLO, headers={"idempotency-key": "x" * 256}
        )

        assert 400 == reply.status_code
        assert "Idempotency-Key" in reply.json()["detail"]


async def test_snapshot_gives_the_text_so_far_at_once(log):
    async with serve_upstream() as upstream, serve_relay(upstream, log=log) as relay:
        read = Until()
        upstream.script = [head(), *(send(text(n)) for n in "abc"), read, send(text("d") + FINISH + DONE)]  # fmt: skip
        accepted = (
            await relay.client.post("/v1/chat", json=HELLO, headers={"prefer": "respond-async"})
        ).json()
        await text_so_far(relay, accepted["id"], "abc")
        decoder, messages = Decoder(), []
        async with relay.client.stream("GET", f"{accepted['events_url']}?from=snapshot") as reply:
            async for data in reply.aiter_bytes():
                messages += decoder.feed(data)
                if b"text.delta" in data:
                    read.told.set()
        async with relay.client.stream("GET", accepted["events_url"]) as reply:
            whole = await read_messages(reply)
        texts = [event["text"] for event in events_of(messages) if event["type"] == "text.delta"]

        assert ["abc", "d"] == texts
        # Each id is a cursor of the whole stream.
        assert {message.id for message in messages} < {message.id for message in whole}
        for message in messages:
            number = int(message.id.rpartition(".")[2])
            rest = whole[number:]
            seen = [other for other in messages if int(other.id.rpartition(".")[2]) <= number]
            assert "abcd" == text_of(events_of([*seen, *rest]))


async def test_unknown_start_is_named(log):
    async with serve_relay(log=log) as relay:
        reply = await relay.client.get("/v1/streams/st_x/events?from=end")

        assert 400 == reply.status_code
        assert "from: use 'snapshot'" in reply.json()["detail"]


async def test_delete_stops_and_forgets(log):
    async with serve_script([head(), send(text("secret")), Hold()], log=log) as (relay, upstream):
        accepted = (
            await relay.client.post("/v1/chat", json=HELLO, headers={"prefer": "respond-async"})
        ).json()
        await asyncio.wait_for(upstream.called.wait(), 20)
        deleted = await relay.client.delete(accepted["url"])
        await asyncio.wait_for(upstream.calls[0].closed.wait(), 20)
        after = await relay.client.get(accepted["url"])
        twice = await relay.client.delete(accepted["url"])

        assert (204, b"") == (deleted.status_code, deleted.content)
        assert (410, "stream_expired") == (after.status_code, after.json()["code"])
        assert 410 == twice.status_code


async def test_cancel_is_taken_as_a_beacon_sends_it(log):
    async with serve_script([head(), send(text("a")), Hold()], log=log) as (relay, upstream):
        accepted = (
            await relay.client.post("/v1/chat", json=HELLO, headers={"prefer": "respond-async"})
        ).json()
        await asyncio.wait_for(upstream.called.wait(), 20)
        reply = await relay.client.post(
            accepted["cancel_url"],
            content=json.dumps({"why": "left"}),
            headers={"content-type": "text/plain;charset=UTF-8"},
        )

        assert (202, "cancelled") == (reply.status_code, reply.json()["status"])


async def test_ping_is_an_event_without_an_id_if_asked_for(monkeypatch):
    clock, beaten, raw = Clock(monkeypatch), Until(), b""
    script: list[Step] = [head(), send(text("a")), beaten, send(text("b") + FINISH + DONE)]
    async with serve_script(script, heartbeat_s=2) as (relay, _):
        started = await relay.client.post(
            "/v1/chat", json=HELLO, headers={"prefer": "respond-async"}
        )
        url = f"/v1/streams/{started.json()['id']}/events?ping"
        async with clock.hurrying(), relay.client.stream("GET", url) as reply:
            async for data in reply.aiter_bytes():
                raw += data
                if raw.count(b'event: ping\ndata: {"type":"ping"}\n\n') == 2:
                    beaten.told.set()
        refused = [
            await relay.client.get(f"{url}&format=ui"),
            await relay.client.get(url, headers={"accept": "application/x-ndjson"}),
        ]
        plain = await relay.client.get(url.removesuffix("?ping"))

    decoder = Decoder(max_line=10_000)
    messages = list(decoder.feed(raw))
    assert b": hb" not in raw
    assert "ab" == text_of(events_of([m for m in messages if m.event != "ping"]))
    assert [400, 400] == [reply.status_code for reply in refused]
    assert "ping" not in plain.text


LETTERS = {one.path: one.letter for one in CLIENT_FORMATS.values()}


@pytest.mark.parametrize("path", [one.path for one in CLIENT_FORMATS.values() if not one.replays])
async def test_post_with_a_key_and_the_last_id_reads_the_rest_in_every_format(path: str):
    """As fetch-event-source does for a page that is seen again."""
    goes_on, raw = Until(), b""
    script: list[Step] = [head(), send(text("ab")), goes_on, send(text("cd") + FINISH + DONE)]
    body, headers = {**body_of(path), "model": "openai/m"}, {"idempotency-key": "k"}
    async with serve_script(script) as (relay, upstream):
        async with relay.client.stream("POST", path, json=body, headers=headers) as reply:
            async for data in reply.aiter_bytes():
                raw += data
                if b'"ab"' in raw and raw.endswith(b"\n\n"):
                    break
        await until(lambda: not relay.hub.load().readers)
        goes_on.told.set()
        last = raw.rpartition(b"\nid: ")[2].strip().decode()
        if "{" in last:  # frames of a POST to Chat Completions have no ids: their readers count
            last = f"{reply.headers['stream-id']}.{LETTERS[path]}{raw.count(b'data: ')}"
        headers["last-event-id"] = last
        rest = await relay.client.post(path, json=body, headers=headers)

    assert 200 == rest.status_code
    assert '"cd"' in rest.text
    assert headers["last-event-id"] not in rest.text.splitlines()
    assert 1 == len(upstream.calls)
