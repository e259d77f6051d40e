"""A full disk refuses new streams for a while, in words that clients try again after."""

import asyncio
from pathlib import Path
from typing import cast

import pytest

from app.eventlog.sqlite.log import SqliteLog
from app.testing.upstream import Until, answer, head
from tests.eventlog.files import empty_disk, fill_disk
from tests.serving import HELLO, serve_relay, serve_script
from tests.waiting import until

STATUSES = {"/v1/chat": 503, "/v1/chat/completions": 503, "/v1/messages": 529}
"""By the path; 529 is Anthropic's word for it."""


async def test_full_disk_is_503_and_may_be_tried_again(tmp_path: Path):
    body = {**HELLO, "model": "demo", "stream": False, "max_tokens": 200}
    async with serve_relay(log=f"sqlite:///{tmp_path}/streams.db") as relay:
        log = cast(SqliteLog, relay.log)
        assert 200 == (await relay.client.post("/v1/chat", json=body)).status_code
        await fill_disk(log)
        for path, status in STATUSES.items():
            for _ in range(20):  # a little may fit into pages that the file has, an end may not
                full = await relay.client.post(path, json=body)
                if full.status_code not in (200, 502):
                    break
            assert (status, "10") == (full.status_code, full.headers.get("retry-after")), full.text
            assert "the disk is full" in full.text
        await empty_disk(log)
        assert 200 == (await relay.client.post("/v1/chat", json=body)).status_code


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("path", STATUSES)
async def test_post_whose_answer_finds_the_disk_full_is_502(
    path: str, stream: bool, tmp_path: Path
):
    """Its provider may have been paid: it has to read what recovery says of its stream."""
    filled = Until()
    script = [filled, head(), *answer("x" * 500_000)[1:]]
    log_url = f"sqlite:///{tmp_path}/streams.db"
    async with serve_script(script, log=log_url) as (relay, upstream):
        body = {**HELLO, "model": "openai/m", "stream": stream, "max_tokens": 200}
        post = asyncio.create_task(relay.client.post(path, json=body))
        await until(lambda: len(upstream.calls) == 1)
        await fill_disk(cast(SqliteLog, relay.log))
        filled.told.set()
        lost = await post
        assert 502 == lost.status_code, lost.text
        assert "stopped before the answer was complete" in lost.text
