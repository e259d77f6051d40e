"""Bodies that are not quite JSON, or hold what cannot go on: 400 in the client's own words."""

import json
import re

import httpx2
import pytest

from app.dialects.client_formats import CLIENT_FORMATS
from app.testing.upstream import DONE, FINISH, head, send, text
from tests.dialects.clients import REQUESTS, read_failure
from tests.serving import Relay, serve_relay, serve_script

VALUES = {
    "bad UTF-8": b'"\xff"',
    "a cut character": b'"\xe3\x81"',
    "half a pair as bytes": b'"\xed\xa0\x80"',
    "half a pair": rb'"\ud800"',
    "the other half": rb'"a\udc00b"',
    "1e999": b"1e999",
    "-1e999": b"-1e999",
    "NaN": b"NaN",
    "5,000 digits": b"9" * 5000,
    "200,000 digits": b"-" + b"9" * 200_000,
    "deep": b"[" * 800 + b"]" * 800,
    "deeper": b'{"a":' * 100_000,
}


def templates(client_format: str) -> list[str]:
    """Return a format's smallest request, with "@" in place of a value."""
    request = REQUESTS[client_format]
    bodies = [*({**request, name: "@"} for name in request), {**request, "zzz": "@"}]
    deep = json.dumps(request).replace('"Hi"', "@")
    return [deep, *(json.dumps(body).replace('"@"', "@") for body in bodies)]


async def post(relay: Relay, client_format: str, body: bytes) -> httpx2.Response:
    headers = {"content-type": "application/json"}
    return await relay.client.post(
        CLIENT_FORMATS[client_format].path, content=body, headers=headers
    )


@pytest.mark.parametrize("client_format", CLIENT_FORMATS)
async def test_what_cannot_be_read_is_refused_with_its_place(
    client_format: str, capfd: pytest.CaptureFixture[str]
) -> None:
    async with serve_relay() as relay:
        for template in templates(client_format):
            for name, value in VALUES.items():
                body = template.encode().replace(b"@", value)
                response = await post(relay, client_format, body)

                assert 400 == response.status_code, (template, name, response.text[:500])
                reason = read_failure(client_format, response.content)
                assert len(reason) < 500
                assert re.search(r"position \d+|byte \d+|levels|nested|zzz|[\w\]]: ", reason), (
                    reason
                )
    assert "Traceback" not in "".join(capfd.readouterr())


async def test_the_field_of_a_wrong_number_is_named() -> None:
    async with serve_relay() as relay:
        for client_format in ("ui", "anthropic"):
            template = templates(client_format)[-1]
            for value in (b"1e999", b"9" * 5000, b'{"a": [-1e999]}'):
                response = await post(relay, client_format, template.encode().replace(b"@", value))

                assert "zzz" in read_failure(client_format, response.content)


async def test_half_a_pair_in_arguments_goes_on_whole() -> None:
    """They are JSON within JSON, as a model wrote them: nobody has read them before."""
    function = {"name": "f", "arguments": r'{"a": "\ud83d\ude00 \ud800", "b": NaN}'}
    call = {"id": "c", "type": "function", "function": function}
    messages = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": r'{"a": "\udc00", "b": 1e999}'},
    ]
    for dialect in ("anthropic", "gemini", "bedrock_converse", "ollama", "cohere", "openai_chat"):
        async with serve_script([head(), send(text("a") + FINISH + DONE)], dialect=dialect) as (
            relay,
            upstream,
        ):
            body = {"model": "openai/m", "messages": messages}
            response = await relay.client.post("/v1/chat", json=body)

            assert 500 != response.status_code
            sent = upstream.calls[-1].json
            assert "internal" not in response.text
            if dialect in ("anthropic", "gemini"):
                assert '{"a": "😀 ?", "b": null}' in json.dumps(sent, ensure_ascii=False)


async def test_small_values_by_the_million_are_refused() -> None:
    async with serve_relay() as relay:
        for client_format in CLIENT_FORMATS:
            response = await post(relay, client_format, b'{"provider_options": [' + b"[]," * 2**20)

            assert 400 == response.status_code
            assert "values" in read_failure(client_format, response.content)
