"""What official clients make of 401, 403 and 404: the right error, at the first try."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from app.identity.authenticator import Authenticator
from app.identity.principal import Principal
from app.testing.upstream import serve_upstream
from tests.api.test_openai_responses import HI
from tests.identities import EXPIRED, Table
from tests.needs import file, program
from tests.serving import VECTOR, Relay, serve_relay

pytestmark = pytest.mark.proving

ROOT = Path(__file__).parents[2]
RIGHT, NARROW, WRONG = "ssk_right", "ssk_narrow", "ssk_wrong"
M = "openai/m"
MESSAGES: Any = [{"role": "user", "content": "hello"}]


class Counter:
    """Counts the requests that come."""

    def __init__(self) -> None:
        self.requests = 0

    def watch(self, app: ASGIApp) -> ASGIApp:
        async def counted(scope: Scope, receive: Receive, send: Send) -> None:
            self.requests += 1
            await app(scope, receive, send)

        return counted


@asynccontextmanager
async def serve() -> AsyncIterator[tuple[Relay, Counter]]:
    who = {RIGHT: Principal("t", "me"), NARROW: Principal("t", "other", models=("another",))}
    counter = Counter()
    authenticator = Authenticator([Table(who)])
    async with (
        serve_upstream() as upstream,
        serve_relay(
            upstream, authenticator=authenticator, default_model=M, watch=counter.watch
        ) as relay,
    ):
        upstream.choose = lambda call: VECTOR if call.path.endswith("/embeddings") else HI
        yield relay, counter


Ask = Callable[[openai.AsyncOpenAI, anthropic.AsyncAnthropic], Awaitable[object]]


async def stream_of_chat(client: openai.AsyncOpenAI, _: anthropic.AsyncAnthropic) -> None:
    async with client.chat.completions.stream(model=M, messages=MESSAGES) as stream:
        await stream.get_final_completion()


async def stream_of_response(client: openai.AsyncOpenAI, _: anthropic.AsyncAnthropic) -> None:
    async with client.responses.stream(model=M, input="hello") as stream:
        await stream.get_final_response()


async def stream_of_message(_: openai.AsyncOpenAI, client: anthropic.AsyncAnthropic) -> None:
    async with client.messages.stream(model=M, messages=MESSAGES, max_tokens=9) as stream:
        await stream.get_final_message()


ASK: dict[str, Ask] = {
    "chat": lambda o, _: o.chat.completions.create(model=M, messages=MESSAGES),
    "chat stream": stream_of_chat,
    "response": lambda o, _: o.responses.create(model=M, input="hello"),
    "compaction": lambda o, _: o.responses.compact(model=M, input="hello"),
    "response stream": stream_of_response,
    "completion": lambda o, _: o.completions.create(model=M, prompt="hello"),
    "embeddings": lambda o, _: o.embeddings.create(model=M, input="hello"),
    "message": lambda _, a: a.messages.create(model=M, messages=MESSAGES, max_tokens=9),
    "message stream": stream_of_message,
    "count": lambda _, a: a.messages.count_tokens(model=M, messages=MESSAGES),
}


@asynccontextmanager
async def clients(
    relay: Relay, credential: str
) -> AsyncIterator[tuple[openai.AsyncOpenAI, anthropic.AsyncAnthropic]]:
    """Open both clients, which show no credential if it is empty."""

    async def strip(request: Any) -> None:
        if not credential:
            for name in ("authorization", "x-api-key"):
                request.headers.pop(name, None)

    key, hooks = credential or "none", {"request": [strip]}
    async with (
        openai.AsyncOpenAI(
            api_key=key,
            base_url=f"{relay.url}/v1",
            http_client=openai.DefaultAsyncHttpxClient(event_hooks=hooks),
        ) as of_openai,
        anthropic.AsyncAnthropic(
            api_key=key,
            base_url=relay.url,
            http_client=anthropic.DefaultAsyncHttpxClient(event_hooks=hooks),
        ) as of_anthropic,
    ):
        yield of_openai, of_anthropic


@pytest.mark.parametrize(
    ("credential", "errors"),
    [
        ("", (openai.AuthenticationError, anthropic.AuthenticationError)),
        (WRONG, (openai.AuthenticationError, anthropic.AuthenticationError)),
        (EXPIRED, (openai.AuthenticationError, anthropic.AuthenticationError)),
        (NARROW, (openai.PermissionDeniedError, anthropic.PermissionDeniedError)),
        (RIGHT, ()),
    ],
)
async def test_python_clients_raise_the_right_error_and_try_once(credential: str, errors: Any):
    async with serve() as (relay, counter), clients(relay, credential) as pair:
        for ask in ASK.values():
            counter.requests = 0
            if not errors:
                await ask(*pair)
                continue
            with pytest.raises(errors) as raised:
                await ask(*pair)
            assert 1 == counter.requests
            assert "ssk_" not in str(raised.value)


async def test_python_clients_find_nothing_of_others():
    async with (
        serve() as (relay, counter),
        openai.AsyncOpenAI(api_key=RIGHT, base_url=f"{relay.url}/v1") as mine,
        openai.AsyncOpenAI(api_key=NARROW, base_url=f"{relay.url}/v1") as other,
        anthropic.AsyncAnthropic(api_key=None, auth_token=NARROW, base_url=relay.url) as claude,
    ):
        response = await mine.responses.create(model=M, input="hello")
        assert response.id == (await mine.responses.retrieve(response.id)).id
        counter.requests = 0
        work: list[Callable[[], Awaitable[object]]] = [
            lambda: other.responses.retrieve(response.id),
            lambda: other.responses.cancel(response.id),
            lambda: other.responses.delete(response.id),
            lambda: other.responses.input_items.list(response.id),
            lambda: other.models.retrieve(M),
        ]
        for one in work:
            with pytest.raises(openai.NotFoundError):
                await one()
        with pytest.raises(anthropic.NotFoundError):
            await claude.models.retrieve(M)
        assert len(work) + 1 == counter.requests


async def test_node_clients_tell_the_right_error_and_try_once():
    node = program("node")
    file(ROOT / "node_modules" / "@ag-ui" / "client" / "package.json", how="run npm ci")
    async with serve() as (relay, counter):
        process = await asyncio.create_subprocess_exec(
            *(node, str(ROOT / "tests" / "clients" / "refused.mjs"), relay.url),
            json.dumps([WRONG, EXPIRED, NARROW, RIGHT]),
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await asyncio.wait_for(process.communicate(), 60)
    assert 0 == process.returncode
    found: dict[str, dict[str, Any]] = json.loads(out)
    assert {"answered"} == {str(told) for told in found.pop(RIGHT).values()}
    for credential, (name, status) in {
        WRONG: ("AuthenticationError", 401),
        EXPIRED: ("AuthenticationError", 401),
        NARROW: ("PermissionDeniedError", 403),
    }.items():
        said = "not allowed" if status == 403 else "the credential "
        for client, told in found[credential].items():
            if status == 403 and client in ("models", "anthropicModels"):
                assert "answered" == told  # with those that it may use
                continue
            assert said in told[2], (credential, client, told)
            if client == "useChat":
                assert "error" == told[0]
            elif client != "agUi":
                assert [name, status] == told[:2], client
    refused = 3 * len(found[WRONG])
    assert refused + len(found[WRONG]) == counter.requests
