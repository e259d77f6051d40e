"""An upstream that says the relay's key again: nobody else is told it."""

import json
from typing import Any

import pytest

from app.testing.upstream import DONE, FINISH, Step, chunk, chunked_head, event, head, send
from tests.serving import HELLO, serve_script

KEY = "sk-test-0123456789"


def call(**fields: Any) -> str:
    return event({"tool_calls": [{"index": 0, "type": "function", **fields}]})


def named(**fields: Any) -> str:
    choice = {"index": 0, "delta": {"content": "a"}}
    return f"data: {json.dumps({'choices': [choice], **fields})}\n\n"


CITATION = "".join(
    f"data: {json.dumps(payload)}\n\n"
    for payload in (
        {"type": "message_start", "message": {"id": "m"}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text"}},
        {
            **{"type": "content_block_delta", "index": 0},
            "delta": {"type": "text_delta", "text": "a"},
        },
        {
            **{"type": "content_block_delta", "index": 0},
            "delta": {"type": "citations_delta", "citation": {"source": "s", "novel": KEY}},
        },
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    )
)


ECHOES: dict[str, list[Step]] = {
    "in text": [head(), send(event({"content": f"it is {KEY}."}) + FINISH + DONE)],
    "in text, in two reads": [chunked_head(), *(chunk(piece) for piece in (event({"content": f"{KEY} "}), FINISH + DONE)), send("0\r\n\r\n")],
    "in what was thought": [head(), send(event({"reasoning_content": KEY}) + FINISH + DONE)],
    "in arguments": [head(), send(call(id="c", function={"name": "f", "arguments": json.dumps({"a": KEY})})), send(FINISH + DONE)],
    "as the id of a call": [head(), send(call(id=KEY, function={"name": "f"}) + FINISH + DONE)],
    "as a name": [head(), send(call(id="c", function={"name": f"f_{KEY}"}) + FINISH + DONE)],
    "as its id": [head(), send(named(id=f"chatcmpl-{KEY}") + FINISH + DONE)],
    "as the model": [head(), send(named(model=KEY) + FINISH + DONE)],
    "in a citation of Anthropic's": [head(), send(CITATION)],
    "as a header": [head(x_request_id=KEY), send(event({"content": "a"}) + FINISH + DONE)]
}  # fmt: skip


@pytest.mark.parametrize("echo", ECHOES)
async def test_a_key_that_is_echoed_is_not_passed_on(echo: str) -> None:
    dialect = "anthropic" if "Anthropic" in echo else "openai_chat"
    async with serve_script(ECHOES[echo], key=KEY, dialect=dialect) as (relay, _):
        reply = await relay.client.post("/v1/chat", json=HELLO)
        shown = reply.text + str(reply.headers)

        assert "stream.end" in shown
        assert KEY not in shown
        assert KEY[3:] not in shown
        assert ("[key]" in shown) == (echo != "as a header")


async def test_a_key_in_what_only_anthropics_clients_receive_is_not_passed_on() -> None:
    payloads = (
        {"type": "message_start", "message": {"id": "m", "usage": {"later": KEY}}},
        {"type": "later", KEY: [KEY]},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "later", "a": KEY}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "later", "a": KEY}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "later": KEY},
        {"type": "message_stop", "later": KEY},
    )
    body = "".join(f"data: {json.dumps(payload)}\n\n" for payload in payloads)
    ask = {"model": "openai/m", "max_tokens": 9, "stream": True, **HELLO}
    async with serve_script([head(), send(body)], key=KEY, dialect="anthropic") as (relay, _):
        reply = await relay.client.post("/v1/messages", json=ask)

    assert reply.text.count("[key]") == 7
    assert KEY[3:] not in reply.text
