"""What official clients make of limits and budgets: the right error, tried again or not."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from app.testing.upstream import Hold, head, send, text
from tests.api.test_refused_clients import ASK
from tests.api.test_usage_limits import World, bearer, serve
from tests.needs import file, program
from tests.waiting import until

pytestmark = pytest.mark.proving

ROOT = Path(__file__).parents[2]
RUNS = [head(), send(text("a")), Hold()]
BUDGET = "[limits.user]\nusd_per_day = 0.0005\n"
RATE = "[limits.user]\nrequests_per_minute = 1\n"
STARTS = {name: ask for name, ask in ASK.items() if name not in ("embeddings", "count")}


async def use_up(world: World) -> None:
    await world.begin("ann", max_tokens=1000)
    await asyncio.wait_for(world.upstream.called.wait(), 20)


@pytest.mark.parametrize("name", STARTS)
async def test_python_clients_are_told_of_a_budget_once(tmp_path, name: str):
    async with serve(tmp_path, BUDGET, script=RUNS) as world:
        await use_up(world)
        async with (
            openai.AsyncOpenAI(api_key="ann", base_url=f"{world.relay.url}/v1") as of_openai,
            anthropic.AsyncAnthropic(api_key="ann", base_url=world.relay.url) as of_anthropic,
        ):
            with pytest.raises((openai.RateLimitError, anthropic.RateLimitError)) as raised:
                await STARTS[name](of_openai, of_anthropic)
        error: Any = raised.value
        assert 429 == error.status_code
        told = "your budget of 0.0005 USD for the day has no room for this request"
        assert told in str(error)
        if isinstance(error, openai.RateLimitError):
            assert ("insufficient_quota", "insufficient_quota") == (error.code, error.type)
            assert told in error.message
        else:
            body: Any = error.body
            told_of = body["error"]
            assert "rate_limit_error" == told_of["type"]
            assert {"error_code": "budget_exceeded"} == told_of["details"]
        assert 0 < int(error.response.headers["retry-after"]) <= 86_400
        assert "false" == error.response.headers["x-should-retry"]
        assert 1 == len(world.noted.refusals)
        assert 1 == len(world.upstream.calls)


@pytest.mark.parametrize("name", STARTS)
async def test_python_clients_are_told_of_a_rate_and_what_is_left(tmp_path, name: str):
    async with serve(tmp_path, RATE, script=RUNS) as world:
        await use_up(world)
        url = world.relay.url
        async with (
            openai.AsyncOpenAI(api_key="ann", base_url=f"{url}/v1", max_retries=0) as of_openai,
            anthropic.AsyncAnthropic(api_key="ann", base_url=url, max_retries=0) as of_anthropic,
        ):
            with pytest.raises((openai.RateLimitError, anthropic.RateLimitError)) as raised:
                await STARTS[name](of_openai, of_anthropic)
        error: Any = raised.value
        headers = error.response.headers
        if isinstance(error, openai.RateLimitError):
            assert ("rate_limit_exceeded", "rate_limit_error") == (error.code, error.type)
            assert ("1", "0") == (
                headers["x-ratelimit-limit-requests"],
                headers["x-ratelimit-remaining-requests"],
            )
        else:
            assert "rate_limit_error" == error.body["error"]["type"]
            reset = datetime.fromisoformat(headers["anthropic-ratelimit-requests-reset"])
            assert -1 < reset.timestamp() - time.time() <= 66
            assert "0" == headers["anthropic-ratelimit-requests-remaining"]
        assert "x-should-retry" not in headers
        assert 0 < int(headers["retry-after"]) <= 65


async def test_python_clients_try_again_when_a_stream_may_have_ended(tmp_path):
    """A limit of streams at once passes: `retry-after` is kept, and then there is an answer."""
    async with serve(tmp_path, "[limits.user]\nstreams = 1\n", script=RUNS) as world:
        stream = await world.begin("ann")
        asked: list[Callable[[openai.AsyncOpenAI, anthropic.AsyncAnthropic], Awaitable[object]]] = [
            ASK["chat"],
            ASK["message"],
        ]
        async with (
            openai.AsyncOpenAI(api_key="ann", base_url=f"{world.relay.url}/v1") as of_openai,
            anthropic.AsyncAnthropic(api_key="ann", base_url=world.relay.url) as of_anthropic,
        ):
            waiting = asyncio.ensure_future(asked[0](of_openai, of_anthropic))
            await until(lambda: world.noted.refusals)
            url = f"/v1/streams/{stream}/cancel"
            await world.relay.client.post(url, headers=bearer("ann"))
            world.upstream.script = [head(), send(text("a")), send("data: [DONE]\n\n")]
            answer: Any = await asyncio.wait_for(waiting, 60)
        assert "a" == answer.choices[0].message.content
        # On a machine that stands still the second one may come before the stream was stopped.
        assert len(world.noted.refusals) in (1, 2)


async def node(world: World) -> dict[str, dict[str, Any]]:
    file(ROOT / "node_modules" / "@ag-ui" / "client" / "package.json", how="run npm ci")
    process = await asyncio.create_subprocess_exec(
        *(program("node"), str(ROOT / "tests" / "clients" / "limited.mjs"), world.relay.url, "ann"),
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await asyncio.wait_for(process.communicate(), 60)
    assert 0 == process.returncode
    found: dict[str, dict[str, Any]] = json.loads(out)
    return found


async def test_node_clients_are_told_of_a_budget_once(tmp_path):
    async with serve(tmp_path, BUDGET, script=RUNS) as world:
        await use_up(world)
        found = await node(world)
        told = "your budget of 0.0005 USD for the day has no room for this request"
        for client, outcome in found.items():
            assert told in outcome["told"], client
            if client == "useChat":
                assert ("error", 1) == (outcome["name"], outcome["asked"])
                assert outcome["told"].startswith(told)  # the whole of what he reads
            elif client != "agUi":
                assert ("RateLimitError", 429, 1) == (
                    outcome["name"],
                    outcome["status"],
                    outcome["asked"],
                ), client
                expected = "rate_limit_error" if client.startswith("mess") else "insufficient_quota"
                assert expected in (outcome["kind"], outcome["code"]), client
        assert len(found) == len(world.noted.refusals)
        assert 1 == len(world.upstream.calls)
