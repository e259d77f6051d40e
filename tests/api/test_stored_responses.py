"""Responses that go on from stored ones: real sockets, OpenAI's own client, every log."""

import json
from typing import Any

import httpx2
import openai
import pytest

from app.generation.owned_streams import OwnedStream, OwnedStreams
from app.identity.principal import ANYONE
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
    text,
)
from tests.api.test_openai_responses import HI, PATH, serve
from tests.clock import Clock
from tests.serving import Relay, serve_relay, serve_script

M = "openai/m"
GIVEN = {"index": 0, "id": "c1", "function": {"name": "now", "arguments": '{"a":1}'}}
CALLS: list[Step] = [
    head(),
    send(event({"reasoning_content": "Hm.", "tool_calls": [GIVEN]})),
    send(event(finish_reason="tool_calls") + USAGE + DONE),
]
TOOL: Any = {"type": "function", "name": "now", "parameters": {}, "strict": False}
RESULT: Any = {"type": "function_call_output", "call_id": "c1", "output": "12:00"}


def said(upstream: Upstream) -> list[tuple[str, Any]]:
    """Who said what in the last request that the upstream has got."""
    return [(m["role"], m.get("content")) for m in upstream.calls[-1].json["messages"]]


async def ask(relay: Relay, **fields: Any) -> httpx2.Response:
    return await relay.client.post(PATH, json={"model": M, "input": "hello", **fields})


async def list_items(relay: Relay, response: str, query: str = "") -> dict[str, Any]:
    answer = await relay.client.get(f"{PATH}/{response}/input_items{query}")
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_response_goes_on_from_another(log):
    async with serve(log=log) as (upstream, _, client):
        first = await client.responses.create(model=M, input="one", instructions="Be brief.")
        second = await client.responses.create(
            model=M, input=[{"role": "user", "content": "two"}], previous_response_id=first.id
        )
        third = await client.responses.create(
            model=M, input="three", instructions="Rhyme.", previous_response_id=second.id
        )

        turns = [("user", "one"), ("assistant", "Hi 🌊"), ("user", "two"), ("assistant", "Hi 🌊")]
        assert [("system", "Rhyme."), *turns, ("user", "three")] == said(upstream)
        assert (None, first.id, second.id) == tuple(
            r.previous_response_id for r in (first, second, third)
        )
        kept = await client.responses.retrieve(third.id)
        assert second.id == kept.previous_response_id


async def test_stream_goes_on_from_a_stream_and_a_call_is_answered(log):
    async with serve(log=log) as (upstream, _, client):
        upstream.script = CALLS
        async with client.responses.stream(model=M, input="when?", tools=[TOOL]) as stream:
            first = await stream.get_final_response()
        upstream.script = HI
        async with client.responses.stream(
            model=M, input=[RESULT], tools=[TOOL], previous_response_id=first.id
        ) as stream:
            second = await stream.get_final_response()

        assert ("Hi 🌊", first.id) == (second.output_text, second.previous_response_id)
        user, assistant, result = upstream.calls[-1].json["messages"]
        assert ("user", "when?") == (user["role"], user["content"])
        assert ("c1", "now") == (
            assistant["tool_calls"][0]["id"],
            assistant["tool_calls"][0]["function"]["name"],
        )
        assert ("tool", "12:00", "c1") == (
            result["role"],
            result["content"],
            result["tool_call_id"],
        )


async def test_items_are_referred_to_by_their_ids(log):
    """What the AI SDK sends by default in place of what the model has said."""
    async with serve(log=log) as (upstream, relay, _):
        upstream.script = CALLS
        first = (await ask(relay, tools=[TOOL])).json()
        upstream.script = HI
        references = [{"type": "item_reference", "id": item["id"]} for item in first["output"]]
        assert ["rs", "fc"] == [item["id"].split("_")[0] for item in references]
        turn = [{"role": "user", "content": "hello"}, *references, RESULT]
        second = await ask(relay, tools=[TOOL], input=turn)
        assert second.status_code == 200, second.text

        assert ["user", "assistant", "tool"] == [role for role, _ in said(upstream)]
        assert "c1" == upstream.calls[-1].json["messages"][1]["tool_calls"][0]["id"]
        later = [*turn, {"type": "item_reference", "id": second.json()["output"][0]["id"]}]
        third = await ask(relay, input=[*later, {"role": "user", "content": "thanks"}])
        assert third.status_code == 200, third.text
        assert [("assistant", "Hi 🌊"), ("user", "thanks")] == said(upstream)[-2:]


async def test_last_response_tells_of_items_whose_own_is_gone(log):
    """So a client that refers to all it has seen can go on for longer than the retention."""
    async with serve(log=log) as (upstream, relay, _):
        turn: list[Any] = [{"role": "user", "content": "0"}]
        gone = ""
        for number in range(1, 4):
            answer = await ask(relay, input=turn)
            assert answer.status_code == 200, answer.text
            if gone:
                await relay.client.delete(f"{PATH}/{gone}")
            gone = answer.json()["id"]
            turn.append({"type": "item_reference", "id": answer.json()["output"][0]["id"]})
            turn.append({"role": "user", "content": f"{number}"})

        assert [("user", "0"), ("assistant", "Hi 🌊")] == said(upstream)[:2]
        await relay.client.delete(f"{PATH}/{gone}")
        answer = await ask(relay, input=turn)
        item = turn[-2]["id"]
        assert 404 == answer.status_code
        assert answer.json()["error"]["message"].startswith(
            f"Item with id '{item}' not found. Items are not persisted when `store` is set to "
            "false. Try again with `store` set to true, or remove this item from your input."
        )


async def test_input_items_are_listed(log):
    async with serve(log=log) as (upstream, relay, client):
        first = await client.responses.create(model=M, input="one")
        given: Any = [{"role": "user", "content": "two", "id": "msg_mine"}, {**RESULT, "id": None}]
        second = await client.responses.create(model=M, input=given, previous_response_id=first.id)
        listed = [
            item
            async for item in client.responses.input_items.list(second.id, limit=2, order="asc")
        ]
        assert ["message", "message", "message", "function_call_output"] == [
            item.type for item in listed
        ]
        assert first.output[0].id == listed[1].id
        assert "msg_mine" == listed[2].id
        assert 4 == len({item.id for item in listed})
        page = await list_items(relay, second.id, "?limit=1")
        assert ("list", True) == (page["object"], page["has_more"])
        assert listed[3].id == page["first_id"] == page["last_id"] == page["data"][0]["id"]
        rest = await list_items(relay, second.id, f"?after={page['last_id']}&include=x")
        assert [item.id for item in listed[2::-1]] == [item["id"] for item in rest["data"]]
        assert not rest["has_more"]
        one = {"type": "input_text", "text": "one"}
        assert ([one], "user") == (rest["data"][-1]["content"], rest["data"][-1]["role"])
        # Each of them can be referred to, the one that was given no id too.
        turn: Any = [{"type": "item_reference", "id": listed[0].id}]
        await client.responses.create(model=M, input=turn)
        assert [("user", "one")] == said(upstream)


@pytest.mark.parametrize(
    ("query", "param"),
    [
        *(("?limit=0", "limit"), ("?limit=101", "limit"), ("?limit=x", "limit")),
        *(("?order=up", "order"), ("?after=nothing", "after")),
    ],
)
async def test_list_that_cannot_be_asked_for_is_refused(query, param):
    async with serve() as (_, relay, _):
        response = (await ask(relay)).json()["id"]
        answer = await relay.client.get(f"{PATH}/{response}/input_items{query}")

        assert 400 == answer.status_code
        assert param == answer.json()["error"]["param"]


async def test_what_is_not_to_be_stored_is_not(log):
    async with serve(log=log) as (_, relay, client):
        first = await client.responses.create(model=M, input="a secret", store=False)
        assert first.to_dict()["store"] is False
        with pytest.raises(openai.BadRequestError) as caught:
            await client.responses.create(model=M, input="b", previous_response_id=first.id)
        body: Any = caught.value.body
        assert (
            "previous_response_not_found",
            "previous_response_id",
            "invalid_request_error",
            f"Previous response with id '{first.id}' not found.",
        ) == (body["code"], body["param"], body["type"], body["message"])
        item: Any = {"type": "item_reference", "id": first.output[0].id}
        with pytest.raises(openai.NotFoundError, match=r"^Error code: 404 - .*Item with id"):
            await client.responses.create(model=M, input=[item])
        with pytest.raises(openai.NotFoundError, match=f"Response with id '{first.id}' not found"):
            await client.responses.retrieve(first.id)
        with pytest.raises(openai.NotFoundError, match="not found"):
            await client.responses.input_items.list(first.id)
        # Whoever has lost the connection reads on all the same.
        events = [event async for event in await client.responses.retrieve(first.id, stream=True)]
        assert "response.completed" == events[-1].type
        assert (await relay.client.delete(f"{PATH}/{first.id}")).status_code == 200


async def test_not_stored_response_goes_on_from_a_stored_one():
    async with serve() as (upstream, _, client):
        first = await client.responses.create(model=M, input="one")
        second = await client.responses.create(
            model=M, input="two", previous_response_id=first.id, store=False
        )
        assert 3 == len(said(upstream))
        with pytest.raises(openai.BadRequestError, match="not found"):
            await client.responses.create(model=M, input="3", previous_response_id=second.id)


async def test_what_is_gone_says_so(log):
    async with serve(log=log) as (upstream, relay, client):
        first = await client.responses.create(model=M, input="one")
        second = await client.responses.create(model=M, input="2", previous_response_id=first.id)
        await client.responses.delete(first.id)
        for response in ("resp_nothing", f"resp_{'x' * 22}", first.id, second.id):
            answer = await ask(relay, previous_response_id=response)
            error = answer.json()["error"]
            assert (400, "previous_response_not_found") == (answer.status_code, error["code"])
            assert error["message"].startswith(f"Previous response with id '{response}' not found")
        assert f"{first.id!r} before it is gone" in error["message"]
        assert 3 == len([*upstream.calls]) + 1


async def test_response_that_has_not_ended_well_is_not_gone_on_from():
    async with serve() as (upstream, relay, client):
        hold = Hold()
        upstream.script = [head(), send(text("Hi")), hold, send(FINISH + DONE)]
        running = await client.responses.create(model=M, input="a", background=True)
        answer = await ask(relay, previous_response_id=running.id)
        assert 400 == answer.status_code
        assert "previous_response_id" == answer.json()["error"]["param"]
        assert "wait for its end" in answer.json()["error"]["message"]
        await client.responses.cancel(running.id)
        answer = await ask(relay, previous_response_id=running.id)
        assert "it is cancelled" in answer.json()["error"]["message"]
        upstream.script = reply("400 Bad", "{}")
        failed = await client.responses.create(model=M, input="a", background=True)
        stream = await relay.hub.streams_of(ANYONE).find(f"response:{failed.id}")
        assert stream is not None
        await relay.client.get(f"/v1/streams/{stream.id}/events")  # to its end
        answer = await ask(relay, previous_response_id=failed.id)
        assert "it is failed" in answer.json()["error"]["message"]


async def test_answer_that_was_too_long_is_gone_on_from():
    async with serve() as (upstream, _, client):
        upstream.script = [head(), send(text("Hi")), send(event(finish_reason="length") + DONE)]
        first = await client.responses.create(model=M, input="one")
        assert "incomplete" == first.status
        await client.responses.create(model=M, input="go on", previous_response_id=first.id)

        assert [("user", "one"), ("assistant", "Hi"), ("user", "go on")] == said(upstream)


async def test_input_may_be_left_out_where_there_is_a_response_before():
    async with serve() as (upstream, relay, _):
        first = (await ask(relay)).json()["id"]
        body = {"model": M, "previous_response_id": first}
        assert 200 == (await relay.client.post(PATH, json=body)).status_code
        assert ["user", "assistant"] == [role for role, _ in said(upstream)]


@pytest.mark.proving
async def test_response_goes_on_at_another_replica(redis):
    redis.ask("FLUSHALL")
    async with (
        serve_script(HI, log=redis.url) as (first, upstream),
        serve_relay(upstream, log=redis.url) as second,
    ):
        before = (await ask(first, input="one")).json()
        answer = await ask(second, input="two", previous_response_id=before["id"])
        assert answer.status_code == 200, answer.text
        assert [("user", "one"), ("assistant", "Hi 🌊"), ("user", "two")] == said(upstream)
        reference = {"type": "item_reference", "id": answer.json()["output"][0]["id"]}
        answer = await ask(first, input=[reference, {"role": "user", "content": "three"}])
        assert answer.status_code == 200, answer.text
        assert 1 == len((await list_items(second, before["id"]))["data"])


async def test_response_goes_on_after_a_restart(tmp_path):
    log = f"sqlite:///{tmp_path / 'streams.db'}"
    async with serve(log=log) as (upstream, relay, _):
        before = (await ask(relay, input="one")).json()
    async with serve(log=log) as (upstream, relay, _):
        answer = await ask(relay, input="two", previous_response_id=before["id"])
        assert answer.status_code == 200, answer.text
        assert [("user", "one"), ("assistant", "Hi 🌊"), ("user", "two")] == said(upstream)


async def test_long_conversation_is_kept_in_pieces(monkeypatch):
    """Every so many turns one keeps all before it: no chain is longer, and none grows by squares."""
    async with serve() as (upstream, relay, _):
        ids: list[str] = []
        for number in range(70):
            fields = {"previous_response_id": ids[-1]} if ids else {}
            answer = await ask(relay, input=f"turn {number} {'x' * 1000}", **fields)
            assert answer.status_code == 200, answer.text
            ids.append(answer.json()["id"])
        assert 139 == len(said(upstream))
        sizes = []
        for response in ids:
            stream = await relay.hub.streams_of(ANYONE).find(f"response:{response}")
            assert stream is not None
            sizes.append(len((await stream.info()).request))

        assert 2 == sum(size > 10_000 for size in sizes)
        assert max(sizes[:32]) < 1_500
        looked: list[str] = []
        find = OwnedStreams.find

        async def look(streams: OwnedStreams, name: str, **how: Any) -> OwnedStream | None:
            looked.append(name)
            return await find(streams, name, **how)

        monkeypatch.setattr(OwnedStreams, "find", look)
        assert 200 == (await ask(relay, input="more", previous_response_id=ids[-1])).status_code
        assert 0 < len(looked) <= 32
        assert 139 == len(await list_all(relay, ids[-1]))


async def list_all(relay: Relay, response: str) -> list[Any]:
    found: list[Any] = []
    query = "?limit=100&order=asc"
    while True:
        page = await list_items(relay, response, query)
        found += page["data"]
        if not page["has_more"]:
            return found
        query = f"?limit=100&order=asc&after={page['last_id']}"


async def test_conversation_goes_on_beyond_the_retention(monkeypatch):
    """Its turns come in time, the first of them is long gone."""
    clock = Clock(monkeypatch)
    async with serve(retention_s=100, clock=clock) as (upstream, relay, _):
        ids: list[str] = []
        for number in range(8):
            previous = {"previous_response_id": ids[-1]} if ids else {}
            answer = await ask(relay, input=f"{number}", **previous)
            assert answer.status_code == 200, answer.text
            ids.append(answer.json()["id"])
            await clock.pass_(45)
        assert 404 == (await relay.client.get(f"{PATH}/{ids[0]}")).status_code
        assert [f"{n}" for n in range(8)] == [s for role, s in said(upstream) if role == "user"]


async def test_conversation_is_no_larger_than_a_request_may_be():
    async with serve(max_request_bytes=10_000) as (upstream, relay, _):
        first = (await ask(relay, input="x" * 6_000)).json()["id"]
        second = await ask(relay, input="x" * 6_000, previous_response_id=first)
        assert (413, "request_too_large") == (second.status_code, second.json()["error"]["code"])
        assert "larger than the limit of 10000 bytes" in second.json()["error"]["message"]
        assert 1 == len(upstream.calls)
        third = await ask(relay, input="x", previous_response_id=first)
        assert 200 == third.status_code


async def test_request_that_refers_to_nothing_costs_no_look_up(monkeypatch):
    async with serve() as (_, relay, _):
        looked: list[str] = []

        async def find(streams: OwnedStreams, name: str) -> None:
            looked.append(name)

        monkeypatch.setattr(OwnedStreams, "find", find)
        assert 200 == (await ask(relay)).status_code
        assert [] == looked
        turn = [{"type": "item_reference", "id": f"msg_{'x' * 22}_{n}"} for n in range(50)]
        assert 404 == (await ask(relay, input=turn)).status_code
        assert 1 == len(looked)


async def test_ids_of_items_lead_to_no_other_thing():
    async with serve() as (_, relay, _):
        answer = await ask(relay)
        item = answer.json()["output"][0]["id"]
        token = item.split("_", 1)[1].rsplit("_", 1)[0]

        for guess in (token, f"resp_{token}", item, f"items:{token}", f"st_{token}"):
            assert 404 == (await relay.client.get(f"{PATH}/{guess}")).status_code
            assert 404 == (await relay.client.get(f"/v1/streams/{guess}")).status_code
        assert token not in answer.headers["stream-id"]


@pytest.mark.parametrize(
    "fields",
    [
        {"previous_response_id": 7},
        {"previous_response_id": {"a": 1}},
        {"input": [{"type": "item_reference"}]},
        {"input": [{"type": "item_reference", "id": {"a": "b"}}]},
        {"input": [7, {"type": "item_reference", "id": "x"}]},
        {"input": {"item_reference": 1}},
        {"input": [[[[]]], "item_reference"]},
        {"input": None, "previous_response_id": "item_reference"},
        {"conversation": "conv_1"},
    ],
)
async def test_hostile_references_are_refused(fields):
    async with serve() as (upstream, relay, _):
        answer = await ask(relay, **fields)

        assert answer.status_code in (400, 404), answer.text
        assert json.loads(answer.text)["error"]["type"] == "invalid_request_error"
        assert [] == upstream.calls


@pytest.mark.parametrize("mark", ["", '"item_reference",'])
async def test_input_of_lists_in_lists_is_refused(mark):
    async with serve() as (_, relay, _):
        body = f'{{"input": [{mark}{"[" * 200_000}{"]" * 200_000}]}}'
        headers = {"content-type": "application/json"}
        answer = await relay.client.post(PATH, content=body, headers=headers)

        assert 400 == answer.status_code


async def test_key_gives_the_stream_that_it_began_with():
    """However its body is resolved: the digest is that of what the client has sent."""
    async with serve() as (upstream, relay, _):
        first = (await ask(relay)).json()["id"]
        body = {"model": M, "input": "two", "previous_response_id": first}
        headers = {"idempotency-key": "k"}
        ids = [
            (await relay.client.post(PATH, json=body, headers=headers)).json()["id"]
            for _ in range(2)
        ]

        assert ids[0] == ids[1]
        assert 2 == len(upstream.calls)
