"""Webhooks of a relay on real sockets: what endpoints receive, and what a bad one changes."""

import asyncio
import json
from typing import Any

import pytest
import structlog

from app.errors import ServiceError
from app.eventlog.waiting_rows import MemoryRows
from app.telemetry.row import StreamRow, pack_row
from app.testing.upstream import Call, Hold, Reset, Upstream, head, reply, send, serve_upstream
from app.webhooks import deliverer, message
from tests.ports import free_port
from tests.serving import HELLO, VECTOR, Relay, serve_relay
from tests.waiting import until
from tests.webhooks.receiver import KEYS, SECRETS, TAKEN, environ, verify, write_settings

ROW: dict[str, Any] = {
    "stream": "st_1",
    "client_format": "native",
    "started_at": 1.0,
    "ended_at": 2.0,
    "status": "completed",
}

ROUTES = """
[[route]]
name = "told"
record_content = true
targets = ["demo/demo"]
[[route]]
name = "quiet"
targets = ["demo/demo"]
"""


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """Retries at once: the times themselves are those of `test_message`."""
    monkeypatch.setattr(message, "PAUSES_S", (0.01,) * 3)
    monkeypatch.setattr(deliverer, "INTERVAL_S", 0.02)


@pytest.fixture
async def receiver():
    async with serve_upstream() as receiver:
        receiver.script = TAKEN
        yield receiver


async def ask(relay: Relay, **fields: Any) -> str:
    """Ask the demo for a short answer; return its stream."""
    answer = await relay.client.post("/v1/chat", json={**HELLO, "max_tokens": 3, **fields})
    assert 200 == answer.status_code
    return answer.headers["stream-id"]


async def metric(relay: Relay, name: str) -> float:
    found = await relay.client.get("/metrics", headers=relay.operator)
    lines = dict(line.rsplit(" ", 1) for line in found.text.splitlines() if line[0] != "#")
    return float(lines[name])


def outcomes(outcome: str) -> str:
    return f'seseragi_webhook_calls_total{{outcome="{outcome}",webhook="hook0"}}'


async def test_end_of_a_stream_is_posted_with_its_record_and_a_signature(tmp_path, receiver):
    path = write_settings(tmp_path, receiver)
    variables = {**environ(path), "HOOK_SECRET": " ".join(SECRETS)}
    async with serve_relay(environ=variables) as relay:
        stream = await ask(relay)
        await until(lambda: receiver.calls)
        await until(lambda: metric(relay, outcomes("delivered")))
        assert 0 == await relay.rows.count_rows("webhook:hook0")

    [call] = receiver.calls
    data = verify(call)["data"]
    assert data == verify(call, KEYS[1])["data"]
    assert "/v1/ended?token=url-secret" == call.path
    assert "application/json" == call.headers["content-type"]
    assert f"ended_{stream}" == call.headers["webhook-id"]
    assert (stream, "completed", "native", "demo/demo", None) == tuple(
        data[name] for name in ("stream", "status", "client_format", "target", "content")
    )
    assert data["output_tokens"] > 0


async def test_content_is_sent_only_for_a_route_that_records_it(tmp_path, receiver):
    async with serve_relay(
        environ=environ(write_settings(tmp_path, receiver, more=ROUTES))
    ) as relay:
        for model in ("told", "quiet"):
            await ask(relay, model=model)
        await until(lambda: len(receiver.calls) == 2)

    found = {call.json["data"]["route"]: call.json["data"]["content"] for call in receiver.calls}
    assert found["quiet"] is None
    assert "hello" == found["told"]["messages"][0]["content"]


async def test_content_is_redacted_as_in_the_records(tmp_path, receiver):
    hook = 'record_content_hook = "tests.records.hooks:redact"\n'
    path = write_settings(tmp_path, receiver, more=hook + ROUTES)
    async with serve_relay(environ=environ(path)) as relay:
        await ask(relay, model="told")
        await until(lambda: receiver.calls)

    assert {"length", "asked"} == receiver.calls[0].json["data"]["content"].keys()


async def _is_empty(relay: Relay, queue: str = "webhook:hook0") -> bool:
    return not await relay.rows.count_rows(queue)


async def test_calls_without_a_stream_are_not_posted(tmp_path, receiver):
    async with serve_upstream() as provider:
        provider.script = VECTOR
        path = write_settings(tmp_path, receiver)
        async with serve_relay(provider, environ=environ(path)) as relay:
            embed = {"model": "openai/m", "input": "hello"}
            answer = await relay.client.post("/v1/embeddings", json=embed)
            assert 200 == answer.status_code
            await until(lambda: _is_empty(relay))
            stream = await ask(relay, model="demo")
            await until(lambda: receiver.calls)

    assert [stream] == [call.json["data"]["stream"] for call in receiver.calls]


BAD = {
    "error": reply("500 Internal Server Error", "{}"),
    "refused": reply("401 Unauthorized", ""),
    "redirect": reply("307 Temporary Redirect", "", location="/elsewhere"),
    "reset": [Reset()],
    "garbage": [send("SMTP ready\r\n\r\n")],
    "closed": [],
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
async def test_failed_call_is_repeated_with_the_same_id(tmp_path, receiver, bad):
    receiver.choose = lambda call: bad if len(receiver.calls) < 3 else TAKEN
    async with serve_relay(environ=environ(write_settings(tmp_path, receiver))) as relay:
        stream = await ask(relay)
        await until(lambda: len(receiver.calls) == 3)
        await until(lambda: _is_empty(relay))
        assert 1 == await metric(relay, outcomes("delivered"))
        assert 2 == await metric(relay, outcomes("failed"))

    assert {f"ended_{stream}"} == {call.headers["webhook-id"] for call in receiver.calls}
    assert 1 == len({call.body for call in receiver.calls})
    assert {"/v1/ended?token=url-secret"} == {call.path for call in receiver.calls}


async def test_slow_endpoint_is_cut_off_and_called_again(tmp_path, receiver, monkeypatch):
    monkeypatch.setattr(deliverer, "TIMEOUT_S", 0.05)
    receiver.choose = lambda call: [Hold()] if len(receiver.calls) < 2 else TAKEN
    async with serve_relay(environ=environ(write_settings(tmp_path, receiver))) as relay:
        await ask(relay)
        await until(lambda: len(receiver.calls) == 2)
        await until(lambda: _is_empty(relay))


async def test_endless_reply_is_a_delivery_that_costs_little(tmp_path, receiver):
    receiver.script = [head("200 OK"), *[send("x" * 10_000)] * 50, Hold()]
    async with serve_relay(environ=environ(write_settings(tmp_path, receiver))) as relay:
        await ask(relay)
        await until(lambda: _is_empty(relay))

    assert 1 == len(receiver.calls)


async def test_end_is_given_up_after_the_last_attempt(tmp_path, receiver):
    receiver.script = BAD["error"]
    with structlog.testing.capture_logs() as lines:
        async with serve_relay(environ=environ(write_settings(tmp_path, receiver))) as relay:
            stream = await ask(relay)
            await until(lambda: metric(relay, outcomes("dropped")))
            await until(lambda: _is_empty(relay))

    assert 4 == len(receiver.calls)
    told = [line for line in lines if line["event"] == "webhook dropped"]
    assert [(stream, 500, 4)] == [(one["stream"], one["why"], one["attempt"]) for one in told]


async def test_row_that_cannot_be_read_is_dropped_and_holds_up_nothing(tmp_path, receiver):
    async with serve_relay(environ=environ(write_settings(tmp_path, receiver))) as relay:
        assert isinstance(relay.rows, MemoryRows)
        with structlog.testing.capture_logs() as lines:
            for row in (b"", b"\xc0", pack_row(StreamRow(**{**ROW, "ended_at": 1e300}))):
                relay.rows.add(f"st_{len(row)}", row)
            stream = await ask(relay)
            await until(lambda: _is_empty(relay))

    assert [f"ended_{stream}"] == [call.headers["webhook-id"] for call in receiver.calls]
    assert 3 == len([line for line in lines if line["event"] == "webhook dropped"])


async def test_delivery_that_the_log_cannot_note_is_repeated_with_the_same_id(
    tmp_path, receiver, monkeypatch
):
    monkeypatch.setattr(deliverer, "LEASE_S", 0.02)
    async with serve_relay(environ=environ(write_settings(tmp_path, receiver))) as relay:
        forget = relay.rows.forget_rows
        failed: list[list[str]] = []

        async def fail_once(streams: list[str], *, queue: str) -> None:
            if not failed:
                failed.append(streams)
                raise ServiceError("internal", "the log is away")
            await forget(streams, queue=queue)

        monkeypatch.setattr(relay.rows, "forget_rows", fail_once)
        await ask(relay)
        await until(lambda: failed)
        await until(lambda: _is_empty(relay))

    assert 2 <= len(receiver.calls)
    assert 1 == len({call.headers["webhook-id"] for call in receiver.calls})


async def test_endpoint_that_is_gone_is_called_no_more(tmp_path, receiver):
    receiver.script = reply("410 Gone", "")
    async with serve_relay(environ=environ(write_settings(tmp_path, receiver))) as relay:
        await ask(relay)
        await until(lambda: receiver.calls)
        await until(lambda: metric(relay, outcomes("dropped")))
        await ask(relay)
        await until(lambda: _is_empty(relay))
        assert 2 == await metric(relay, outcomes("dropped"))

    assert 1 == len(receiver.calls)


async def test_endpoint_that_asks_to_wait_is_left_alone(tmp_path, receiver, monkeypatch):
    monkeypatch.setattr(message, "PAUSES_S", (0.01, 1000))
    receiver.script = reply("429 Too Many Requests", "", retry_after="500")
    async with serve_relay(environ=environ(write_settings(tmp_path, receiver))) as relay:
        await ask(relay)
        await until(lambda: metric(relay, outcomes("failed")))
        waiting = 'seseragi_webhook_waiting{webhook="hook0"}'
        await until(lambda: metric(relay, waiting))
        assert 0 < await metric(relay, 'seseragi_webhook_oldest_seconds{webhook="hook0"}') < 100
        await asyncio.sleep(0.05)  # measures that it is not called after its 10 ms

    assert 1 == len(receiver.calls)


async def test_one_endpoint_that_hangs_holds_up_neither_others_nor_streams(
    tmp_path, receiver, monkeypatch
):
    monkeypatch.setattr(deliverer, "LAST_S", 0.05)
    async with serve_upstream() as hanging:
        hanging.script = [Hold()]
        async with serve_relay(
            environ=environ(write_settings(tmp_path, hanging, receiver))
        ) as relay:
            for _ in range(deliverer.CONCURRENCY + 4):
                await ask(relay)
            await until(lambda: len(receiver.calls) == deliverer.CONCURRENCY + 4)

        assert deliverer.CONCURRENCY == len(hanging.calls)  # others wait for their turn


async def test_secret_and_url_are_in_no_log(tmp_path, receiver):
    receiver.choose = lambda call: BAD["error"] if len(receiver.calls) < 2 else TAKEN
    with structlog.testing.capture_logs() as lines:
        path = write_settings(tmp_path, receiver)
        async with serve_relay(environ=environ(path)) as relay:
            await ask(relay)
            await until(lambda: len(receiver.calls) == 2)
            await until(lambda: _is_empty(relay))

    logged = json.dumps(lines, default=repr)
    assert "webhook delivered" in logged
    for secret in (SECRETS[0], SECRETS[0][6:], "url-secret", receiver.base_url):
        assert secret not in logged
    signature = receiver.calls[0].headers["webhook-signature"]
    assert signature not in logged


async def test_each_stream_is_in_its_own_call_only(tmp_path, receiver):
    async with serve_relay(environ=environ(write_settings(tmp_path, receiver))) as relay:
        streams = await asyncio.gather(*(ask(relay) for _ in range(20)))
        await until(lambda: len(receiver.calls) == 20)

    def named(call: Call) -> list[str]:
        return [stream for stream in streams if stream in call.body.decode()]

    assert sorted([stream] for stream in streams) == sorted(map(named, receiver.calls))


async def test_shutdown_delivers_what_has_just_ended(tmp_path, receiver, monkeypatch):
    monkeypatch.setattr(deliverer, "INTERVAL_S", 1000)
    async with serve_relay(environ=environ(write_settings(tmp_path, receiver))) as relay:
        await ask(relay)

    assert 1 == len(receiver.calls)


async def test_shutdown_does_not_wait_for_an_endpoint_that_is_away(tmp_path, monkeypatch):
    monkeypatch.setattr(deliverer, "LAST_S", 0.1)
    away = Upstream()
    away.port = free_port()
    loop = asyncio.get_running_loop()
    async with serve_relay(environ=environ(write_settings(tmp_path, away))) as relay:
        await ask(relay)
        await until(lambda: metric(relay, outcomes("failed")))
        begun = loop.time()

    assert loop.time() - begun < 5


@pytest.mark.parametrize("records", [False, True])
async def test_records_and_webhooks_have_each_row(tmp_path, receiver, records):
    """Also if the records cannot be written for now."""
    away = f"postgresql://user:password@127.0.0.1:{free_port()}/records"
    more: dict[str, Any] = {"records": f"sqlite:///{tmp_path}/records.db" if records else away}
    async with serve_relay(environ=environ(write_settings(tmp_path, receiver)), **more) as relay:
        await ask(relay)
        await until(lambda: receiver.calls)
        await until(lambda: _is_empty(relay))
        if records:
            await until(lambda: _is_empty(relay, "rows"))
        else:
            assert 1 == await relay.rows.count_rows()
