"""Model names: the list, what it does when an upstream misbehaves, and where names lead."""

import asyncio
import json
import sys
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import Mock

import anthropic
import pytest

from app.testing.upstream import (
    DONE,
    FINISH,
    Step,
    chunk,
    chunked_head,
    head,
    reply,
    send,
    serve_upstream,
    text,
    wait,
)
from app.upstreams import routes
from app.upstreams.models import LIST_S, look_up
from tests.clock import Clock
from tests.serving import HELLO, Relay, serve_relay, serve_script
from tests.test_request_cost import counted, show

ANSWER = [head(), send(text("a") + FINISH + DONE)]


def listing(*rows: dict[str, Any]) -> list[Step]:
    """What an upstream answers when it is asked for its models."""
    return reply("200 OK", json.dumps({"object": "list", "data": rows}))


async def names(relay: Relay) -> list[str]:
    response = await relay.client.get("/v1/models")
    assert 200 == response.status_code
    assert "list" == response.json()["object"]
    return [row["id"] for row in response.json()["data"]]


async def test_upstream_is_asked_for_its_models_once():
    async with serve_script([]) as (relay, upstream):
        upstream.models = listing({"id": "b"}, {"id": "a/c"})
        listed = [await names(relay), await names(relay)]

        assert listed[0] == listed[1]
        assert "openai/gpt-6-luna" == listed[0][0]
        assert {"openai/b", "openai/a/c", "demo"} <= set(listed[0])
        assert 1 == upstream.models_asked


@pytest.mark.parametrize(
    "script",
    [
        reply("500 No", ""),
        reply("200 OK", b"\xff\xfe"),
        reply("200 OK", "[]"),
        reply("200 OK", '{"data":[{"id":1}]}'),
        reply("200 OK", b"x" * 5_000_000),
        [],
    ],
    ids=["500", "bad UTF-8", "other JSON", "odd ids", "endless", "hang up"],
)
async def test_upstream_without_a_list_still_serves(script):
    async with serve_script([]) as (relay, upstream):
        upstream.models = script
        upstream.script = ANSWER
        listed = await names(relay)
        response = await relay.client.post("/v1/chat", json={**HELLO, "model": "openai/x"})

        assert "openai/gpt-6-luna" == listed[0]
        assert "demo" in listed
        assert 200 == response.status_code
        assert "x" == upstream.calls[0].json["model"]


async def test_list_without_its_last_chunk_is_read():
    """Some servers close the connection instead of sending the last chunk."""
    listed = json.dumps({"object": "list", "data": [{"id": "b"}]})
    async with serve_script([]) as (relay, upstream):
        upstream.models = [chunked_head(content_type="application/json"), chunk(listed)]

        assert "openai/b" in await names(relay)


async def test_requests_at_once_ask_an_upstream_once():
    async with serve_script([]) as (relay, upstream):
        upstream.models = [wait(0.02), *listing({"id": "b"})]
        listed = await asyncio.gather(*(names(relay) for _ in range(5)))

        assert all("openai/b" in one for one in listed)
        assert 1 == upstream.models_asked


@pytest.mark.parametrize("status", ["401 No", "429 Slow", "500 Oops", "302 Found"])
async def test_refusal_is_no_list(status, monkeypatch):
    clock = Clock(monkeypatch)
    async with serve_script([]) as (relay, upstream):
        upstream.models = listing({"id": "b"})
        await names(relay)
        await clock.pass_(LIST_S + 1)
        upstream.models = reply(status, '{"error":{"message":"no"}}')

        assert "openai/b" in await names(relay)
        assert 2 == upstream.models_asked


async def test_bare_name_goes_to_the_only_upstream():
    async with serve_script(ANSWER) as (relay, upstream):
        await relay.client.post("/v1/chat", json={**HELLO, "model": "gpt-4o-mini"})

        assert "gpt-4o-mini" == upstream.calls[0].json["model"]


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ("gpt-5", "/openai/deployments/gpt-5/chat/completions?api-version=1"),
        ("../../x", "/openai/deployments/..%2F..%2Fx/chat/completions?api-version=1"),
        ("a?b=c#d", "/openai/deployments/a%3Fb%3Dc%23d/chat/completions?api-version=1"),
    ],
)
async def test_model_in_a_path_stays_one_segment(model, path, tmp_path, monkeypatch):
    async with serve_upstream() as upstream:
        upstream.script = ANSWER
        base = upstream.base_url.removesuffix("/v1")
        (tmp_path / "seseragi.toml").write_text(
            f"""
            [upstream.azure]
            base_url = "{base}/openai/deployments/{{model}}"
            query = {{ api-version = "1" }}
            key_env = "KEY"
            """
        )
        monkeypatch.chdir(tmp_path)
        async with serve_relay(environ={"KEY": "sk-azure"}) as relay:
            response = await relay.client.post(
                "/v1/chat", json={**HELLO, "model": f"azure/{model}"}
            )
        (call,) = upstream.calls

        assert 200 == response.status_code
        assert path == call.path
        assert "sk-azure" == call.headers["api-key"]


async def test_cookies_of_one_call_do_not_go_out_with_the_next():
    async with serve_script([head(set_cookie="user=one; path=/"), *ANSWER[1:]]) as (
        relay,
        upstream,
    ):
        for _ in range(2):
            await relay.client.post("/v1/chat", json=HELLO)

        assert [None, None] == [call.headers.get("cookie") for call in upstream.calls]


async def row(relay: Relay, name: str) -> dict[str, Any]:
    response = await relay.client.get(f"/v1/models/{name}")
    assert 200 == response.status_code
    found: dict[str, Any] = response.json()
    return found


OPENROUTERS = {
    "id": "a/b",
    "name": "A: B",
    "created": 1_760_000_000,
    "context_length": 200_000,
    "architecture": {"input_modalities": ["text", "image"], "output_modalities": ["text"]},
    "top_provider": {"context_length": 200_000, "max_completion_tokens": 32_000},
    "supported_parameters": ["tools", "reasoning", "seed"],
}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (OPENROUTERS, {k: v for k, v in OPENROUTERS.items() if k != "id"}),
        (
            {"id": "a/b", "created": 7, "max_model_len": 4096},
            {"created": 7, "context_length": 4096},
        ),
        ({"id": "a/b", "max_context_length": 131_072}, {"context_length": 131_072}),
        ({"id": "a/b", "context_window": 8192}, {"context_length": 8192}),
        ({"id": "a/b", "meta": {"n_ctx": 2048}}, {"context_length": 2048}),
        ({"id": "a/b", "created": 1_760_000_000_000}, {"created": 1_760_000_000}),
        ({"id": "a/b", "created": "x", "context_length": -1, "name": 1}, {"created": 0}),
        ({"id": "a/b", "capabilities": [], "architecture": 3, "supported_parameters": [1]}, {}),
    ],
    ids=["OpenRouter", "vLLM", "Mistral", "Groq", "llama.cpp", "ms", "odd", "odder"],
)
async def test_what_an_upstream_says_of_its_models_is_told(given: Any, expected: Any) -> None:
    async with serve_script([]) as (relay, upstream):
        upstream.models = listing(given)
        found = await row(relay, "openai/a/b")

    shown = {"created": 0, **expected}
    if "top_provider" in shown:
        shown["top_provider"] = {"context_length": 200_000, "max_completion_tokens": 32_000}
    assert {"id": "openai/a/b", "object": "model", "owned_by": "openai", **shown} == found


async def test_googles_list_is_told_too() -> None:
    given = {
        "name": "models/g-1",
        "displayName": "G 1",
        "inputTokenLimit": 1_048_576,
        "outputTokenLimit": 65_536,
    }
    async with serve_script([], dialect="gemini") as (relay, upstream):
        upstream.models = reply("200 OK", json.dumps({"models": [given]}))
        found = await row(relay, "openai/g-1")

    assert ("G 1", 1_048_576) == (found["name"], found["context_length"])
    assert 65_536 == found["top_provider"]["max_completion_tokens"]


async def test_anthropics_clients_are_told_what_anthropic_says() -> None:
    given = {
        "type": "model",
        "id": "claude-x",
        "display_name": "Claude X",
        "created_at": "2026-02-03T04:05:06Z",
        "max_input_tokens": 200_000,
        "max_tokens": 64_000,
        "capabilities": {"image_input": {"supported": True}, "thinking": {"supported": True}},
    }
    async with serve_script([], dialect="anthropic") as (relay, upstream):
        upstream.models = reply("200 OK", json.dumps({"data": [given], "has_more": False}))
        async with anthropic.AsyncAnthropic(api_key="k", base_url=relay.url) as sdk:
            listed = [model async for model in await sdk.models.list()]
            found = await sdk.models.retrieve("openai/claude-x")
            demo = await sdk.models.retrieve("demo")
        openais = await row(relay, "openai/claude-x")

    assert found in listed
    assert ("Claude X", 200_000) == (found.display_name, found.max_input_tokens)
    assert 64_000 == found.max_tokens
    assert "2026-02-03T04:05:06+00:00" == found.created_at.isoformat()
    assert found.capabilities is not None
    assert found.capabilities.image_input.supported
    assert 2026 == demo.created_at.year
    assert 200_000 == openais["context_length"]


async def test_a_route_says_the_least_of_its_targets(tmp_path: Any, monkeypatch: Any) -> None:
    async with serve_upstream() as one, serve_upstream() as two:
        one.models = listing(OPENROUTERS)
        less = {**OPENROUTERS, "context_length": 100_000, "supported_parameters": ["seed", "tools"]}
        less |= {"top_provider": {}, "created": 1_750_000_000}
        two.models = listing(less)
        (tmp_path / "seseragi.toml").write_text(
            f"""
            passthrough = false
            upstream.one = {{ base_url = "{one.base_url}", key_env = "KEY" }}
            upstream.two = {{ base_url = "{two.base_url}", key_env = "KEY" }}
            [[route]]
            name = "both"
            targets = ["one/a/b", "two/a/b"]
            [[route]]
            name = "unknown"
            targets = ["one/a/b", "two/c"]
            [[price]]
            target = "one/*"
            input = 3
            output = 15.00
            [[price]]
            target = "two/a/b"
            input = 4
            output = 0.5
            """
        )
        monkeypatch.chdir(tmp_path)
        async with serve_relay(environ={"KEY": "k"}) as relay:
            both, unknown = await row(relay, "both"), await row(relay, "unknown")
            listed = await names(relay)

    assert {
        "id": "both",
        "object": "model",
        "created": 1_750_000_000,
        "owned_by": "seseragi",
        "context_length": 100_000,
        "architecture": {"input_modalities": ["text", "image"], "output_modalities": ["text"]},
        "supported_parameters": ["tools", "seed"],
        "pricing": {"prompt": "0.000004", "completion": "0.000015"},
    } == both
    assert {"id", "object", "created", "owned_by"} == set(unknown)
    assert not [name for name in listed if "/" in name]


async def test_a_model_that_costs_nothing_says_so() -> None:
    async with serve_relay() as relay:
        assert {"prompt": "0", "completion": "0"} == (await row(relay, "demo"))["pricing"]


async def test_the_catalog_is_asked_where_the_host_does_not_say(monkeypatch: Any) -> None:
    asked: list[tuple[Any, ...]] = []

    class Snapshot:
        def find_provider_model(self, *given: Any) -> Any:
            asked.append(given)
            if given[0] != "b":
                raise LookupError(given[0])
            return None, SimpleNamespace(name="B", context_window=1000)

    module = ModuleType("genai_prices.data_snapshot")
    module.get_snapshot = Snapshot  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "genai_prices", ModuleType("genai_prices"))
    monkeypatch.setitem(sys.modules, "genai_prices.data_snapshot", module)
    look_up.cache_clear()
    async with serve_script([]) as (relay, upstream):
        upstream.models = listing({"id": "b"}, {"id": "c", "context_length": 5})
        known, said = await row(relay, "openai/b"), await row(relay, "openai/c")
        base_url = upstream.base_url
    look_up.cache_clear()

    assert ("B", 1000) == (known["name"], known["context_length"])
    assert 5 == said["context_length"]
    assert ("b", None, None, base_url) in asked
    assert "c" not in [given[0] for given in asked]


@pytest.mark.parametrize("headers", [{}, {"anthropic-version": "2023-06-01"}], ids=["", "claude"])
async def test_the_list_is_made_once(headers: dict[str, str]) -> None:
    async with serve_script([]) as (relay, upstream):
        upstream.models = listing(*({"id": f"m{number}"} for number in range(2000)))
        first = await relay.client.get("/v1/models", headers=headers)
        with counted() as calls:
            second = await relay.client.get("/v1/models", headers=headers)

    assert first.content == second.content
    assert 2000 < len(first.json()["data"])
    assert calls.total() < 500, show(calls)


async def test_the_list_is_made_again_once_an_upstream_has_another(monkeypatch: Any) -> None:
    clock = Clock(monkeypatch)
    async with serve_script([]) as (relay, upstream):
        upstream.models = listing({"id": "b"})
        before = await names(relay)
        await clock.pass_(LIST_S + 1)
        upstream.models = listing({"id": "c"})
        after = await names(relay)

    assert "openai/b" in before
    assert "openai/c" not in before
    assert "openai/c" in after
    assert "openai/b" not in after


async def test_requests_at_once_make_the_list_once(monkeypatch: Any) -> None:
    async with serve_script([]) as (relay, upstream):
        upstream.models = listing(*({"id": f"m{number}"} for number in range(500)))
        with monkeypatch.context() as patch:
            patch.setattr(routes, "look_up", look := Mock(side_effect=look_up))
            listed = await asyncio.gather(*(names(relay) for _ in range(5)))

    assert all(one == listed[0] for one in listed)
    assert 1 == sum(call.args[0] == "m7" for call in look.call_args_list)


async def test_a_list_that_could_not_be_made_is_made_at_the_next_request(monkeypatch: Any) -> None:
    async with serve_script([]) as (relay, _):
        with monkeypatch.context() as patch:
            patch.setattr(routes, "look_up", Mock(side_effect=MemoryError))
            failed = await relay.client.get("/v1/models")
        listed = await names(relay)

    assert 500 == failed.status_code
    assert "demo" in listed
