"""Model names: the list, what it does when an upstream misbehaves, and where names lead."""

import asyncio

import pytest

from tests.serving import HELLO, serve_relay
from tests.upstream import DONE, FINISH, head, reply, send, serve_upstream, text, wait

ANSWER = [head(), send(text("a") + FINISH + DONE)]


async def names(relay) -> list[str]:
    response = await relay.client.get("/v1/models")
    assert 200 == response.status_code
    assert "list" == response.json()["object"]
    return [row["id"] for row in response.json()["data"]]


async def test_upstream_is_asked_for_its_models_once():
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.models = reply("200 OK", '{"object":"list","data":[{"id":"b"},{"id":"a/c"}]}')
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
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.models = script
        upstream.script = ANSWER
        listed = await names(relay)
        response = await relay.client.post("/v1/chat", json={**HELLO, "model": "openai/x"})

        assert "openai/gpt-6-luna" == listed[0]
        assert "demo" in listed
        assert 200 == response.status_code
        assert "x" == upstream.calls[0].json["model"]


async def test_requests_at_once_ask_an_upstream_once():
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.models = [wait(0.02), *reply("200 OK", '{"data":[{"id":"b"}]}')]
        listed = await asyncio.gather(*(names(relay) for _ in range(5)))

        assert all("openai/b" in one for one in listed)
        assert 1 == upstream.models_asked


@pytest.mark.parametrize("status", ["401 No", "429 Slow", "500 Oops", "302 Found"])
async def test_refusal_is_no_list(status, monkeypatch):
    monkeypatch.setattr("app.upstreams.models.LIST_S", 0)
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.models = reply("200 OK", '{"data":[{"id":"b"}]}')
        await names(relay)
        upstream.models = reply(status, '{"error":{"message":"no"}}')

        assert "openai/b" in await names(relay)
        assert 2 == upstream.models_asked


async def test_bare_name_goes_to_the_only_upstream():
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.script = ANSWER
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
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.script = [head(set_cookie="user=one; path=/"), *ANSWER[1:]]
        for _ in range(2):
            await relay.client.post("/v1/chat", json=HELLO)

        assert [None, None] == [call.headers.get("cookie") for call in upstream.calls]
