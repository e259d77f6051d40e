"""What is nowhere, or not to be done there, is told in the dialect of the path."""

from typing import Any

import anthropic
import openai
import pytest

from tests.serving import VECTOR, serve_relay, serve_script

OPENAI, ANTHROPIC = {"error"}, {"type", "error", "request_id"}


@pytest.mark.parametrize(
    ("method", "path", "status", "keys"),
    [
        ("GET", "/v1/chat/completions", 405, OPENAI),
        ("PUT", "/v1/responses", 405, OPENAI),
        ("GET", "/v1/responses/resp_x/input_items", 404, OPENAI),
        ("GET", "/v1/messages", 405, ANTHROPIC),
        ("POST", "/v1/messages/batches", 404, ANTHROPIC),
        ("POST", "/v1/embeddings/x", 404, OPENAI),
        ("GET", "/v1/embeddings", 405, OPENAI),
        ("POST", "/v1/models", 405, OPENAI),
        ("POST", "/v1/v1/messages", 404, ANTHROPIC),
        ("POST", "/v1/v1/chat/completions", 404, OPENAI),
        ("POST", "/chat/completions", 404, OPENAI),
        ("POST", "/messages", 404, ANTHROPIC),
    ],
)
async def test_a_wrong_call_is_refused_in_its_dialect(method, path, status, keys):
    async with serve_relay() as relay:
        response = await relay.client.request(method, path)

    assert (status, "application/json") == (response.status_code, response.headers["content-type"])
    assert keys == set(response.json())


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/v1/streams/st_x", "DELETE, GET, HEAD"),
        ("/v1/responses/resp_x", "DELETE, GET, HEAD"),
        ("/v1/responses/input_tokens", "POST"),
        ("/v1/streams/st_x/cancel", "POST"),
        ("/v1/ui/chat/a/b/stop", "POST"),
        ("/v1/chat", "POST"),
        ("/v1/models/a/b", "GET, HEAD"),
        ("/static/chat.js", "GET, HEAD"),
    ],
)
async def test_a_wrong_method_is_told_all_those_of_the_path_and_no_other(path, allowed):
    async with serve_relay() as relay:
        response = await relay.client.request("PATCH", path)

    assert (405, allowed) == (response.status_code, response.headers["allow"])
    assert allowed in response.text


CLAUDES = {"anthropic-version": "2023-06-01"}
GPTS = {"user-agent": "AsyncOpenAI/Python 3.52.0"}


@pytest.mark.parametrize(
    ("path", "headers", "keys"),
    [
        ("/v1/files", CLAUDES, ANTHROPIC),
        ("/v1/models/none", CLAUDES, ANTHROPIC),
        ("/v1/nothing", CLAUDES, ANTHROPIC),
        ("/v1/files", GPTS, OPENAI),
        ("/v1/nothing", GPTS, OPENAI),
        ("/v1/chat/completions/x", CLAUDES, OPENAI),
        ("/v1/messages/x", GPTS, ANTHROPIC),
    ],
)
async def test_who_asks_for_what_is_nowhere_is_told_in_his_words(path, headers, keys):
    async with serve_relay() as relay:
        response = await relay.client.get(path, headers=headers)
        foreign = await relay.client.get(path, headers={**headers, "host": "evil.test"})

    assert (404, 403) == (response.status_code, foreign.status_code)
    assert keys == set(response.json()) == set(foreign.json())


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/v1/chat", {}, 405),
        ("/v1/chatter", {}, 404),
        ("/x", {}, 404),
        ("/v1/nothing", {}, 404),
        ("/v1/streams/st_x", CLAUDES, 404),
        ("/nothing", GPTS, 404),
        ("/", {"host": "x.test"}, 403),
    ],
)
async def test_elsewhere_and_to_anybody_else_it_is_a_problem(path, headers, status):
    async with serve_relay() as relay:
        response = await relay.client.get(path, headers=headers)

    assert status == response.status_code
    assert "application/problem+json" == response.headers["content-type"]


@pytest.mark.parametrize(
    ("path", "advice"),
    [
        ("/v1", "GET /v1/models"),
        ("/v1/", "GET /v1/models"),
        ("/v1/v1/messages", "take '/v1' off"),
        ("/chat/completions", "add '/v1' to"),
        ("/v1/nothing", "GET /openapi.json"),
    ],
)
async def test_a_wrong_base_url_is_told_of(path, advice):
    async with serve_relay() as relay:
        response = await relay.client.get(path)

    assert 404 == response.status_code
    assert advice in response.text
    assert ";" in response.text


async def test_official_clients_find_the_id_of_every_answer():
    async with serve_script(VECTOR, demo_pace=0) as (relay, _):
        claude = anthropic.AsyncAnthropic(api_key="k", base_url=relay.url, max_retries=0)
        gpt = openai.AsyncOpenAI(api_key="k", base_url=f"{relay.url}/v1", max_retries=0)
        ask: Any = {"model": "demo", "messages": [{"role": "user", "content": "Hi"}]}
        async with claude, gpt:
            ids = [
                (await claude.messages.create(**ask, max_tokens=9))._request_id,
                (await claude.messages.count_tokens(**ask))._request_id,
                (await claude.models.retrieve("demo"))._request_id,
                (await gpt.chat.completions.create(**ask))._request_id,
                (await gpt.models.retrieve("demo"))._request_id,
                (await gpt.embeddings.create(model="openai/e", input="Hi"))._request_id,
            ]
            errors: list[Any] = []
            for call in (
                claude.messages.create(**{**ask, "model": "x/y" * 999}, max_tokens=9),
                claude.models.retrieve("none"),
                claude.messages.batches.list(),
                claude.beta.files.list(),
                gpt.models.retrieve("none"),
                gpt.files.list(),
                gpt.get("/nothing", cast_to=object),
            ):
                with pytest.raises((anthropic.NotFoundError, openai.NotFoundError)) as caught:
                    await call
                errors.append(caught.value)

    ids += [error.request_id for error in errors]
    assert all(one is not None and one.startswith("req_") for one in ids)
    assert len(ids) == len(set(ids)) == 13
    assert all(error.body for error in errors)


async def test_pages_may_read_the_ids():
    async with serve_relay() as relay:
        origin = {"origin": "http://localhost:5173"}
        response = await relay.client.get("/v1/models", headers=origin)

    exposed = response.headers["access-control-expose-headers"]
    assert {"request-id", "x-request-id", "seseragi-estimated"} <= {*exposed.split(", ")}
    assert response.headers["request-id"] == response.headers["x-request-id"]
