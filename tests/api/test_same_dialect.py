"""A provider of Responses for clients of Responses: OpenAI's own client, directly and by the relay."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from openai import AsyncOpenAI

from app.testing.upstream import Upstream, head, send, serve_upstream
from tests.dialects.openai_responses.own_items import ITEMS, Item, body, text
from tests.dialects.openai_responses.test_same_dialect import EXCUSED, differences, lost
from tests.serving import serve_relay

MODEL = "openai/m"
SEARCH = ITEMS["a web search between two messages"]


@asynccontextmanager
async def serve(*items: Item) -> AsyncIterator[tuple[Upstream, AsyncOpenAI, AsyncOpenAI]]:
    """Serve a provider; return it, and its client directly and by the relay."""
    async with serve_upstream() as upstream:
        upstream.script = [head(), send(body(*items))]
        async with (
            serve_relay(upstream, dialect="openai_responses") as relay,
            AsyncOpenAI(api_key="k", base_url=upstream.base_url, max_retries=0) as direct,
            AsyncOpenAI(api_key="k", base_url=f"{relay.url}/v1", max_retries=0) as client,
        ):
            yield upstream, direct, client


async def read_stream(client: AsyncOpenAI, model: str) -> tuple[list[Any], dict[str, Any]]:
    """Return the events as they came, and the whole that the client makes of them."""
    async with client.responses.stream(model=model, input="Hi") as stream:
        events = [event async for event in stream]
        final = await stream.get_final_response()
    return [event.to_dict(warnings=False) for event in events], final.to_dict(warnings=False)


@pytest.mark.parametrize("name", ITEMS)
async def test_the_official_client_reads_the_same(name: str) -> None:
    async with serve(*ITEMS[name]) as (_, direct, client):
        sent, wanted = await read_stream(direct, "m")
        received, final = await read_stream(client, MODEL)
        whole = await client.responses.create(model=MODEL, input="Hi")
        kept = await client.responses.retrieve(final["id"])

    assert lost(sent, received) <= EXCUSED
    assert {f"response.{path}" for path in differences(wanted, final)} <= EXCUSED
    assert {
        f"response.{path}" for path in differences(wanted, whole.to_dict(warnings=False))
    } <= EXCUSED
    assert [] == [*differences(kept.to_dict(warnings=False), final)]
    assert [item["type"] for item in wanted["output"]] == [item.type for item in whole.output]


async def test_a_conversation_goes_on_with_the_items_of_the_provider() -> None:
    async with serve(*SEARCH) as (upstream, _, client):
        first = await client.responses.create(model=MODEL, input="Hi")
        second = await client.responses.create(
            model=MODEL, input="And now?", previous_response_id=first.id
        )
        references: Any = [{"type": "item_reference", "id": item.id} for item in first.output]
        again: Any = {"role": "user", "content": "Again?"}
        await client.responses.create(model=MODEL, input=[*references, again])
        items = await client.responses.input_items.list(second.id, order="asc")
        elsewhere = await client.responses.create(
            model="demo", input="And you?", previous_response_id=second.id
        )

    search = {**SEARCH[1][0], **SEARCH[1][2]}
    assert ["user", "assistant", None, "assistant", "user"] == [
        item.get("role") for item in upstream.calls[1].json["input"]
    ]
    assert search == upstream.calls[1].json["input"][2]
    assert [*upstream.calls[1].json["input"][1:4], again] == upstream.calls[2].json["input"]
    assert [item.id for item in items.data][1:4] == [item.id for item in first.output]
    assert "completed" == elsewhere.status


async def test_other_clients_receive_what_they_did() -> None:
    async with serve(*SEARCH, text("!")) as (_, _, client):
        chat = await client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": "Hi"}]
        )

    assert "Let me see.Tea.!" == chat.choices[0].message.content
