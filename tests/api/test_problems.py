"""What is nowhere, or not to be done there, is told in the dialect of the path."""

import pytest

from tests.serving import serve_relay

OPENAI, ANTHROPIC = {"error"}, {"type", "error", "request_id"}


@pytest.mark.parametrize(
    ("method", "path", "status", "keys"),
    [
        ("GET", "/v1/chat/completions", 405, OPENAI),
        ("PUT", "/v1/responses", 405, OPENAI),
        ("GET", "/v1/responses/resp_x/input_items", 404, OPENAI),
        ("GET", "/v1/messages", 405, ANTHROPIC),
        ("POST", "/v1/messages/batches", 404, ANTHROPIC),
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
        ("/v1/streams/st_x/cancel", "POST"),
        ("/v1/ui/chat/a/b/stop", "POST"),
        ("/v1/chat", "POST"),
        ("/v1/models/a/b", "GET, HEAD"),
        ("/static/demo.js", "GET, HEAD"),
    ],
)
async def test_a_wrong_method_is_told_all_those_of_the_path_and_no_other(path, allowed):
    async with serve_relay() as relay:
        response = await relay.client.request("PATCH", path)

    assert (405, allowed) == (response.status_code, response.headers["allow"])
    assert allowed in response.text


@pytest.mark.parametrize(("path", "status"), [("/v1/chat", 405), ("/v1/chatter", 404), ("/x", 404)])
async def test_elsewhere_it_is_a_problem(path, status):
    async with serve_relay() as relay:
        response = await relay.client.get(path)

    assert status == response.status_code
    assert "application/problem+json" == response.headers["content-type"]
