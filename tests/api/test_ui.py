"""`/v1/ui/chat` on a real socket: the stream, coming back by the chat's id, stopping."""

import asyncio
import json
import socket
from typing import Any
from urllib.parse import quote

import httpx2
import pytest

from app.dialects.answering.ids import public_token
from app.dialects.client_format import Frame
from app.testing.upstream import DONE, FINISH, Hold, Step, Until, head, send, serve_upstream, text
from tests.dialects.ui.verify import chunks_of, read_message
from tests.serving import Relay, cut_off, read_messages, serve_relay, serve_script, text_so_far
from tests.waiting import until

CHAT = "a chat/せ?#%"
URL = f"/v1/ui/chat/{quote(CHAT, safe='')}"
BODY = {
    "id": CHAT,
    "messages": [{"id": "u1", "role": "user", "parts": [{"type": "text", "text": "hello"}]}],
    "trigger": "submit-message",
}
CLEAN = [head(), send(text("a") + text("b") + FINISH + DONE)]


async def chunks(response: httpx2.Response) -> list[dict[str, Any]]:
    assert 200 == response.status_code, await response.aread()
    assert "v1" == response.headers["x-vercel-ai-ui-message-stream"]
    return chunks_of([Frame(m.data.encode()) for m in await read_messages(response)])


async def post(relay: Relay, **fields: Any) -> list[dict[str, Any]]:
    async with relay.client.stream("POST", "/v1/ui/chat", json={**BODY, **fields}) as response:
        return await chunks(response)


async def resume(relay: Relay, url: str = URL) -> list[dict[str, Any]] | None:
    async with relay.client.stream("GET", f"{url}/stream") as response:
        return None if response.status_code == 204 else await chunks(response)


def text_of(found: list[dict[str, Any]]) -> str:
    return "".join(chunk["delta"] for chunk in found if chunk["type"] == "text-delta")


async def answer_without_a_reader(relay: Relay, rest_comes: Until, wanted: str) -> str:
    """Ask, leave once there is some text, and return the stream once it has ended."""
    stream = await leave_at_the_text(relay)
    await cut_off(relay, others=0)
    rest_comes.told.set()
    await text_so_far(relay, stream, wanted)
    await until(lambda: relay.hub.load().streams == 0)
    return stream


async def test_chat_is_answered_and_can_be_read_by_its_stream():
    async with serve_script(CLEAN) as (relay, _):
        assert None is await resume(relay)
        found = await post(relay)
        message = read_message(found)

        assert "ab" == text_of(found)
        # The provider told no counts.
        estimate = {"inputTokens": 9, "outputTokens": 1, "totalTokens": 10, "estimated": True}
        assert {"model": "m-1", "usage": estimate} == message["metadata"]
        assert None is await resume(relay, "/v1/ui/chat/another")
        stream = found[1]["data"]["stream"]
        async with relay.client.stream(
            "GET", f"/v1/streams/{stream}/events?format=ui", headers={"last-event-id": "3"}
        ) as response:
            assert found == await chunks(response)


async def test_answer_that_a_client_has_had_whole_is_not_sent_again(log):
    """It would replace the stored message, and what the page has added to it."""
    async with serve_script(CLEAN, log=log) as (relay, _):
        await post(relay)
        assert None is await resume(relay)
        second = await post(relay)

        assert "ab" == text_of(second)
        assert None is await resume(relay)


async def test_answer_that_failed_is_sent_again_with_its_error():
    async with serve_script([head(), send(text("half"))]) as (relay, _):
        assert "error" == (await post(relay))[-1]["type"]
        for _ in range(2):
            found = await resume(relay) or []
            assert ("half", "error") == (text_of(found), found[-1]["type"])


async def test_ended_answer_is_sent_once_to_a_client_that_left_before(log):
    rest_comes = Until()
    script: list[Step] = [head(), send(text("a")), rest_comes, send(text("b") + FINISH + DONE)]
    async with serve_script(script, log=log) as (relay, _):
        stream = await answer_without_a_reader(relay, rest_comes, "ab")
        async with relay.client.stream("GET", f"/v1/streams/{stream}/events") as response:
            await read_messages(response)  # in another format: a tool that looks on, not the page
        found = await resume(relay)

        assert found is not None
        assert "ab" == text_of(found)
        assert None is await resume(relay)


async def test_rest_that_is_read_by_its_cursor_completes_the_answer():
    rest_comes = Until()
    script: list[Step] = [head(), send(text("a")), rest_comes, send(text("b") + FINISH + DONE)]
    async with serve_script(script) as (relay, _):
        stream = await answer_without_a_reader(relay, rest_comes, "ab")
        events, cursor = f"/v1/streams/{stream}/events?format=ui", {"last-event-id": "5"}
        async with relay.client.stream("GET", events, headers=cursor) as response:
            last = (await read_messages(response))[-1].id
        assert None is await resume(relay)
        response = await relay.client.get(events, headers={"last-event-id": str(last)})
        assert 204 == response.status_code


async def test_answer_that_a_lost_client_did_not_acknowledge_is_sent_again():
    """Its system takes no more: all was sent, and some of it is on its way for good."""
    long = "x" * 400_000
    async with serve_script([head(), send(text(long) + FINISH + DONE)]) as (relay, upstream):
        body, url = json.dumps(BODY).encode(), relay.client.base_url
        start = f"POST /v1/ui/chat HTTP/1.1\r\nhost: {url.host}\r\ncontent-length: {len(body)}\r\n"
        with socket.socket() as lost:
            lost.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            lost.connect((url.host, url.port))
            lost.sendall(f"{start}content-type: application/json\r\n\r\n".encode() + body)
            await until(lambda: upstream.calls and not relay.hub.load().streams)
            await until(lambda: not relay.hub.load().readers)
            found = await resume(relay)

        assert found is not None
        assert long == text_of(found)


async def test_chat_is_found_after_a_restart(tmp_path):
    log, rest_comes = f"sqlite:///{tmp_path / 'streams.db'}", Until()
    async with serve_upstream() as upstream:
        upstream.script = [head(), send(text("a")), rest_comes, send(text("b") + FINISH + DONE)]
        async with serve_relay(upstream, log=log) as relay:
            await answer_without_a_reader(relay, rest_comes, "ab")
        async with serve_relay(upstream, log=log) as relay:
            assert "ab" == text_of(await resume(relay) or [])
        async with serve_relay(upstream, log=log) as relay:
            assert None is await resume(relay)


async def leave_at_the_text(relay: Relay) -> str:
    """Ask, and leave once there is some text; return the stream."""
    async with relay.client.stream("POST", "/v1/ui/chat", json=BODY) as response:
        async for data in response.aiter_bytes():
            if b"text-delta" in data:
                break
    return str(response.headers["stream-id"])


async def test_resumed_stream_goes_on_live_from_its_start(log):
    rest_comes = Until()
    script: list[Step] = [head(), send(text("a")), rest_comes, send(text("b") + FINISH + DONE)]
    async with serve_script(script, log=log) as (relay, upstream):
        stream = await leave_at_the_text(relay)
        await cut_off(relay, others=0)
        resuming = asyncio.create_task(resume(relay))
        await until(lambda: relay.hub.load().readers == 1)
        rest_comes.told.set()
        found = await resuming

        assert found is not None
        assert {"type": "start", "messageId": f"msg_{public_token(stream, 'ui')}"} == found[0]
        assert "ab" == text_of(found)
        assert "finish" == found[-1]["type"]
        assert 1 == len(upstream.calls)


async def test_next_turn_takes_the_name_of_the_chat():
    async with serve_script(CLEAN) as (relay, upstream):
        first = await post(relay)
        rest_comes = Until()
        upstream.script = [head(), send(text("c")), rest_comes, send(text("d") + FINISH + DONE)]
        await answer_without_a_reader(relay, rest_comes, "cd")
        second = await resume(relay) or []

        assert first[0] != second[0]
        assert "cd" == text_of(second)


async def test_stop_ends_every_running_answer_of_the_chat(log):
    """Also the older one: of another tab, or of a client that only left."""
    async with serve_script([head(), send(text("a")), Hold()], log=log) as (relay, _):
        first = await leave_at_the_text(relay)
        async with (
            relay.client.stream("POST", "/v1/ui/chat", json=BODY) as second,
            relay.client.stream("POST", "/v1/ui/chat", json={**BODY, "id": CHAT + "2"}) as other,
        ):
            ids = [one.headers["stream-id"] for one in (second, other)]
            await asyncio.gather(*(text_so_far(relay, stream, "a") for stream in ids))
            assert 204 == (await relay.client.post(f"{URL}/stop")).status_code
            states = [
                (await relay.client.get(f"/v1/streams/{stream}")).json()["status"]
                for stream in (first, *ids)
            ]
            assert ["cancelled", "cancelled", "running"] == states
            await relay.client.post(f"/v1/streams/{ids[1]}/cancel")


async def test_answer_that_was_added_to_a_message_is_not_sent_again_when_it_has_ended():
    """The client would forget what stood before it in the message."""
    answer = {"id": "a1", "role": "assistant", "parts": [{"type": "text", "text": "Let me see"}]}
    messages = [*BODY["messages"], answer]
    async with serve_script([head(), send(text("a")), Hold()]) as (relay, _):
        body = {**BODY, "messages": messages}
        async with relay.client.stream("POST", "/v1/ui/chat", json=body) as response:
            reading = asyncio.create_task(resume(relay))
            await until(lambda: relay.hub.load().readers == 2)
            await relay.client.post(f"{URL}/stop")
            found = await chunks(response)
        assert "a1" == found[0]["messageId"]
        assert found == await reading
        assert None is await resume(relay)


async def test_stop_ends_what_runs_for_the_chat():
    async with serve_script([head(), send(text("a")), Hold()]) as (relay, _):
        async with relay.client.stream("POST", "/v1/ui/chat", json=BODY) as posted:
            await text_so_far(relay, posted.headers["stream-id"], "a")
            for _ in range(2):
                response = await relay.client.post(f"{URL}/stop")
                assert 204 == response.status_code
            found = await chunks(posted)

        assert "a" == text_of(found)
        assert {"type": "abort", "reason": "cancelled"} == found[-1]
        assert 204 == (await relay.client.post("/v1/ui/chat/another/stop")).status_code


async def test_failures_are_a_status_and_a_message():
    async with serve_script([head("429 Too Many"), send("{}")]) as (relay, upstream):
        response = await relay.client.post("/v1/ui/chat", json=BODY)
        assert 429 == response.status_code
        assert "text/plain" in response.headers["content-type"]
        assert "rate limit" in response.text.lower() or "429" in response.text
        response = await relay.client.post("/v1/ui/chat", json={**BODY, "mode": "x"})
        assert (400, "unknown field `mode`") == (response.status_code, response.text)
        upstream.script = [head(), send(text("half"))]
        found = await post(relay)
        assert ["data-seseragi", "error"] == [chunk["type"] for chunk in found[-2:]]
        assert "upstream_truncated" == found[-2]["data"]["error"]["code"]


async def test_result_without_streaming_is_the_list_of_chunks():
    async with serve_script(CLEAN) as (relay, _):
        response = await relay.client.post("/v1/ui/chat", json={**BODY, "stream": False})

        read_message(response.json())
        assert "ab" == text_of(response.json())


async def test_too_many_readers_are_told():
    async with (
        serve_script([head(), send(text("a")), Hold()], max_readers=1) as (relay, _),
        relay.client.stream("POST", "/v1/ui/chat", json=BODY),
    ):
        response = await relay.client.get(f"{URL}/stream")
        assert 503 == response.status_code
        assert "which is the limit" in response.text
        await relay.client.post(f"{URL}/stop")


async def test_leaving_does_not_stop_the_chat():
    rest_comes = Until()
    script: list[Step] = [head(), send(text("a")), rest_comes, send(text("b") + FINISH + DONE)]
    async with serve_script(script, linger_s=5) as (relay, _):
        stream = await leave_at_the_text(relay)
        await cut_off(relay, others=0)
        rest_comes.told.set()
        await text_so_far(relay, stream, "ab")
        found = await resume(relay)

        assert found is not None
        assert "ab" == text_of(found)


@pytest.mark.parametrize("body", [b"{}", b"[1]", b'{"id": "x"}', b"\xff", b"[" * 90_000])
async def test_junk_is_refused_in_words(body):
    async with serve_relay() as relay:
        headers = {"content-type": "application/json"}
        response = await relay.client.post("/v1/ui/chat", content=body, headers=headers)

        assert 400 == response.status_code
        assert response.text
