"""Changes of requests by routes and targets, for clients of every dialect."""

import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from app.dialects.client_formats import CLIENT_FORMATS
from app.requests import ChatRequest, SystemMessage, TextPart, UserMessage
from app.testing.upstream import Upstream, answer, reply, serve_upstream
from app.upstreams.transforms import RequestChanges, Transform
from tests.api.bodies import body_of
from tests.serving import Relay, chat, serve_relay

ROUTE = """
[upstream.a]
base_url = "{a}"
dialect = "{dialect}"
set = {{ "extra.region" = "eu" }}
[[route]]
name = "fast"
aliases = ["gpt-4o"]
targets = [{{ model = "a/claude-m", rename = {{ top_p = "p" }}, drop = ["seed"], set = {{ k = 1 }} }}]
defaults = {{ temperature = 0.25, top_p = 0.5 }}
system_prefix = "Answer in verse."
{more}
"""
TURN: Any = {"role": "user", "content": "Hi"}


@contextlib.asynccontextmanager
async def serve_route(
    tmp_path: Any, *, dialect: str = "openai_chat", more: str = "", **settings: Any
) -> AsyncIterator[tuple[Relay, Upstream]]:
    async with serve_upstream() as upstream:
        path = tmp_path / "seseragi.toml"
        base_url = upstream.base_url.removesuffix("/v1") if "anthropic" in dialect else None
        path.write_text(ROUTE.format(a=base_url or upstream.base_url, dialect=dialect, more=more))
        settings = {"config": path, "default_model": "fast", **settings}
        upstream.script = reply("400 Bad", "{}")
        async with serve_relay(**settings) as relay:
            yield relay, upstream


@pytest.mark.parametrize("name", CLIENT_FORMATS)
async def test_clients_of_every_dialect_get_the_changes(name, tmp_path):
    path = CLIENT_FORMATS[name].path
    async with serve_route(tmp_path) as (relay, upstream):
        await relay.client.post(
            path, json=body_of(path) | {"model": "gpt-4o"} if name != "ag_ui" else body_of(path)
        )
    [call] = upstream.calls
    body = call.json
    assert body["messages"][0] == {"role": "system", "content": "Answer in verse."}
    assert (body["temperature"], body["p"], body["k"]) == (0.25, 0.5, 1)
    assert body["extra"] == {"region": "eu"}
    assert "top_p" not in body


async def test_a_client_comes_before_the_defaults_and_after_the_prefix(tmp_path):
    fields = {"temperature": 1, "seed": 3}
    messages = [{"role": "system", "content": "Be brief."}, TURN]
    async with serve_route(tmp_path) as (relay, upstream):
        upstream.script = answer("ok")
        events = await chat(relay, {"model": "gpt-4o", "messages": messages, **fields})
    [call] = upstream.calls
    assert call.json["messages"][0]["content"] == "Answer in verse.\n\nBe brief."
    assert call.json["temperature"] == 1
    assert "seed" not in call.json
    assert events[0]["model"] == "fast"


async def test_an_alias_is_found_though_not_listed(tmp_path):
    anthropic = {"anthropic-version": "2023-06-01"}
    async with serve_route(tmp_path) as (relay, _):
        listed = (await relay.client.get("/v1/models")).json()["data"]
        by_name, by_alias, by_other = [
            (await relay.client.get(f"/v1/models/{name}", headers=headers)).json()
            for name, headers in (("fast", {}), ("gpt-4o", {}), ("gpt-4o", anthropic))
        ]
    assert "gpt-4o" not in [one["id"] for one in listed]
    assert by_name | {"id": "gpt-4o"} == by_alias
    assert by_other["id"] == "gpt-4o"


OWN = {
    "anthropic": ("/v1/messages", "system"),
    "vertex_anthropic": ("/v1/messages", "system"),
    "bedrock_anthropic": ("/v1/messages", "system"),
    "openai_responses": ("/v1/responses", "instructions"),
}


@pytest.mark.parametrize("own", ["", "Be brief."])
@pytest.mark.parametrize("dialect", OWN)
@pytest.mark.sends_refused
async def test_bodies_that_are_passed_through_have_the_changes(dialect, own, tmp_path):
    path, field = OWN[dialect]
    body = body_of(path) | ({field: own} if own else {})
    async with serve_route(tmp_path, dialect=dialect) as (relay, upstream):
        await relay.client.post(path, json=body | {"model": "fast"})
    sent = upstream.calls[0].json
    text = json.dumps(sent[field])
    assert text.index("Answer in verse.") < (text.index(own) if own else len(text))
    assert sent["temperature"] == 0.25
    assert sent["extra"] == {"region": "eu"}


MARK = {"type": "ephemeral"}
TOOL = {"name": "f", "input_schema": {"type": "object"}}


@pytest.mark.sends_refused
async def test_a_route_marks_the_prompt_of_claude_for_the_cache(tmp_path):
    claude = body_of("/v1/messages") | {"model": "fast", "tools": [TOOL]}
    function = {"type": "function", "function": {"name": "f"}}
    async with serve_route(tmp_path, dialect="anthropic", more="cache_prompt = true") as (
        relay,
        upstream,
    ):
        await relay.client.post("/v1/messages", json=claude)
        await relay.client.post("/v1/chat", json={"messages": [TURN], "tools": [function]})
        marked = [{"type": "text", "text": "Hi", "cache_control": MARK}]
        own = {**claude, "messages": [{"role": "user", "content": marked}]}
        await relay.client.post("/v1/messages", json=own)
    passed, translated, kept = (call.json for call in upstream.calls)
    for body in (passed, translated):
        assert body["system"][-1]["cache_control"] == MARK
        assert body["tools"][-1]["cache_control"] == MARK
    assert passed["messages"][-1]["content"][-1]["cache_control"] == MARK
    assert translated["cache_control"] == MARK
    assert json.dumps(kept).count("cache_control") == 1


@pytest.mark.sends_refused
async def test_bedrock_gets_cache_points_and_others_nothing(tmp_path):
    more = "cache_prompt = true"
    async with serve_route(tmp_path, dialect="bedrock_converse", more=more) as (relay, upstream):
        await relay.client.post("/v1/chat", json={"messages": [TURN]})
    sent = json.dumps(upstream.calls[0].json)
    assert sent.count("cachePoint") == 2
    async with serve_route(tmp_path, more=more) as (relay, upstream):
        upstream.script = answer("ok")
        events = await chat(relay)
    assert "cache" not in json.dumps(upstream.calls[0].json)
    assert [event for event in events if event["type"] == "notice"] == []


async def test_a_default_limit_is_reserved(tmp_path):
    limits = "[limits]\ntokens_per_minute = 1000\n"
    async with serve_upstream() as upstream:
        path = tmp_path / "seseragi.toml"
        path.write_text(
            f'[upstream.a]\nbase_url = "{upstream.base_url}"\n{limits}'
            '[[route]]\nname = "fast"\ntargets = ["a/m"]\ndefaults = { max_tokens = 50 }\n'
        )
        upstream.script = answer("ok")
        async with serve_relay(config=path) as relay:
            await chat(relay)
            await chat(relay, max_tokens=70)
    assert [call.json["max_tokens"] for call in upstream.calls] == [50, 70]


@pytest.mark.parametrize(
    ("transform", "body", "wanted"),
    [
        (Transform({"a": "b"}), {"a": 1, "c": 2}, {"b": 1, "c": 2}),
        (Transform({"a": "x.y"}), {"a": 1}, {"x": {"y": 1}}),
        (Transform({"a.b": "c"}), {"a": {"b": 1, "d": 2}}, {"a": {"d": 2}, "c": 1}),
        (Transform({"a.b": "c"}), {"a": 1}, {"a": 1}),
        (Transform(drop=("a", "b.c", "d.e")), {"a": 1, "b": {"c": 1}}, {"b": {}}),
        (
            Transform(set={"a.b": 1, "c": [2]}),
            {"a": {"x": 0}, "c": 9},
            {"a": {"x": 0, "b": 1}, "c": [2]},
        ),
        (Transform(set={"a.b": 1}), {"a": "text"}, {"a": {"b": 1}}),
        (Transform({"a": "b"}, ("b",), {"b": 2}), {"a": 1}, {"b": 2}),
    ],
)
def test_a_body_is_renamed_then_dropped_then_set(transform, body, wanted):
    before = json.dumps(body)
    assert transform.apply(body) == wanted
    assert json.dumps(body) == before


def test_a_prefix_joins_the_first_system_message():
    changes = RequestChanges(system_prefix="P")
    user = UserMessage("x")
    parts = SystemMessage([TextPart("s")])
    assert changes.prepare(ChatRequest([user])).messages == [SystemMessage("P"), user]
    assert changes.prepare(ChatRequest([SystemMessage("s"), user])).messages[0] == SystemMessage(
        "P\n\ns"
    )
    joined = changes.prepare(ChatRequest([parts, user])).messages[0]
    assert joined == SystemMessage([TextPart("P\n\n"), TextPart("s")])
