"""What a path says of the model arrives as one segment, written as it was built."""

from urllib.parse import quote

import pytest

from app.dialects.upstream_format import MODEL
from app.dialects.upstream_formats import UPSTREAM_FORMATS
from app.errors import RequestError
from app.requests import parse_chat_request
from app.upstreams.endpoints import Upstream
from app.upstreams.http import open_client
from app.upstreams.http_call import HttpCall
from app.upstreams.routes import MAX_NAME, Upstreams
from app.upstreams.targets import Target
from tests.sdk.recorder import serve_recorder

CHAT = parse_chat_request(b'{"messages": [{"role": "user", "content": "x"}]}')

HOSTILE = (
    "a:0",
    "claude@20251001",
    "../../admin",
    "a/..",
    "..%2Fadmin",
    "a%3A0",
    "a?key=1#b;c@d",
    "a\r\nx-evil: 1\r\n\r\n",
    "{model}{region}",
    "モデル é ~!$&'()*+,=",
    " ",
)


async def build_call(target: Target) -> HttpCall:
    return await target.build_call(target.build_request(CHAT), connect_timeout_s=5)


@pytest.mark.parametrize("name", [n for n, d in UPSTREAM_FORMATS.items() if MODEL in d.path])
async def test_a_path_arrives_as_it_was_built(name: str) -> None:
    path = UPSTREAM_FORMATS[name].path
    with serve_recorder() as server:
        async with open_client(connect_timeout_s=5, mounts={}) as http:
            for model in HOSTILE:
                target = Target(Upstream("u", server.url, name), model)
                reply = await http.open(await build_call(target))
                await reply.body.aclose()

    expected = [f"/{path.replace(MODEL, quote(model, safe='@'))}" for model in HOSTILE]
    assert expected == [request.path for request in server.requests]
    assert all("x-evil" not in request.headers for request in server.requests)


async def test_a_query_arrives_as_it_was_built() -> None:
    with serve_recorder() as server:
        query = {"a:b": "c/d?e&f=g é+%3A"}
        upstream = Upstream("u", f"{server.url}/x%3Ay/{{model}}", query=query)
        async with open_client(connect_timeout_s=5, mounts={}) as http:
            request = await build_call(Target(upstream, "m:0"))
            await (await http.open(request)).body.aclose()

    (sent,) = server.requests
    assert request.url.target == sent.path
    assert sent.path.startswith("/x%3Ay/m%3A0/chat/completions?")


@pytest.mark.parametrize("model", [".", ".."])
async def test_a_path_goes_nowhere_up(model: str) -> None:
    target = Target(Upstream("u", "http://127.0.0.1:9", "gemini"), model)
    with pytest.raises(RequestError):
        await build_call(target)


async def test_a_name_that_is_too_long_is_unknown() -> None:
    upstreams = Upstreams([Upstream("u", "http://127.0.0.1:9", "gemini")])
    longest = upstreams.resolve("u/" + "語" * (MAX_NAME - 2)).targets[0]
    assert await build_call(longest)

    with pytest.raises(RequestError, match="unknown model") as refused:
        upstreams.resolve("u/" + "m" * (MAX_NAME - 1))
    assert len(refused.value.message) < 300
