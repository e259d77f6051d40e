"""Compacting a conversation of Responses: real sockets, and OpenAI's own client."""

import json
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from app.dialects.openai_responses.client.compaction import MAX_RETAINED
from app.dialects.openai_responses.compaction_summary import INSTRUCTION
from app.testing.upstream import DONE, FINISH, event, head, reply, send, serve_upstream, text
from tests.agents.scripted import responses
from tests.api.test_openai_responses import HI, serve
from tests.api.test_stored_responses import said
from tests.serving import serve_relay

M = "openai/m"
NEXT: Any = {"role": "user", "content": "next"}
TALK: list[Any] = [
    {"role": "developer", "content": "Be brief."},
    {"role": "user", "content": "one"},
    {"role": "assistant", "content": "two"},
    {"role": "user", "content": [{"type": "input_text", "text": "three"}]},
]
PATH = "/v1/responses/compact"
CALL = {"id": "c1", "type": "function", "function": {"name": "now", "arguments": "{}"}}


def kept(compacted: Any) -> list[str]:
    """The texts of the user's messages, which come before one compaction."""
    *messages, last = compacted.output
    assert ("compaction", {"user"}) == (last.type, {message.role for message in messages})
    return [part.text for message in messages for part in message.content]


async def test_summary_is_the_conversation_for_whoever_is_asked_next():
    async with serve() as (upstream, _, client):
        compacted = await client.responses.compact(model=M, input=TALK, instructions="Hm.")
        asked = said(upstream)
        items: Any = [item.to_dict(warnings=False) for item in compacted.output]
        await client.responses.create(model=M, input=[*items, NEXT])

        assert (["one", "three"], 5) == (kept(compacted), compacted.usage.total_tokens)
        assert ("system", "Hm.") == asked[0]
        assert [("user", INSTRUCTION)] == asked[5:]
        assert [("user", True), ("user", "next")] == [
            (role, content.endswith("\n\nHi 🌊") or content) for role, content in said(upstream)[2:]
        ]


async def test_stored_response_is_compacted_and_found_no_more_by_the_compaction():
    async with serve() as (upstream, _, client):
        first = await client.responses.create(model=M, input="one")
        compacted = await client.responses.compact(model=M, previous_response_id=first.id)

        assert ["one"] == kept(compacted)
        assert [("user", "one"), ("assistant", "Hi 🌊"), ("user", INSTRUCTION)] == said(upstream)
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(compacted.id)


async def test_key_gives_the_same_compaction_again_and_no_response():
    async with serve() as (upstream, relay, _):
        body, headers = {"model": M, "input": "one"}, {"idempotency-key": "k"}
        first, second = [
            await relay.client.post(PATH, json=body, headers=headers) for _ in range(2)
        ]
        other = await relay.client.post("/v1/responses", json=body, headers=headers)

    assert (200, first.content, 422) == (first.status_code, second.content, other.status_code)
    assert 1 == len(upstream.calls)


async def test_last_messages_of_the_user_are_kept_up_to_a_bound():
    long: Any = {"role": "user", "content": "x" * (MAX_RETAINED - 80)}
    async with serve() as (_, _, client):
        compacted = await client.responses.compact(model=M, input=[NEXT, NEXT, long, NEXT])

    assert [len(long["content"]), 4] == [len(message) for message in kept(compacted)]


@pytest.mark.parametrize(
    ("script", "status", "told"),
    [
        ([head(), send(FINISH + DONE)], 502, "wrote no summary of the conversation: its answer"),
        ([head(), send(text("Hi") + event(finish_reason="length") + DONE)], 502, "was cut (max_"),
        (reply("401 Unauthorized", "{}"), 401, "upstream"),
    ],
)
async def test_conversation_without_a_summary_is_an_error(script, status: int, told: str):
    async with serve() as (upstream, relay, _):
        upstream.script = script
        answer = await relay.client.post(PATH, json={"model": M, "input": TALK})

    assert (status, True) == (answer.status_code, told in answer.json()["error"]["message"])


@pytest.mark.parametrize("delta", [{}, {"tool_calls": [{"index": 0, **CALL}]}])
async def test_response_without_the_compaction_that_was_asked_for_fails(delta: dict[str, Any]):
    async with serve() as (upstream, relay, client):
        upstream.script = [head(), send(event(delta) + FINISH + DONE)]
        body: dict[str, Any] = {"model": M, "input": [*TALK, {"type": "compaction_trigger"}]}
        whole = await relay.client.post("/v1/responses", json=body)
        streamed = await relay.client.post("/v1/responses", json={**body, "stream": True})
        last = json.loads(streamed.text.split("data: ")[-1].partition("\n")[0])["response"]
        found = await client.responses.retrieve(last["id"])

    assert (502, True) == (whole.status_code, "no summary" in whole.json()["error"]["message"])
    assert ("failed", [], "failed") == (last["status"], last["output"], found.status)
    assert "event: error\n" in streamed.text


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"input": "one"}, "model: missing"),
        ({"model": M}, "input: missing"),
        ({"model": M, "input": None, "previous_response_id": None}, "input: missing"),
        ({"model": M, "input": 3}, "input: expected"),
        ({"model": M, "input": [3]}, "input[0]: expected"),
        ({"model": M, "input": "one", "conversation": "c"}, "conversation: not supported"),
        ([], "expected `object`"),
    ],
)
async def test_what_cannot_be_compacted_is_told_before_an_upstream_is_asked(body: Any, told: str):
    async with serve() as (upstream, relay, _):
        answer = await relay.client.post(PATH, json=body)

    assert (400, []) == (answer.status_code, upstream.calls)
    assert told in answer.json()["error"]["message"]


async def test_providers_own_compaction_goes_to_no_other(tmp_path: Path):
    item = {"id": "cmp_1", "type": "compaction", "encrypted_content": "E"}
    config = tmp_path / "seseragi.toml"
    async with serve_upstream() as upstream, serve_upstream() as other:
        upstream.script = [head(), send(b"".join(responses(item, done=item)))]
        other.script = HI
        url = upstream.base_url.removesuffix("/v1")
        config.write_text(
            f'[upstream.own]\nbase_url = "{url}"\ndialect = "openai_responses"\n'
            f'quirks = {{ compaction = true }}\n[upstream.other]\nbase_url = "{other.base_url}"\n'
            '[[route]]\nname = "both"\ntargets = ["other/m", "own/m"]\n'
        )
        async with (
            serve_relay(environ={"SESERAGI_CONFIG": str(config)}) as relay,
            AsyncOpenAI(api_key="k", base_url=f"{relay.url}/v1", max_retries=0) as client,
        ):
            compacted = await client.responses.compact(model="own/m", input=TALK)
            items: Any = [compacted.output[-1].to_dict(), NEXT]
            await client.responses.create(model="both", input=items)
            body = {"model": "other/m", "input": items, "stream": True}
            alone = await relay.client.post("/v1/responses", json=body)
            events = await relay.client.get(f"/v1/streams/{alone.headers['stream-id']}/events")

    assert ["one", "three"] == kept(compacted)
    assert {"type": "compaction_trigger"} == upstream.calls[0].json["input"][-1]
    given = {"type": "compaction", "encrypted_content": "E"}
    assert [given, NEXT] == upstream.calls[1].json["input"]
    assert [[NEXT]] == [call.json["messages"] for call in other.calls]
    assert "does not support input[0]: a provider's compaction: dropped" in events.text
