"""The header `seseragi-ignored` names the parts of a request that its provider does not get."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from app.testing.upstream import answer, serve_upstream
from app.upstreams.client_headers import ignored_header
from tests.serving import HELLO, Relay, serve_relay

CHAT: dict[str, Any] = {**HELLO, "model": "u/m"}
UNKNOWN = [
    ("/v1/chat/completions", {**CHAT, "novel\r\nset-cookie: a=b": 1}, "novel??set-cookie??a?b"),
    ("/v1/chat/completions", {**CHAT, "\u30cd\u30b3": 1}, "??"),
    ("/v1/responses", {"model": "u/m", "input": "hello", "novel": 1}, "novel"),
    ("/v1/messages", {**CHAT, "max_tokens": 9, "container": "c"}, "container"),
]


@pytest.fixture
def serve(tmp_path: Path) -> Callable[[], Any]:
    @asynccontextmanager
    async def serve() -> AsyncIterator[Relay]:
        async with serve_upstream() as upstream:
            upstream.script = answer("a")
            url, config = upstream.base_url, tmp_path / "r.toml"
            config.write_text(f'[upstream.u]\nbase_url = "{url}"\noptions = ["safe"]\n')
            async with serve_relay(config=config) as relay:
                yield relay

    return serve


@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize(("path", "body", "named"), UNKNOWN)
async def test_dropped_fields_are_named_in_streams_and_json(path, body, named, streams, serve):
    async with serve() as relay:
        reply = await relay.client.post(path, json={**body, "stream": streams})

    assert 200 == reply.status_code, reply.text
    assert named == reply.headers.get("seseragi-ignored")


@pytest.mark.parametrize("streams", [True, False])
async def test_the_native_format_has_the_header_and_a_notice(streams, serve):
    async with serve() as relay:
        body = {**CHAT, "truncation": "auto", "stream": streams}
        reply = await relay.client.post("/v1/chat", json=body)

    assert "truncation" == reply.headers["seseragi-ignored"]
    assert streams == ("does not support truncation: dropped" in reply.text)


async def test_a_request_that_is_sent_whole_has_no_header(serve):
    async with serve() as relay:
        reply = await relay.client.post("/v1/chat/completions", json=CHAT)

    assert "seseragi-ignored" not in reply.headers


def test_the_header_is_bounded_and_in_safe_characters():
    (value,) = ignored_header(["x" * 99, "a b,c;\n\x00\u2028", *map(str, range(99))]).values()

    assert len(value) < 20 * 82
    assert value.startswith("x" * 80 + ", a?b?c")
    assert value.isascii()
    assert value.isprintable()
