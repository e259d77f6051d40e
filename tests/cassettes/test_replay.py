"""A recorded provider stream, saved and replayed: in every dialect what the live one gave."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app.dialects.answering.ids import public_token
from app.dialects.client_formats import CLIENT_FORMATS
from app.events import Event, decode
from app.framing.sse import Decoder
from app.testing.upstream import DONE, LAST_CHUNK, USAGE, chunk, chunked_head, event, head, send
from tests.dialects.streams import DIALECT_OF, body_of, end_of, recordings
from tests.serving import HELLO, Relay, serve_script

PURPOSES = (
    *("ui", "ag_ui", "openai_chat", "openai_completions", "anthropic", "anthropic.tools"),
    *("openai_responses", "openai_responses.items", "call"),
)
TIMES = re.compile(r'("(?:created|created_at|completed_at)":)[\d.]+')


def masked(text: str, stream: str) -> str:
    """A text without what has to be new: ids that are made of the stream's, and times of making.

    Any other id stays: those of calls that the provider made are the recorded ones.
    """
    text = text.replace(stream, "ID")
    for purpose in PURPOSES:
        token = public_token(stream, purpose)
        text = text.replace(token, purpose).replace(token.replace("-", "_"), purpose)
    return TIMES.sub(r"\1TIME", text)


async def read(relay: Relay, stream: str) -> dict[str, str]:
    """A stream in each dialect, as its frames and as the one object of its result."""
    said = {}
    found: list[Event] = []
    for name in CLIENT_FORMATS:
        url = f"/v1/streams/{stream}/events?format={name}"
        content = b""
        async with relay.client.stream("GET", url) as reply:
            assert 200 == reply.status_code
            async for piece in reply.aiter_bytes():
                content += piece
        said[name] = masked(content.decode(), stream)
        if name == "native":
            found = [decode(message.data) for message in Decoder().feed(content)]
    if end_of(found).status == "completed":
        for name, client_format in CLIENT_FORMATS.items():
            result = msgspec.json.encode(client_format.render_result(stream, found)).decode()
            said[f"result of {name}"] = masked(result, stream)
    return said


async def check_replay(relay: Relay, folder: Path, name: str) -> None:
    """Have an answer given, saved and replayed, and compare the two."""
    live = await relay.client.post("/v1/chat", json=HELLO)
    stream = live.headers["stream-id"]
    saved = await relay.client.post(f"/v1/streams/{stream}/cassette")
    assert 200 == saved.status_code
    (folder / f"{name}.jsonl").write_bytes(saved.content)
    asked = {**HELLO, "model": f"cassette/{name}?speed=0"}
    again = await relay.client.post("/v1/chat", json=asked)

    assert live.status_code == again.status_code, (name, again.text)
    assert name == again.headers["seseragi-cassette"]
    before, after = await read(relay, stream), await read(relay, again.headers["stream-id"])
    assert before.keys() == after.keys()
    for dialect, said in before.items():
        assert said == after[dialect], (name, dialect)


CALL = {"index": 0, "id": "c1", "function": {"name": "now", "arguments": '{"a":'}}
REST = {"index": 0, "function": {"arguments": "1}"}}
ROWS = [{"token": "Hi", "logprob": -0.1, "bytes": None, "top_logprobs": []}]
EVERYTHING = [
    event({"reasoning_content": "Hm."}),
    event({"content": "Hi"}, logprobs={"content": ROWS}),
    event({"tool_calls": [CALL]}),
    event({"content": "two"}, index=1),
    event({"tool_calls": [REST]}),
    event({"refusal": "No."}, index=1),
    event(finish_reason="tool_calls") + event(finish_reason="stop", index=1) + USAGE + DONE,
]


@pytest.mark.parametrize("cut", [False, True], ids=["whole", "cut"])
async def test_replay_says_in_every_dialect_what_an_answer_of_all_kinds_said(
    cut: bool, tmp_path: Path
) -> None:
    async with serve_script(
        [head(), *map(send, EVERYTHING[: 5 if cut else None])], cassettes=tmp_path
    ) as (relay, upstream):
        await check_replay(relay, tmp_path, "all")
        assert 1 == len(upstream.calls)


@pytest.mark.proving
@pytest.mark.parametrize("dialect", sorted(set(DIALECT_OF.values())))
async def test_replay_says_in_every_dialect_what_the_live_stream_said(
    dialect: str, tmp_path: Path
) -> None:
    found: list[Any] = [param.values[0] for param in recordings()]
    rows = [row for row in found if row and DIALECT_OF[row["format"]] == dialect]
    if not rows:
        pytest.skip("no recorded streams")
    async with serve_script([], dialect=dialect, cassettes=tmp_path) as (relay, upstream):
        for number, row in enumerate(rows):
            upstream.script = [chunked_head(), chunk(body_of(row)), LAST_CHUNK]
            await check_replay(relay, tmp_path, f"n{number}")
        assert len(rows) == len(upstream.calls)
