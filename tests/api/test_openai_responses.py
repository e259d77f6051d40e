"""Responses towards clients: real sockets, and OpenAI's own Python client."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx
import httpx2
import openai
import pytest
from openai import AsyncOpenAI

from app.testing.upstream import (
    DONE,
    FINISH,
    USAGE,
    Hold,
    Step,
    Until,
    Upstream,
    event,
    head,
    reply,
    send,
    text,
    wait,
)
from tests.api.bodies import body_of
from tests.cutting import cutting_proxy, randomly
from tests.serving import Relay, read_messages, serve_script
from tests.waiting import until

ASK: dict[str, Any] = {"model": "openai/m", "input": "hello"}
PATH = "/v1/responses"
HI: list[Step] = [head(), send(text("Hi ") + text("🌊")), send(FINISH + USAGE + DONE)]
WORDS = [f"{number} せせらぎ🌊 " for number in range(60)]
PACED: list[Step] = [
    head(),
    *(step for word in WORDS for step in (send(text(word)), wait(0.001))),
    send(FINISH + DONE),
]

CUT = (openai.APIError, ValueError, httpx.HTTPError, httpx2.HTTPError)
"""What the client raises at a cut, some of it from whichever HTTP library it uses."""


@asynccontextmanager
async def serve(**settings: Any) -> AsyncIterator[tuple[Upstream, Relay, AsyncOpenAI]]:
    async with (
        serve_script(HI, **settings) as (relay, upstream),
        AsyncOpenAI(api_key="k", base_url=f"{relay.url}/v1", max_retries=0) as client,
    ):
        yield upstream, relay, client


async def test_frames_have_ids_and_names():
    async with serve() as (_, relay, _):
        async with relay.client.stream("POST", PATH, json={**ASK, "stream": True}) as answer:
            messages = await read_messages(answer)
            stream = answer.headers["stream-id"]

        payloads = [json.loads(message.data) for message in messages]
        assert [f"{stream}.r{n}" for n in range(1, len(messages) + 1)] == [m.id for m in messages]
        assert [*range(len(messages))] == [p["sequence_number"] for p in payloads]
        assert [p["type"] for p in payloads] == [m.event for m in messages]
        assert "response.completed" == messages[-1].event


async def test_client_streams_and_gets_the_whole():
    async with serve() as (_, _, client):
        stream = await client.responses.create(**ASK, stream=True)
        events = [event async for event in stream]
        whole = await client.responses.create(**ASK, metadata={"a": "b"})

        assert ["Hi ", "🌊"] == [e.delta for e in events if e.type == "response.output_text.delta"]
        assert ("Hi 🌊", "completed") == (whole.output_text, whole.status)
        assert {"a": "b"} == whole.metadata
        usage = whole.usage
        assert usage is not None
        assert (3, 2, 5) == (usage.input_tokens, usage.output_tokens, usage.total_tokens)


async def test_helper_gets_calls_and_their_output_goes_back():
    async with serve() as (upstream, _, client):
        call = {"index": 0, "id": "c1", "function": {"name": "now", "arguments": '{"a":1}'}}
        upstream.script = [
            head(),
            send(event({"reasoning_content": "Hm.", "tool_calls": [call]})),
            send(event(finish_reason="tool_calls") + DONE),
        ]
        tool: Any = {"type": "function", "name": "now", "parameters": {}, "strict": False}
        async with client.responses.stream(**ASK, tools=[tool]) as stream:
            final = await stream.get_final_response()

        reasoning, made = final.output
        assert ("reasoning", "function_call") == (reasoning.type, made.type)
        upstream.script = HI
        result = {"type": "function_call_output", "call_id": "c1", "output": "12:00"}
        turn: Any = [{"role": "user", "content": "hello"}, *final.output, result]
        answer = await client.responses.create(model=ASK["model"], input=turn, tools=[tool])
        assert "Hi 🌊" == answer.output_text
        _, assistant, told = upstream.calls[-1].json["messages"]
        assert '{"a":1}' == assistant["tool_calls"][0]["function"]["arguments"]
        assert ("tool", "12:00") == (told["role"], told["content"])


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.proving) for n in (1, 2))])
@pytest.mark.parametrize("how", ["fin", "rst"])
async def test_client_reads_on_after_each_cut(seed, how):
    async with serve() as (upstream, relay, client):
        upstream.script = PACED
        response = await client.responses.create(**ASK, background=True)
        plan = randomly(seed, least=1500, most=4000, hows=(how,))
        seen: list[Any] = []
        async with (
            cutting_proxy(relay.port, plan) as proxy,
            AsyncOpenAI(
                api_key="k", base_url=f"http://127.0.0.1:{proxy.port}/v1", max_retries=0
            ) as through,
        ):
            while not seen or seen[-1].type != "response.completed":
                after = {"starting_after": seen[-1].sequence_number} if seen else {}
                try:
                    stream: Any = await through.responses.retrieve(
                        response.id, stream=True, **after
                    )
                    async for one in stream:
                        seen.append(one)
                except CUT:
                    pass
            assert proxy.cuts > 2

        assert [*range(len(seen))] == [one.sequence_number for one in seen]
        said = [one.delta for one in seen if one.type == "response.output_text.delta"]
        assert WORDS == said
        assert 1 == len(upstream.calls)


async def test_helper_reads_on_by_itself_from_a_number():
    async with serve() as (_, _, client):
        response = await client.responses.create(**ASK)
        async with client.responses.stream(response_id=response.id, starting_after=3) as stream:
            numbers = [one.sequence_number async for one in stream]
            final = await stream.get_final_response()

        assert 4 == numbers[0]
        assert "Hi 🌊" == final.output_text


async def test_response_in_the_background_goes_on_alone():
    async with serve(linger_s=0) as (upstream, relay, client):
        rest = Until()
        upstream.script = [*HI[:2], rest, *HI[2:]]
        response = await client.responses.create(**ASK, background=True, metadata={"a": "b"})
        assert response.status in ("queued", "in_progress")
        assert (True, {"a": "b"}) == (response.background, response.metadata)
        await until(lambda: relay.hub.load().readers == 0)
        found = await client.responses.retrieve(response.id)
        assert found.status in ("queued", "in_progress")
        rest.told.set()

        async def is_complete() -> bool:
            return (await client.responses.retrieve(response.id)).status == "completed"

        await until(is_complete)
        assert "Hi 🌊" == (await client.responses.retrieve(response.id)).output_text


async def test_response_in_the_background_that_fails_says_so():
    async with serve() as (upstream, _, client):
        upstream.script = reply("503 Busy", "{}")
        response = await client.responses.create(**ASK, background=True)
        stream = await client.responses.retrieve(response.id, stream=True)
        with pytest.raises(openai.APIError, match="overloaded"):
            [one async for one in stream]
        found = await client.responses.retrieve(response.id)

        assert found.error is not None
        assert ("server_error", "upstream_overloaded") == (found.error.code, found.error.type)


async def test_cancelled_response_keeps_what_it_said():
    async with serve() as (upstream, _, client):
        upstream.script = [head(), send(text("Hi")), Hold()]
        stream = await client.responses.create(**ASK, background=True, stream=True)
        seen: list[Any] = []

        async def stop_at_the_text() -> None:
            async for one in stream:
                seen.append(one)
                if one.type == "response.output_text.delta":
                    await client.responses.cancel(seen[0].response.id)

        with pytest.raises(openai.APIError) as stopped:
            await stop_at_the_text()
        cancelled = await client.responses.retrieve(seen[0].response.id)
        again = await client.responses.cancel(cancelled.id)

        assert ("cancelled", "Hi") == (cancelled.status, cancelled.output_text)
        assert cancelled == again
        assert ("cancelled", "cancelled") == (stopped.value.code, stopped.value.type)
        await asyncio.wait_for(upstream.calls[0].closed.wait(), 20)


async def test_deleted_response_is_gone():
    async with serve() as (_, relay, client):
        response = await client.responses.create(**ASK)
        await client.responses.delete(response.id)
        gone = await relay.client.get(f"{PATH}/{response.id}")

        assert (404, "not_found") == (gone.status_code, gone.json()["error"]["code"])


async def test_response_is_found_by_its_id_in_every_log_and_after_a_restart(log):
    settings = {"log": log, "linger_s": 0}
    async with AsyncExitStack() as stack:
        upstream, _, client = await stack.enter_async_context(serve(**settings))
        upstream.script = HI
        streamed = [one async for one in await client.responses.create(**ASK, stream=True)]
        found = await client.responses.retrieve(streamed[0].response.id)
        whole = await client.responses.create(**ASK)
        raw = await client.responses.with_raw_response.create(**ASK, background=True)
        if log != "memory":  # another process that has the same log
            if log.startswith("sqlite"):
                await stack.aclose()
            _, _, client = await stack.enter_async_context(serve(**settings))
        again = await client.responses.retrieve(found.id)
        cancelled = await client.responses.cancel(whole.id)
        await client.responses.delete(whole.id)
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(whole.id)

    assert found == again == streamed[-1].response
    assert "Hi 🌊" == again.output_text
    assert "completed" == cancelled.status
    secret = raw.headers["stream-id"].removeprefix("st_")
    assert secret not in raw.text


async def test_response_is_no_way_to_a_stream_of_another_dialect():
    async with serve() as (_, relay, client):
        body = {"model": "openai/m", "messages": [{"role": "user", "content": "hello"}]}
        async with relay.client.stream("POST", "/v1/chat", json=body) as answer:
            await answer.aread()
            stream = answer.headers["stream-id"]
        seen = await relay.client.get(f"/v1/streams/{stream}/events?format=openai_responses")
        (shown,) = set(re.findall(r'"id":"(resp_[^"]+)"', seen.text))
        secret = stream.removeprefix("st_")

        assert secret not in shown
        for name in (shown, f"resp_{secret}", stream):
            with pytest.raises(openai.NotFoundError):
                await client.responses.retrieve(name)
            with pytest.raises(openai.NotFoundError):
                await client.responses.delete(name)
        assert 200 == (await relay.client.get(f"/v1/streams/{stream}")).status_code


@pytest.mark.parametrize(
    "path", [PATH, "/v1/chat/completions", "/v1/messages", "/v1/ui/chat", "/v1/ag-ui"]
)
async def test_what_clients_are_shown_reads_and_deletes_no_stream(path):
    async with serve() as (upstream, relay, _):
        call = {"index": 0, "function": {"name": "now", "arguments": "{}"}}
        upstream.script = [
            head(),
            send(text("Hi") + event({"tool_calls": [call]})),
            send(event(finish_reason="tool_calls") + DONE),
        ]
        async with relay.client.stream("POST", path, json=body_of(path)) as answer:
            messages = await read_messages(answer)
            stream = answer.headers["stream-id"]
        secret = stream.removeprefix("st_")
        own = '"type":"stream.start"'  # of the relay's own, for the page's code

        shown = [m.data for m in messages if own not in m.data]
        assert all(secret not in data for data in shown)
        for word in set(re.findall(r"[\w-]{20,}", "".join(shown))):
            for token in (word, word[-22:], word.partition("_")[2][:22], word[-24:-2]):
                assert 404 == (await relay.client.get(f"/v1/streams/st_{token}")).status_code


@pytest.mark.parametrize("after", [100, 10_000])
async def test_number_beyond_the_last_is_refused(after):
    async with serve() as (_, _, client):
        response = await client.responses.create(**ASK)
        with pytest.raises(openai.BadRequestError):
            await client.responses.retrieve(response.id, stream=True, starting_after=after)


async def test_last_number_gives_an_empty_stream():
    async with serve() as (_, _, client):
        response = await client.responses.create(**ASK)
        stream = await client.responses.retrieve(response.id, stream=True)
        last = [one async for one in stream][-1]
        rest = await client.responses.retrieve(
            response.id, stream=True, starting_after=last.sequence_number
        )

        assert [] == [one async for one in rest]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("st_4fJ9qXw0V1cT8mYbR2nZkQ", 404),
        ("resp_unknown", 404),
        ("resp_unknown?stream=true", 404),
        ("resp_unknown?stream=true&starting_after=x", 400),
        (f"resp_unknown?stream=true&starting_after={'9' * 400}", 400),
    ],
)
async def test_what_is_not_there_is_an_error_of_the_format(path, status):
    async with serve() as (_, relay, _):
        answer = await relay.client.get(f"{PATH}/{path}")
        assert status == answer.status_code
        assert {"message", "type", "param", "code"} == answer.json()["error"].keys()
        for call in (relay.client.post(f"{PATH}/resp_x/cancel"), relay.client.delete(f"{PATH}/x")):
            assert "not_found" == (await call).json()["error"]["code"]


async def test_errors_before_the_answer_are_raised():
    async with serve() as (upstream, _, client):
        with pytest.raises(openai.BadRequestError) as refused:
            await client.responses.create(**ASK, previous_response_id="resp_x")
        upstream.script = reply("429 Slow", "{}")
        for streams in (True, False):
            with pytest.raises(openai.RateLimitError):
                await client.responses.create(**ASK, stream=streams)

        assert "previous_response_id" == refused.value.param


async def test_failure_in_the_answer_is_raised():
    async with serve() as (upstream, _, client):
        upstream.script = [head(), send(text("Hi"))]
        stream = await client.responses.create(**ASK, stream=True)
        with pytest.raises(openai.APIError) as failed:
            [one async for one in stream]
        assert ("server_error", "upstream_truncated") == (failed.value.code, failed.value.type)
        with pytest.raises(openai.InternalServerError):
            await client.responses.create(**ASK)


@pytest.mark.parametrize("ending", ["failed", "incomplete"])
async def test_error_comes_before_the_last_event_and_is_numbered(ending):
    async with serve() as (upstream, relay, _):
        upstream.script = [head(), send(text("Hi")), *([] if ending == "failed" else [Hold()])]
        body = {**ASK, "background": True, "stream": True}
        async with relay.client.stream("POST", PATH, json=body) as answer:
            if ending == "incomplete":
                await relay.client.post(f"/v1/streams/{answer.headers['stream-id']}/cancel")
            sent = [json.loads(one.data) for one in await read_messages(answer)]
        path = f"{PATH}/{sent[0]['response']['id']}"
        for after, left in ((len(sent) - 3, 2), (len(sent) - 2, 1), (len(sent) - 1, 0)):
            asked: dict[str, Any] = {"stream": "true", "starting_after": after}
            async with relay.client.stream("GET", path, params=asked) as answer:
                rest = [json.loads(one.data) for one in await read_messages(answer)]
            assert sent[len(sent) - left :] == rest

        *_, error, last = sent
        assert ("error", f"response.{ending}") == (error["type"], last["type"])
        assert [*range(len(sent))] == [one["sequence_number"] for one in sent]
        flat = {name: error[name] for name in ("code", "message", "param")}
        assert {**flat, "type": error["error"]["type"]} == error["error"]
        if ending == "failed":
            assert {**last["response"]["error"], "param": None} == error["error"]
        else:
            assert ("cancelled", "cancelled") == (error["code"], last["response"]["status"])


async def test_client_that_leaves_can_come_back():
    async with serve() as (upstream, _, client):
        rest = Until()
        upstream.script = [*PACED[:20], rest, *PACED[20:]]
        stream = await client.responses.create(**ASK, stream=True, background=True)
        seen: list[Any] = []
        async for one in stream:
            seen.append(one)
            if len(seen) == 10:
                break
        await stream.close()
        rest.told.set()
        more: Any = await client.responses.retrieve(
            seen[0].response.id, stream=True, starting_after=seen[-1].sequence_number
        )
        seen += [one async for one in more]

        assert WORDS == [one.delta for one in seen if one.type == "response.output_text.delta"]
        assert 1 == len(upstream.calls)
