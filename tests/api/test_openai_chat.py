"""Chat Completions towards clients: real sockets, and OpenAI's own Python client."""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from app.testing.upstream import (
    DONE,
    FINISH,
    USAGE,
    Hold,
    Step,
    Upstream,
    event,
    head,
    reply,
    send,
    serve_upstream,
    text,
)
from tests.serving import Relay, read_messages, serve_relay

ASK: dict[str, Any] = {"model": "openai/m", "messages": [{"role": "user", "content": "hello"}]}
PATH = "/v1/chat/completions"
HI: list[Step] = [head(), send(text("Hi ") + text("🌊")), send(FINISH + USAGE + DONE)]


@asynccontextmanager
async def serve(*, retries: int = 0) -> AsyncIterator[tuple[Upstream, Relay, AsyncOpenAI]]:
    async with (
        serve_upstream() as upstream,
        serve_relay(upstream) as relay,
        AsyncOpenAI(api_key="k", base_url=f"{relay.url}/v1", max_retries=retries) as client,
    ):
        yield upstream, relay, client


async def test_frames_of_a_post_are_data_alone_and_those_of_a_get_have_ids():
    async with serve() as (upstream, relay, _):
        upstream.script = HI
        async with relay.client.stream("POST", PATH, json={**ASK, "stream": True}) as answer:
            body = b"".join([piece async for piece in answer.aiter_bytes()])
            stream = answer.headers["stream-id"]

        assert 200 == answer.status_code
        assert "text/event-stream" in answer.headers["content-type"]
        sent = body.removesuffix(b"\n\n").split(b"\n\n")
        assert all(re.fullmatch(rb"data: (\{.*\}|\[DONE\])", frame) for frame in sent)
        assert b"data: [DONE]" == sent[-1]

        # As many as were read name the next one.
        url = f"/v1/streams/{stream}/events?format=openai_chat"
        async with relay.client.stream("GET", f"{url}&after=3") as rest:
            again = await read_messages(rest)
        assert sent[3:] == [b"data: " + message.data.encode() for message in again]
        assert [f"{stream}.c{n}" for n in (4, 5)] == [message.id for message in again]
        headers = {"last-event-id": f"{stream}.c4"}
        async with relay.client.stream("POST", PATH, json=ASK, headers=headers) as rest:
            (last,) = await read_messages(rest)
        assert ("[DONE]", f"{stream}.c5") == (last.data, last.id)


async def test_members_of_the_provider_are_read_again_from_any_cursor():
    details = [{"type": "reasoning.text", "index": 0, "text": "Hm"}]
    constant = {"system_fingerprint": "fp", "key": "sk-test-0123456789"}
    chunks = [
        {"prompt_filter_results": [{"prompt_index": 0}], "choices": []},
        *(_chunk({"reasoning": "Hm", "reasoning_details": details}) for _ in range(3)),
        *(_chunk({"content": "a"}, content_filter_results={"n": n}) for n in range(3)),
        _chunk({}, finish_reason="stop", native_finish_reason="end_turn"),
    ]
    lines = [f"data: {json.dumps({'id': 'u', 'model': 'm', **constant, **c})}\n\n" for c in chunks]
    async with serve() as (upstream, relay, _):
        upstream.script = [head(), *map(send, lines), send(DONE)]
        async with relay.client.stream("POST", PATH, json={**ASK, "stream": True}) as answer:
            messages = await read_messages(answer)
            stream = answer.headers["stream-id"]
        for place in range(len(messages) - 1):
            after = f"/v1/streams/{stream}/events?format=openai_chat&after={place + 1}"
            async with relay.client.stream("GET", after) as rest:
                again = await read_messages(rest)
            assert [m.data for m in messages[place + 1 :]] == [m.data for m in again]
        native = await relay.client.get(f"/v1/streams/{stream}/events")

    frames = [json.loads(message.data) for message in messages[:-1]]
    assert chunks[0]["prompt_filter_results"] == frames[0]["prompt_filter_results"]
    assert 3 == sum(f["choices"][0]["delta"].get("reasoning_details") == details for f in frames)
    assert "end_turn" == frames[-1]["choices"][0]["native_finish_reason"]
    assert {"fp"} == {frame["system_fingerprint"] for frame in frames}
    assert "sk-test-0123456789" not in native.text + "".join(m.data for m in messages)
    assert '"type":"provider_data"' in native.text


def _chunk(delta: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": None, **fields}]}


async def test_client_streams():
    async with serve() as (upstream, _, client):
        upstream.script = HI
        stream = await client.chat.completions.create(
            **ASK, stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]

        said = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices]
        assert ["", "Hi ", "🌊", None] == said
        assert chunks[-1].usage is not None
        assert (3, 2, 5) == (
            chunks[-1].usage.prompt_tokens,
            chunks[-1].usage.completion_tokens,
            chunks[-1].usage.total_tokens,
        )
        assert {"m-1"} == {chunk.model for chunk in chunks}


async def test_client_gets_the_whole():
    async with serve() as (upstream, _, client):
        upstream.script = HI
        whole = await client.chat.completions.create(**ASK)

        assert ("Hi 🌊", "stop") == (
            whole.choices[0].message.content,
            whole.choices[0].finish_reason,
        )
        assert upstream.calls[0].json["stream"] is True


async def test_helper_puts_choices_and_calls_together():
    async with serve() as (upstream, _, client):
        call = {"index": 0, "id": "c1", "function": {"name": "now", "arguments": '{"a":'}}
        upstream.script = [
            head(),
            send(event({"content": "one"}, index=1)),
            send(event({"reasoning_content": "Hm.", "tool_calls": [call]})),
            send(event({"tool_calls": [{"index": 0, "function": {"arguments": "1}"}}]})),
            send(event(finish_reason="tool_calls") + event(finish_reason="stop", index=1) + DONE),
        ]
        tool: Any = {"type": "function", "function": {"name": "now", "parameters": {}}}
        async with client.chat.completions.stream(**ASK, n=2, tools=[tool]) as stream:
            final = await stream.get_final_completion()

        first, second = final.choices
        assert first.message.tool_calls is not None
        assert ('{"a":1}', "tool_calls", "one", "stop") == (
            first.message.tool_calls[0].function.arguments,
            first.finish_reason,
            second.message.content,
            second.finish_reason,
        )
        # And back, as the client dumps it.
        upstream.script = HI
        turn: Any = [
            *ASK["messages"],
            first.message,
            {"role": "tool", "tool_call_id": "c1", "content": "12:00"},
        ]
        await client.chat.completions.create(model=ASK["model"], messages=turn)
        sent = upstream.calls[-1].json["messages"][1]
        assert '{"a":1}' == sent["tool_calls"][0]["function"]["arguments"]


@pytest.mark.parametrize(
    ("fields", "kind", "param"),
    [
        ({"extra_body": {"models": ["m"]}}, openai.BadRequestError, "models"),
        ({"functions": [{"name": "f"}]}, openai.BadRequestError, "functions"),
    ],
)
async def test_client_raises_the_right_class(fields, kind, param):
    async with serve() as (_, _, client):
        with pytest.raises(kind) as caught:
            await client.chat.completions.create(**{**ASK, **fields})

        assert param == caught.value.param


@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        ("429 Slow", openai.RateLimitError, "rate_limit_exceeded"),
        ("401 No", openai.AuthenticationError, "upstream_auth"),
        ("403 No", openai.PermissionDeniedError, "upstream_forbidden"),
        ("402 Pay", openai.APIStatusError, "insufficient_quota"),
        ("404 No", openai.NotFoundError, "model_not_found"),
        ("400 Bad", openai.BadRequestError, "upstream_invalid_request"),
    ],
)
@pytest.mark.parametrize("streams", [True, False])
async def test_failure_before_the_answer_is_a_status(status, kind, code, streams):
    async with serve() as (upstream, _, client):
        upstream.script = reply(status, '{"error": {"message": "no"}}')
        with pytest.raises(kind) as caught:
            await client.chat.completions.create(**ASK, stream=streams)

        assert code == caught.value.code


@pytest.mark.parametrize(
    ("status", "times"), [("401 No", 1), ("403 No", 1), ("402 Pay", 1), ("503 Busy", 2)]
)
async def test_client_sends_again_only_what_may_pass(status, times):
    async with serve(retries=1) as (upstream, _, client):
        upstream.script = reply(status, "{}", retry_after="0")
        with pytest.raises(openai.APIStatusError):
            await client.chat.completions.create(**ASK)

        assert times == len(upstream.calls)


async def test_failure_in_the_answer_is_raised_and_not_the_end():
    async with serve() as (upstream, relay, client):
        upstream.script = [head(), send(text("Hi"))]
        stream = await client.chat.completions.create(**ASK, stream=True)
        with pytest.raises(openai.APIError) as caught:
            _ = [chunk async for chunk in stream]
        async with relay.client.stream("POST", PATH, json={**ASK, "stream": True}) as answer:
            messages = await read_messages(answer)

        assert "upstream_truncated" == caught.value.code
        *chunks, failure = [json.loads(message.data) for message in messages]
        assert "upstream_truncated" == failure["error"]["code"]
        assert [None, None] == [chunk["choices"][0]["finish_reason"] for chunk in chunks]


async def test_client_takes_no_cancelled_stream_for_a_whole_one():
    async with serve() as (upstream, relay, client):
        upstream.script = [head(), send(text("Hi")), Hold()]
        asked = client.chat.completions.with_raw_response
        answer = await asked.create(**ASK, stream=True)
        await relay.client.post(f"/v1/streams/{answer.headers['stream-id']}/cancel")
        reasons = []
        with pytest.raises(openai.APIError) as raised:  # noqa: PT012  (it comes while reading)
            async for chunk in answer.parse():
                reasons += [choice.finish_reason for choice in chunk.choices]

        assert "cancelled" == raised.value.code
        assert not any(reasons)
